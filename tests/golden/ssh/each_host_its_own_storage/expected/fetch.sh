#!/usr/bin/env bash
# fetch.sh: bring here what the hosts of job two know of its runs. status.sh, logs.sh and clean.sh call it.
# usage: fetch.sh state|news|secrets|LOG RUN…
#   state    is it live?      news  how every node is, and its last step
#   secrets  forget those of the run, here and on its hosts
#   LOG      a file in logs/, or 'node_*.log' for the consoles of all nodes

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job two runs

for run in "${@:2}"; do
  case $1 in
    state) is_live "$run" || true ;;
    news) fetch_news "$run" ;;
    secrets) forget_secrets "$run" ;;
    *) fetch_logs "$run" "$1" ;;
  esac
done
