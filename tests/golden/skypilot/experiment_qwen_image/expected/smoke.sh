#!/usr/bin/env bash
# smoke.sh: can the nodes that job qwen_image would get talk to each other? A real collective, in seconds.
# usage: smoke.sh
#   exit 0 = yes. Machines that it starts stay, for the job: stop.sh --down ends them

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

need_sky
trial smoke
