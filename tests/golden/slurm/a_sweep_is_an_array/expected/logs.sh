#!/usr/bin/env bash
# logs.sh: what the points of a sweep of sweep printed.
# usage: logs.sh [--run ID] [POINT [OPTION…]]
#   --run ID  that sweep; else the newest
#   POINT     that point alone, by its number; OPTIONs as of its own logs.sh, such as --follow or --rank 0

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
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

# of_point ELEMENT [OPTION…]: logs.sh of that point, from beside this artifact and not out of the run folder, which has no say in
# what runs here.
of_point() {
  local folder=$own_run/points/$1
  if [[ -z $own_run ]]; then folder=$artifact/../../$(sed -n "$(($1 + 1))p" "$artifact/points"); fi
  "$folder/logs.sh" --run "$(point_run "$run" "$1")" "${@:2}"
}

choose_run "$run_id"
if [[ -n $point ]]; then
  grep -qxF -- "$point" <<<"$(elements "$run")" || die 2 "there is no point $point" 'status.sh lists them, with their numbers'
  of_point "$point" "$@"
  exit
fi
while IFS= read -r element; do
  printf '==> point %s, %s\n' "$element" "$(point_run "$run" "$element")"
  of_point "$element" </dev/null || true # it may not have started
done < <(elements "$run")
