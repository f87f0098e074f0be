#!/usr/bin/env bash
# clean.sh: remove old runs of job queued. Lists them first, with age and size.
# usage: clean.sh [--keep N] [--keep-checkpoints] [--yes]
#   --keep N            the N newest runs stay, else keep_runs of the spec. So does each one that may still be running
#   --keep-checkpoints  the older runs stay as well, with their last and their best checkpoint; all others in them go
#   --yes               do it; else this asks at a terminal, and only lists elsewhere

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job queued runs

keep_runs=0 # 0: not chosen

keep='' thin='' yes=''
while (($#)); do
  case $1 in
    --keep) need_value "$@" && keep=$2 && shift ;;
    --keep-checkpoints) thin=yes ;;
    --yes) yes=yes ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
keep=${keep:-${keep_runs#0}}
[[ -n $keep ]] || die 2 'how many runs shall stay?' '--keep 5, or keep_runs=5 in the spec'
[[ $keep =~ ^[0-9]{1,9}$ ]] || die 2 "--keep takes a number, not $keep"

find_old_runs "$((10#$keep))"
list_removals "$thin"
if [[ -z ${removals[*]} ]]; then
  echo 'nothing to remove'
  exit
fi
if [[ -z $yes && -t 0 && -t 1 ]]; then
  read -r -p 'remove this for good? [y/N] ' answer
  if [[ $answer == [yY]* ]]; then yes=yes; fi
fi
if [[ -z $yes ]]; then
  echo 'nothing was removed; --yes removes it'
  exit
fi
remove_them
