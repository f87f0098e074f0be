#!/usr/bin/env bash
# shell.sh: a shell, or one command, in a pod of a run of job mine, in the environment of its ranks.
# usage: shell.sh [--run ID] [--node N] [-- COMMAND ARGUMENT…]
#   --run ID  beside that run; else beside the live one, or in a pod of its own, without GPUs, when none is live
#   --node N  on its node N; else on node 0

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mine runs

run_id='' node=0
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --node) need_value "$@" && node=$2 && shift ;;
    --) shift && break ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

terminal=(--stdin)
if [[ -t 0 && -t 1 ]]; then terminal=(--stdin --tty); fi
if [[ -n $run_id ]] || ! no_runs; then choose_run "$run_id"; else run=''; fi
if [[ -n $run ]] && is_live "$run"; then
  use_object "$run"
  check_node "$node" "$nodes"
  pod=$(running_pods '' "$node" | tail -n 1)
  [[ -n $pod ]] || die 1 "node $node of run $(basename -- "$run") has no pod that runs" 'status.sh tells what it waits for'
  exec kubectl ${context:+--context="$context"} --namespace="$namespace" \
    exec "${terminal[@]}" "$pod" -- bash /jobc/files/task.sh shell "$@"
fi

# No run is live.
choose_cluster
check_node "$node" "$nodes"
lone_pod
code=0
k exec "${terminal[@]}" "$own_object-shell" -- bash /jobc/files/task.sh shell "$@" || code=$?
exit "$code"
