#!/usr/bin/env bash
# status.sh: how a run of job two is doing: nodes, exit code in words, last step and loss, logs.
# usage: status.sh [--run ID] [--all] [--format FORMAT]
#   --run ID         that run; else the newest
#   --all            one line for each run
#   --format FORMAT  text, or json for programs: docs/reference/status.md

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job two runs

# each node has its own run folder: bring what they know here first
if [[ " $* " == *' --all '* ]]; then
  while IFS= read -r -d '' run; do is_live "$run" || true; done < <(list_own_runs)
elif run=$(jobctl status "$@" --field path 2>/dev/null); then
  is_live "$run" || true
  fetch_news "$run"
fi
jobctl status "$@"
