#!/usr/bin/env bash
# logs.sh: what the points of a sweep of sweep printed.
# usage: logs.sh [--run ID] [POINT] [OPTION…]
#   --run ID  that sweep; else the newest
#   POINT     that point alone, by its number; else all, one after another
#   OPTION    as of the logs.sh of a point: --node N, --rank N, --tail N; with a POINT --follow as well

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" logs "$@"
