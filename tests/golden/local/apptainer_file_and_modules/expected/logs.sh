#!/usr/bin/env bash
# logs.sh: what a run of job boxed printed.
# usage: logs.sh [--run ID] [--node N] [--rank N] [--follow]
#   --run ID  that run; else the newest
#   --node N  the console of node N; else of all nodes, merged by time, and what failed first before it
#   --rank N  the output of global rank N
#   --follow  go on until the run ends

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job boxed runs

nodes=1

run_id='' node='' rank='' follow=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --node) need_value "$@" && node=$2 && shift ;;
    --rank) need_value "$@" && rank=$2 && shift ;;
    --follow | -f) follow=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
[[ $node$rank =~ ^[0-9]*$ && ( -z $node || -z $rank ) ]] || die 2 '--node and --rank take a number, and one of them is enough'

choose_run "$run_id"
logs=node_00.log
if [[ -n $rank ]]; then
  nodes=1
  logs=rank_$(printf '%02d' "$((10#$rank))").log
elif [[ -n $node ]]; then
  nodes=1
  logs=node_$(printf '%02d' "$((10#$node))").log
elif ((nodes > 1)); then
  logs='node_*.log'
fi
if [[ -n $follow ]] && is_live "$run"; then
  follow_logs "$run" "$nodes" "$logs"
  exit
fi
fetch_logs "$run" "$logs"
[[ -n $(log_sizes "$run" "$logs") ]] || die 1 "no $logs in $run/logs" 'status.sh shows whether the run has started'
if ((nodes > 1)); then print_failure "$run"; fi
print_logs "$run" "$nodes" <<<"$(log_sizes "$run" "$logs")"
