#!/usr/bin/env bash
# submit.sh: start job zero3 on its hosts, as a new run or as the next attempt of one.
# usage: submit.sh [--detach | --only-prepare] [--resume ID [--new-code] | --fork ID] [--run-id ID]
#   --detach     return when all nodes are up; else this waits, and its exit code is the job's. The run needs neither
#                this script nor this machine: only Ctrl-C here ends it
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --new-code   with --resume: copy your code again; else it is that of the first start. What the run wrote stays
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the run folder and print its path; then RUN/artifact/0/node.sh RANK on each host starts it

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" submit "$@"
