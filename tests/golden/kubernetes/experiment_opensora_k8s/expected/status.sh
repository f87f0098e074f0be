#!/usr/bin/env bash
# status.sh: how a run of job opensora_k8s is doing: nodes, exit code in words, last step and loss, logs.
# usage: status.sh [--run ID] [--all] [--format FORMAT]
#   --run ID         that run; else the newest
#   --all            one line for each run
#   --format FORMAT  text, or json for programs: docs/reference/status.md

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job opensora_k8s runs

# of a run whose object is gone its storage knows how it ended
if [[ " $* " != *' --all '* ]] && run=$(jobctl status "$@" --field path 2>/dev/null); then fetch_news "$run"; fi
jobctl status "$@"
