#!/usr/bin/env bash
# logs.sh: what a run of job mpi printed.
# usage: logs.sh [--run ID] [--node N | --rank N] [--tail N] [--follow]
#   --run ID  that run; else the newest
#   --node N  the console of node N; else of all nodes, merged by time, and what failed first before it
#   --rank N  the output of global rank N
#   --tail N  only the last N lines of what is there
#   --follow  go on until the run ends

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" logs "$@"
