#!/usr/bin/env bash
# shell.sh: a shell, or one command, on a host of job two, in the environment and the folder of its ranks.
# usage: shell.sh [--run ID] [NODE] [-- COMMAND ARGUMENT…]
#   --run ID  beside that run; else beside the live one, or with the newest run's code
#   NODE      its number; else 0

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job two runs

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

beside=$run_id$own_run
if [[ -n $beside ]] || ! no_runs; then choose_run "$run_id"; else run=''; fi
if [[ -n $run ]] && is_live "$run"; then beside=yes; fi
copy=$artifact attempt=0
if [[ -n $beside ]]; then # the run's own artifact and hosts, which may not be the present ones
  attempt=$(last_attempt "$run")
  copy=$run/artifact/$attempt
fi
hosts=$copy/hosts.txt
check_node "$node" "$(wc -l <"$hosts")"
task "$copy" "$attempt" "$node" shell "$@"
on_host "$(sed -n "$((node + 1))p" "$hosts")" "${task[@]}"
