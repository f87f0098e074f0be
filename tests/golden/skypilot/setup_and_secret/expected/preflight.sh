#!/usr/bin/env bash
# preflight.sh: will SkyPilot take job with_secret, and are the nodes that it would get alike and ready? Starts no training.
# usage: preflight.sh [--queue-only]
#   --queue-only  only ask SkyPilot whether it would launch the job, and what it would cost; start no machines
#   exit 0 = ready, 1 = some check failed. Machines that it starts stay, for the job: stop.sh --down ends them

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" preflight "$@"
