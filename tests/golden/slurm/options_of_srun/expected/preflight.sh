#!/usr/bin/env bash
# preflight.sh: will Slurm take job mpi, and are the nodes that it would get alike and ready? Starts no training.
# usage: preflight.sh [--queue-only]
#   --queue-only  only ask Slurm whether it would take the job; allocate no nodes
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mpi runs

only=''
case ${1:-} in
  '') ;;
  --queue-only) only=yes ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

if said=$(clean sbatch --test-only "$artifact/job.sbatch" 2>&1); then
  echo "ok    Slurm takes the job: ${said#sbatch: }"
else
  printf 'FAIL  Slurm refuses the job: %s\n' "${said//$'\n'/; }"
  printf '      hint: sinfo -l shows the partitions and their limits, sinfo -R why nodes are down\n'
  exit 1
fi
if [[ -n $only ]]; then exit; fi
try "create the folder $runs" mkdir -p -- "$runs"
create_temporary_run "$runs" # where the nodes must see it
mapfile -t ranks < <(seq 0 1)
echo "waiting for 2 nodes of Slurm; Ctrl-C ends it" >&2
code=0
on_nodes --label -- preflight 2>&1 | jobctl table "${ranks[@]}" || code=1
forget_secrets "$run"
exit "$code"
