#!/usr/bin/env bash
# stop.sh: end a run of job queued for good: it saves, ends with 0, and nobody starts it again.
# usage: stop.sh [--run ID] [--now]
#   --run ID  that run; else the one that is live
#   --now     kill it at once: what came after its last checkpoint is lost

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job queued runs

grace_s=60

run_id='' now=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --now) now=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

choose_live_run "$run_id"
mark_stopped "$run"
if [[ -z $now ]]; then
  echo "stopping run $(basename -- "$run"): it has $grace_s s to save"
  signal_nodes TERM "$run"
  if wait_for_end "$((grace_s + 10))" "$run"; then exit; fi
  echo "it has not ended after $((grace_s + 10)) s"
fi
echo "killing run $(basename -- "$run")"
signal_nodes QUIT "$run"
if wait_for_end 15 "$run"; then exit; fi
signal_nodes KILL "$run"
wait_for_end 15 "$run" || die 1 "run $(basename -- "$run") does not end" 'status.sh tells where its nodes are; ps -o pid,stat,wchan:30,args there'
