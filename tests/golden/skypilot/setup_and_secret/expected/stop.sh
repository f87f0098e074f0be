#!/usr/bin/env bash
# stop.sh: end a run of job with_secret for good: it saves, ends with 0, and nobody starts it again. Says what still costs money.
# usage: stop.sh [--run ID] [--now] [--down]
#   --run ID  that run; else the one that is live
#   --now     kill it at once: what came after its last checkpoint is lost
#   --down    then end the cluster, and whatever else runs on it; without a live run only that

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job with_secret runs

grace_s=60

run_id='' now='' down=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --now) now=yes ;;
    --down) down=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
need_sky

# bring_down: the cluster, where that is asked for; else says what it costs.
bring_down() {
  if [[ -n $down && -n $(cluster_status) ]]; then sky down --yes "$cluster"; fi
  say_cost
}

# stop_run: false when it does not end.
stop_run() {
  mark_stopped "$run"
  if [[ -z $now ]]; then
    echo "stopping run $(basename -- "$run"): it has $grace_s s to save"
    signal_nodes TERM "$run"
    if wait_for_end "$((grace_s + 40))" "$run"; then return; fi # SkyPilot itself takes some seconds for each answer
    echo "it has not ended after $((grace_s + 40)) s"
  fi
  echo "killing run $(basename -- "$run")"
  signal_nodes KILL "$run"
  wait_for_end 60 "$run"
}

if [[ -n $down && -z $run_id$own_run ]] && { no_runs || ! choose_run '' || ! is_live "$run"; }; then
  bring_down
  exit
fi
choose_live_run "$run_id"
code=0
stop_run || code=1
bring_down
if ((code)) && [[ -z $down ]]; then die 1 "run $(basename -- "$run") does not end" 'stop.sh --down ends its machines'; fi
