#!/usr/bin/env bash
# storage.sh: the runs of job train on the storage of their pods, through a pod made for it. logs.sh and clean.sh call it.
# usage: storage.sh RUN FILE   prints the file; exit 3 = the storage does not have it
#        storage.sh --remove   removes each RUN on standard input; prints `removed` or `failed`

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job train runs

if [[ $1 == --remove ]]; then
  while IFS= read -r run; do
    use_object "$run"
    keep_lone_pod
    if k exec "$own_object-shell" -- rm -rf -- "$(storage_of "$run")" </dev/null >&2; then echo removed; else echo failed; fi
  done
  exit
fi

run=$1
use_object "$run"
lone_pod
k exec "$own_object-shell" -- cat "$(storage_of "$run")/$2" 2>/dev/null || exit 3
