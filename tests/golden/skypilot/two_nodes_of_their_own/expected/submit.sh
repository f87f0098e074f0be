#!/usr/bin/env bash
# submit.sh: send job hello to SkyPilot, as a new run or as the next attempt of one.
# usage: submit.sh [--wait] [--resume ID | --fork ID] [--run-id ID]
#   --wait       print what it prints until it ends; the exit code is the job's
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the record, print its path, send nothing

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" submit "$@"
