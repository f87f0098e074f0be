#!/usr/bin/env bash
# preflight.sh: are the hosts of job audio_encoder reached, alike and ready? A table of checks, those that failed first.
# usage: preflight.sh
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job audio_encoder runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

try "create the folder $runs" mkdir -p -- "$runs"
create_temporary_run "$runs" # where the hosts must see it
send_run
code=0
mapfile -t names <"$hosts"
all_nodes preflight | jobctl table "${names[@]}" || code=1
forget_secrets "$run"
exit "$code"
