#!/usr/bin/env bash
# preflight.sh: are the hosts of job two reached, alike and ready? A table of checks, those that failed first.
# usage: preflight.sh
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job two runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

try "create the folder $runs" mkdir -p -- "$runs"
create_temporary_run "$runs" # where the hosts must see it
send_run
code=0
source "$artifact/lib/jobc_trainer/rt/table.sh"
mapfile -t names <"$hosts"
all_nodes preflight | table "${names[@]}" || code=1
forget_secrets "$run"
exit "$code"
