#!/usr/bin/env bash
# clean.sh: remove old runs of job aorta. Lists them first, with age and size.
# usage: clean.sh [--keep N] [--keep-checkpoints] [--yes]
#   --keep N            the N newest runs stay, else keep_runs of the spec. So does each one that may still be running
#   --keep-checkpoints  the older runs stay as well, with their last and their best checkpoint; all others in them go
#   --yes               do it; else this asks at a terminal, and only lists elsewhere

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" clean "$@"
