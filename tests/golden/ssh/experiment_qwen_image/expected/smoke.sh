#!/usr/bin/env bash
# smoke.sh: can the hosts of job qwen_image talk to each other? A real collective, in seconds.
# usage: smoke.sh
#   exit 0 = yes; its run folder is temporary, and kept only when it fails

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
if [[ ${1:-} == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
type -P python3 >/dev/null || { echo "error: python3 is not found on $(uname -n)" >&2 && exit 1; }
here=${BASH_SOURCE[0]}
if [[ $here != */* ]]; then here=./$here; fi
exec python3 -I -S "${here%/*}/jobctl" smoke "$@"
