#!/usr/bin/env bash
# status.sh: how the points of a sweep of sweep are doing, one line each.
# usage: status.sh [--run ID]
#   --run ID  that sweep; else the newest
#   exit 0 = all have ended well, or none has ended otherwise yet

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
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
echo "sweep $(basename -- "$run"), job array $(key "$(job_file "$run")" job_id)"
describe_points "$run"
