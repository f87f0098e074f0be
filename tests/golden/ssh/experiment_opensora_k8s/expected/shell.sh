#!/usr/bin/env bash
# shell.sh: a shell, or one command, on a host of job opensora_k8s, in the environment and the folder of its ranks.
# usage: shell.sh [--run ID] [--node N] [-- COMMAND ARGUMENT…]
#   --run ID  with that run's code; else the newest run's
#   --node N  on its node N; else on node 0

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job opensora_k8s /mnt/opensora/runs

run_id='' node=0
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --node) need_value "$@" && node=$2 && shift ;;
    [0-9]*) node=$1 ;;
    --) shift && break ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

[[ $node =~ ^[0-9]+$ ]] || die 2 "no number of a node: $node" "0 to $((nodes - 1))"
host=$(sed -n "$((node + 1))p" "$hosts")
[[ -n $host ]] || die 1 "there is no node $node" "0 to $((nodes - 1))"
if [[ -n $run_id ]] || ! no_runs; then choose_run "$run_id"; else run=''; fi
task "$artifact" 0 "$node" shell "$@"
on_host "$host" "${task[@]}"
