#!/usr/bin/env bash
# smoke.sh: can two processes of job mine talk to each other here? A real collective, in seconds.
# usage: smoke.sh
#   exit 0 = yes; its run folder is temporary, and kept only when it fails

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mine runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

create_temporary_run
export JOBC_RUN_DIR=$run JOBC_RUN_ID=smoke JOBC_JOB_ID=smoke JOBC_NODE_RANK=0 JOBC_ATTEMPT=0
export JOBC_HEAD_ADDR=127.0.0.1 JOBC_HEAD_PORT=0 JOBC_TIME_LIMIT_S=60

bash "$run/artifact/0/node.sh" 0 smoke &
node=$!
trap 'kill -TERM "$node" 2>/dev/null' TERM INT HUP
code=0
wait "$node" || code=$?
while kill -0 "$node" 2>/dev/null; do # a signal ended the first wait
  code=0
  wait "$node" || code=$?
done
if ((code != 0)); then
  keep_temporary_run
  printf 'its logs are in %q\n' "$run/logs" >&2
fi
exit "$code"
