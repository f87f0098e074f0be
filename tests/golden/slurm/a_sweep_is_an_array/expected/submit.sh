#!/usr/bin/env bash
# submit.sh: queue all points of sweep sweep on Slurm as one job array; each point is a run of its own.
# usage: submit.sh [--wait] [--limit N] [--after ID|KIND:ID|singleton]…
#   --wait     wait for the end of all; the exit code is 0 when all have ended well, else 1
#   --after ID start after job ID has ended well; or afterany:ID, afternotok:ID, singleton
#   --limit N  at most N points at a time

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" submit "$@"
