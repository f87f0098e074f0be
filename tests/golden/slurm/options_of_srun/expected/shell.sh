#!/usr/bin/env bash
# shell.sh: a shell, or one command, on a node of a run of job mpi, in the environment of its ranks.
# usage: shell.sh [--run ID] [NODE] [-- COMMAND ARGUMENT…]
#   --run ID  beside that run; else beside the live one, or on a node of its own when none is live
#   NODE      its number in the live run; else 0

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mpi runs

run_id='' node=0
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --) shift && break ;;
    -h | --help) show_help && exit ;;
    -*) bad_option "$1" ;;
    *) node=$1 ;;
  esac
  shift
done

pty=()
if [[ -t 0 && -t 1 ]]; then pty=(--pty); fi
if [[ -n $run_id ]] || ! no_runs; then choose_run "$run_id"; else run=''; fi
said=''
if [[ -n $run ]]; then hear job_state "$run"; fi
if [[ $said == RUNNING* ]]; then
  read -r id list <<<"$(squeue --noheader --jobs="$(job_id "$(job_file "$run")")" --format='%A %N')"
  mapfile -t hosts < <(scontrol show hostnames "$list")
  check_node "$node" ${#hosts[@]}
  attempt=$(last_attempt "$run")
  exec srun --jobid="$id" --overlap --nodes=1 --ntasks=1 --nodelist="${hosts[node]}" --mpi=none "${pty[@]}" \
    env "JOBC_RUN_DIR=$run" "JOBC_ATTEMPT=$attempt" "JOBC_JOB_ID=$id" "JOBC_HEAD_ADDR=${hosts[0]}" "JOBC_NODE_LIST=$list" \
    bash "$run/artifact/$attempt/node.sh" "$node" shell "$@"
fi
[[ $node == 0 ]] || die 2 "there is no node $node, for no run is live" 'without NODE this asks for a node of its own'
try "create the folder $runs" mkdir -p -- "$runs"
run=${run:-$runs}
on_nodes --nodes=1 "${pty[@]}" -- shell "$@"
