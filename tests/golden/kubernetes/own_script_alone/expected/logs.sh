#!/usr/bin/env bash
# logs.sh: what a run of job mine printed.
# usage: logs.sh [--run ID] [--node N | --rank N] [--follow]
#   --run ID  that run; else the newest
#   --node N  the console of node N, instead of that of node 0
#   --rank N  the output of global rank N, from the storage of the run
#   --follow  go on until the run ends; without --node and --rank all nodes. Kubernetes keeps no log of a pod that it deletes

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mine runs

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
if [[ ! $node$rank =~ ^[0-9]*$ ]]; then die 2 '--node and --rank take a number'; fi

choose_run "$run_id"
[[ -n $(job_file "$run") ]] || die 1 "run $(basename -- "$run") was not sent to a cluster" 'submit.sh sends one'
use_object "$run"

# The pods of a Job that starts again are others, so this looks again as long as the run is live.
if [[ -n $follow && -z $rank ]]; then
  seen=' '
  while :; do
    live=''
    if is_live "$run"; then live=yes; fi
    while IFS='|' read -r index pod phase _; do
      if [[ $phase == Pending || $seen == *" $pod "* || (-n $node && $index != "$node") ]]; then continue; fi
      seen+="$pod "
      k logs --follow --prefix "$pod" | sed -u -E 's/^\[pod\/.*-([0-9]+)-[^-]*\/node\] /\1: /' &
    done < <(pods '')
    if [[ -z $live ]]; then break; fi
    sleep 2
  done
  wait
  run_status "$run"
  exit
fi

node=$((10#${node:-0}))
log=logs/node_$(printf '%02d' "$node").log
if [[ -n $rank ]]; then
  node=$((10#$rank / 8))
  log=logs/rank_$(printf '%02d' "$((10#$rank))").log
fi
if [[ -n $follow ]] && is_live "$run"; then
  read_storage follow "$run" "$log" "$node" || true # the pod that it reads through ends
  run_status "$run"
  exit
fi
read_storage '' "$run" "$log" "$node" ||
  die 1 "no $log of run $(basename -- "$run"): it is in no pod any more" 'logs.sh --node N reads what an ended pod printed, as long as Kubernetes keeps the pod'
