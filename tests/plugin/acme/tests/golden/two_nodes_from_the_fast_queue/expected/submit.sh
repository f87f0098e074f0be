#!/usr/bin/env bash
# submit.sh: start job hello, as a new run or as the next attempt of one.
# usage: submit.sh [--resume ID [--new-code] | --fork ID] [--run-id ID]
#   --resume ID  continue that run: same model, data, seed, optimizer and batch
#   --new-code   with --resume: copy your code again; without it, the run keeps the code of its first start
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  ID of the new run; default: date, time and four random digits

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" submit "$@"
