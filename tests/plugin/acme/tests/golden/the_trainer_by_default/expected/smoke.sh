#!/usr/bin/env bash
# smoke.sh: can the nodes of job job talk to each other? A real collective, through the queue.
# usage: smoke.sh

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

create_temporary_run
export JOBC_RUN_DIR=$run JOBC_RUN_ID=smoke JOBC_ATTEMPT=$attempt JOBC_PAYLOAD=smoke JOBC_TIME_LIMIT_S=60
acme submit --wait "$run/artifact/$attempt/job.acme.sh"
