#!/usr/bin/env bash
# storage.sh: print a file of a run of job opensora_k8s from the storage of its pods, through a pod made for it. logs.sh calls it.
# usage: storage.sh RUN FILE
#   exit 3 = the storage does not have it

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job opensora_k8s runs

run=$1
use_object "$run"
lone_pod
k exec "$own_object-shell" -- cat "$(storage_of "$run")/$2" 2>/dev/null || exit 3
