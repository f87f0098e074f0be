#!/usr/bin/env bash
# status.sh: how the points of a sweep of sweep are doing, one line each.
# usage: status.sh [--run ID]
#   --run ID  that sweep; else the newest
#   exit 0 = all have ended well, or none has ended otherwise yet

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job sweep+sweep runs

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
echo "sweep $(basename -- "$run"), job array $(job_id "$(job_file "$run")")"
describe_points "$run"
