#!/usr/bin/env bash
# logs.sh: what a run of job v1.2_it-s printed.
# usage: logs.sh [--run ID] [--rank N] [--follow]
#   --run ID  that run; else the newest
#   --rank N  the output of global rank N; else the console of node 0
#   --follow  go on until the run ends

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job v1.2_it-s runs

run_id='' rank='' follow=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --rank) need_value "$@" && rank=$2 && shift ;;
    --follow | -f) follow=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

choose_run "$run_id"
log=$run/logs/node_00.log
if [[ -n $rank ]]; then
  [[ $rank =~ ^[0-9]+$ ]] || die 2 "--rank takes a number, not $rank"
  log=$run/logs/rank_$(printf '%02d' "$((10#$rank))").log
fi
fetch_log "$run" "$log"
[[ -f $log ]] || die 1 "no $(basename -- "$log") in $run/logs" 'status.sh shows whether the run has started'
if [[ -n $follow ]] && is_live "$run"; then
  follow_log "$run" "$log"
  exit
fi
exec cat -- "$log"
