#!/usr/bin/env bash
# submit.sh: queue job hello on Slurm, as a new run.
# usage: submit.sh

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads what is not set and read here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job hello /shared/runs

# The run folder and its copy of this artifact, before the job exists: Slurm does not create the folder of --output.
create_run ''
describe_run ''
prune_runs 0 ''

# Inside an allocation these would go into the new job and cut its cores (SLURM_CPU_BIND) or override job.sbatch.
for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SRUN_@}" "${!PMI@}"; do [[ $name == SLURM_CONF ]] || unset "$name"; done
: "${HF_TOKEN:?export it first: the job gets it from this shell}"

sbatch --parsable \
  --chdir="$run" \
  --output="$run/logs/slurm-%j.log" \
  --export=ALL \
  "$run/artifact/0/job.sbatch" "$run" 0
unfinished='' # queued: the folder is a run now; until here a failure removes it
