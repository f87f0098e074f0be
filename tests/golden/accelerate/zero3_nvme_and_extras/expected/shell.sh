#!/usr/bin/env bash
# shell.sh: a shell, or one command, on a host of job nvme, in the environment and the folder of its ranks.
# usage: shell.sh [--run ID] [NODE] [-- COMMAND ARGUMENT…]
#   --run ID  beside that run; else beside the live one, or with the newest run's code
#   NODE      its number; else 0

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" shell "$@"
