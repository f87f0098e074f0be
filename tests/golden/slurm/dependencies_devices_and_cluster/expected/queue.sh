# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# queue.sh: tries job queued on nodes as it would get them. Sourced by engine.sh.

# clean COMMAND…: without what an outer allocation would put into a new job (SLURM_CPU_BIND cuts its cores), and without
# whatever else this shell has: Slurm stores the environment of a job.
clean() {
  local name kept=()
  for name in HOME USER LOGNAME SHELL PATH LANG LC_ALL TZ MODULEPATH MODULESHOME LMOD_CMD SLURM_CONF SLURM_CLUSTERS JOBC_RUN_ROOT; do
    if [[ -n ${!name:-} ]]; then kept+=("$name=${!name}"); fi
  done
  env -i "${kept[@]}" "$@"
}

# on_nodes [SRUN OPTION…] -- PAYLOAD COMMAND…: task.sh on nodes as the job would get them, in an allocation of ten minutes.
on_nodes() {
  local flags more=()
  while [[ $1 != -- ]]; do more+=("$1") && shift; done
  shift
  mapfile -t flags < <(sed -n 's/^#SBATCH //p' "$artifact/job.sbatch" |
    grep -Ev '^--(time|signal|requeue|no-requeue|open-mode|dependency|ntasks-per-node|cpus-per-task)')
  flags+=(--cpus-per-task=32)
  clean srun "${flags[@]}" --ntasks-per-node=1 --time=10 --mpi=none --quiet "${more[@]}" bash "$artifact/task.sh" "$run" 0 "$@"
}
