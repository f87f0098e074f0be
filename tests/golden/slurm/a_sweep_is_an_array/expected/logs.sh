#!/usr/bin/env bash
# logs.sh: what the points of a sweep of sweep printed.
# usage: logs.sh [--run ID] [POINT [OPTION…]]
#   --run ID  that sweep; else the newest
#   POINT     that point alone, by its number; OPTIONs as of its own logs.sh, such as --follow or --rank 0

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job sweep+sweep runs

run_id='' point=''
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    -h | --help) show_help && exit ;;
    -*) bad_option "$1" ;;
    *) point=$1 && shift && break ;;
  esac
  shift
done

choose_run "$run_id"
if [[ -n $point ]]; then
  grep -qxF -- "$point" <<<"$(elements "$run")" || die 2 "there is no point $point" 'status.sh lists them, with their numbers'
  exec "$run/points/$point/logs.sh" "$@"
fi
while IFS= read -r element; do
  printf '==> point %s, %s\n' "$element" "$(point_run "$run" "$element")"
  "$run/points/$element/logs.sh" </dev/null || true # it may not have started
done < <(elements "$run")
