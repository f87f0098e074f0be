#!/usr/bin/env bash
# preflight.sh: is this machine ready for job qwen_image? A table of checks, those that failed first; starts nothing.
# usage: preflight.sh
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job qwen_image runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

JOBC_RUN_ROOT=$(dirname -- "$runs")
export JOBC_RUN_ROOT JOBC_RUN_DIR=$own_run
bash "$artifact/node.sh" 0 preflight 2>&1 | sed "s/^/$(uname -n): /" | jobctl table "$(uname -n)"
