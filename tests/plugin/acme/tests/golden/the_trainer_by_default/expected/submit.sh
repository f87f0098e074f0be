#!/usr/bin/env bash
# submit.sh: queue job job with acme, as a new run, and return.
# usage: submit.sh

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads the others
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job job runs

code_kind=lib
code_root=.
code_max_bytes=209715200

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

create_run
if [[ $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
describe_run ''

JOBC_RUN_ID=$(basename -- "$run")
export JOBC_RUN_ID JOBC_RUN_DIR=$run JOBC_ATTEMPT=$attempt JOBC_TIME_LIMIT_S=0
acme submit "$run/artifact/$attempt/job.acme.sh" >"$run/state/acme_job"
keep_run
echo "run $JOBC_RUN_ID is queued as job $(<"$run/state/acme_job")"
