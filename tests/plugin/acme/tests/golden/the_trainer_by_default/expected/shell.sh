#!/usr/bin/env bash
# shell.sh: a shell, or one command, in the environment and the folder in which job job runs.
# usage: shell.sh [--run ID] [NODE] [-- COMMAND ARGUMENT…]
#   --run ID  with that run's code; else the newest run's, or the code as it is now when there is none
#   NODE      its number; else 0, which is all there is on this machine

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job job runs

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

check_node "$node" 1
run=''
if [[ -n $run_id ]] || ! no_runs; then choose_run "$run_id"; fi
export JOBC_RUN_DIR=$run
exec bash "$artifact/node.sh" "$node" shell "$@"
