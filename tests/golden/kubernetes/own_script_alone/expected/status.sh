#!/usr/bin/env bash
# status.sh: how a run of job own is doing: nodes, exit code in words, last step and loss, logs.
# usage: status.sh [--run ID] [--all]
#   --run ID  that run; else the newest
#   --all     one line for each run

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job own runs

run_id='' all=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --all) all=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done

if [[ -n $all ]]; then
  while IFS= read -r -d '' run; do
    printf '%-22s %s\n' "$(basename -- "$run")" "$(status_or_owner "$run")"
  done < <(list_runs)
  exit
fi

choose_run "$run_id"
fetch_news "$run"
echo "run $(basename -- "$run") of job $job_name, attempt $(last_attempt "$run"): $(run_status "$run")"
describe_reason "$run"
describe_nodes "$run"
describe_next "$run"
printf '  logs in %q\n' "$run/logs"
