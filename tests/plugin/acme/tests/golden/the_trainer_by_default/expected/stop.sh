#!/usr/bin/env bash
# stop.sh: end a run of job job for good, queued or running: it saves and ends with 0.
# usage: stop.sh [--run ID]
#   --run ID  that run; else the newest

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job job runs

run_id=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

choose_run "$run_id"
mark_stopped "$run"
acme cancel "$(<"$run/state/acme_job")"
