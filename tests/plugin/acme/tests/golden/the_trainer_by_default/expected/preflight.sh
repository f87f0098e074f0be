#!/usr/bin/env bash
# preflight.sh: are the nodes that acme gives job job alike and ready? A table of checks, those that failed first.
# usage: preflight.sh
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job job runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

try "create the folder $runs" mkdir -p -- "$runs"
create_temporary_run "$runs" # where the nodes must see it
mapfile -t ranks < <(seq 0 0)
export JOBC_RUN_DIR=$run JOBC_RUN_ID=preflight JOBC_ATTEMPT=$attempt JOBC_PAYLOAD=preflight JOBC_TIME_LIMIT_S=60
acme submit --wait "$run/artifact/$attempt/job.acme.sh" 2>&1 | jobctl table "${ranks[@]}"
