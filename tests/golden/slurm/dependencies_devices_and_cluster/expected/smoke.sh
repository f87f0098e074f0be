#!/usr/bin/env bash
# smoke.sh: can the nodes that job queued would get talk to each other? A real collective, in seconds.
# usage: smoke.sh
#   exit 0 = yes; its run folder is temporary, and kept only when it fails

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job queued runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

try "create the folder $runs" mkdir -p -- "$runs"
create_temporary_run "$runs" # where the nodes see it
echo "waiting for 2 nodes of Slurm; Ctrl-C ends it" >&2
code=0
on_nodes --label -- smoke || code=$?
forget_secrets "$run"
if ((code != 0)); then
  keep_temporary_run
  printf 'its logs are in %q\n' "$run/logs" >&2
fi
exit "$code"
