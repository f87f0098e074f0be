#!/usr/bin/env bash
# submit.sh: start job aorta on this machine, as a new run or as the next attempt of one.
# usage: submit.sh [--detach] [--resume ID [--new-code] | --fork ID] [--run-id ID]
#   --detach     start it in the background and return; else this waits, and its exit code is the job's
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --new-code   with --resume: copy your code again; else it is that of the first start. What the run wrote stays
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads the others
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job aorta runs

code_kind=lib
code_root=.
code_max_bytes=209715200
time_limit_s=0
head_port=0
nodes_see() { :; } # the ranks run on this machine

detach='' resume='' new_code='' fork='' run_id=''
while (($#)); do
  case $1 in
    --detach) detach=yes ;;
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

if [[ -n $resume ]]; then choose_continued_run "$resume"; fi
need_gpus 8
check_start
if [[ -n $resume ]]; then
  continue_run "$new_code"
  if [[ -n $new_code && $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
  init_from=$(key "$run/state/run" init_from)
else
  init_from=''
  if [[ -n $fork ]]; then choose_run "$fork" && init_from=$run; fi
  create_run "$run_id"
  if [[ $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
  describe_run "$init_from"
fi

export JOBC_RUN_DIR=$run
JOBC_RUN_ID=$(basename -- "$run")
export JOBC_RUN_ID
export JOBC_JOB_ID=$JOBC_RUN_ID
export JOBC_NODE_RANK=0
export JOBC_HEAD_ADDR=127.0.0.1
export JOBC_HEAD_PORT=$head_port
export JOBC_ATTEMPT=$attempt
export JOBC_TIME_LIMIT_S=$time_limit_s
unset JOBC_INIT_FROM
if [[ -n $init_from ]]; then export JOBC_INIT_FROM=$init_from; fi

start_run "$detach"
