#!/usr/bin/env bash
# stop.sh: end all points of a sweep of sweep for good: those that run save, those that wait never start.
# usage: stop.sh [--run ID] [--now]
#   --run ID  that sweep; else the newest
#   --now     kill them at once: what came after their last checkpoints is lost

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job sweep+sweep runs

grace_s=60

run_id='' steps=(TERM QUIT KILL)
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --now) steps=(QUIT KILL) ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

choose_run "$run_id" change
sweep=$run
all_ended "$sweep" || true # asks Slurm
while IFS= read -r element; do # first of all, so that none starts in the place of one that has ended
  run=$(point_run "$sweep" "$element")
  if is_live "$run"; then mark_stopped "$run"; fi
done < <(elements "$sweep")
for step in "${steps[@]}"; do
  if all_ended "$sweep"; then break; fi
  echo "sweep $(basename -- "$sweep"): SIG$step to all points that have not ended"
  while IFS= read -r element; do # as all_ended has just seen them
    run=$(point_run "$sweep" "$element")
    if is_live "$run"; then signal_nodes "$step" "$run"; fi
  done < <(elements "$sweep")
  until_s=$((SECONDS + $([[ $step == TERM ]] && echo "$((grace_s + 10))" || echo 15)))
  until all_ended "$sweep" || ((SECONDS >= until_s)); do sleep 1; done
done
jobctl status --run "$sweep" || true
all_ended "$sweep" || die 1 'some points do not end' 'status.sh in their folders tells where their nodes are'
