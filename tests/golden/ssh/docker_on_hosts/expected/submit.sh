#!/usr/bin/env bash
# submit.sh: start job job on its hosts, as a new run or as the next attempt of one.
# usage: submit.sh [--detach | --only-prepare] [--resume ID [--new-code] | --fork ID] [--run-id ID]
#   --detach     return when all nodes are up; else this waits, and its exit code is the job's. The run needs neither
#                this script nor this machine: only Ctrl-C here ends it
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --new-code   with --resume: copy your code again; else it is that of the first start. What the run wrote stays
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the run folder and print its path; then RUN/artifact/0/node.sh RANK on each host starts it

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads the others
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job job runs

code_kind=snapshot
code_root=.
code_max_bytes=209715200
code_script=train.py

detach='' only_prepare='' resume='' new_code='' fork='' run_id=''
while (($#)); do
  case $1 in
    --detach) detach=yes ;;
    --only-prepare) only_prepare=yes ;;
    --resume) need_value "$@" && resume=$2 && shift ;;
    --new-code) new_code=yes ;;
    --fork) need_value "$@" && fork=$2 && shift ;;
    --run-id) need_value "$@" && run_id=$2 && shift ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
if [[ -n $resume && -n $fork$run_id ]]; then die 2 '--resume continues a run; --fork and --run-id make a new one'; fi
if [[ -n $own_run && -z $fork$run_id ]]; then resume=${resume:-$own_run}; fi
if [[ -n $new_code && -z $resume ]]; then die 2 '--new-code needs --resume: a new run has the code as it is now'; fi

if [[ -n $resume ]]; then
  choose_continued_run "$resume"
  continue_run "$new_code"
  if [[ -n $new_code && $code_kind == @(snapshot|rsync) ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
else
  init_from=''
  if [[ -n $fork ]]; then choose_run "$fork" && init_from=$run; fi
  create_run "$run_id"
  if [[ $code_kind == @(snapshot|rsync) ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
  describe_run "$init_from"
fi

if [[ -n $only_prepare ]]; then
  keep_run
  echo "$run"
  exit
fi
start_run "$detach"
