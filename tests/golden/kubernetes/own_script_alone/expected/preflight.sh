#!/usr/bin/env bash
# preflight.sh: will the cluster take job mine, and are the nodes that it would get alike and ready? Starts no training.
# usage: preflight.sh [--queue-only]
#   --queue-only  only ask the cluster whether it would take the job; start no pods
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mine runs

only=''
case ${1:-} in
  '') ;;
  --queue-only) only=yes ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

choose_cluster
if said=$(ask_server preflight '' ''); then
  echo "ok    the cluster takes the job in $(where_it_is)"
else
  printf 'FAIL  the cluster refuses the job in %s: %s\n' "$(where_it_is)" "$(tail -c 600 <<<"${said//$'\n'/; }")"
  exit 1
fi
if [[ -n $only ]]; then exit; fi
mapfile -t ranks < <(seq 0 1)
trial preflight | { grep -v '^[0-9]*: jobc: ' || true; } | jobctl table "${ranks[@]}"
