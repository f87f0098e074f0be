#!/usr/bin/env bash
# smoke.sh: can the pods that job mine would get talk to each other? A real collective, in seconds.
# usage: smoke.sh
#   exit 0 = yes; its run folder, below .checks/ in the folder of all runs, is kept only when it fails

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

choose_cluster
trial smoke
