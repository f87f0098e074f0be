#!/usr/bin/env bash
# submit.sh: send job kube to SkyPilot, as a new run or as the next attempt of one.
# usage: submit.sh [--wait] [--resume ID | --fork ID] [--run-id ID]
#   --wait       print what it prints until it ends; the exit code is the job's
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the record, print its path, send nothing

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads the others
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job kube runs

code_kind=lib
code_root=.
code_max_bytes=209715200

how='' resume='' fork='' run_id=''
while (($#)); do
  case $1 in
    --wait | --only-prepare) how=${1#--} ;;
    --resume) need_value "$@" && resume=$2 && shift ;;
    --fork) need_value "$@" && fork=$2 && shift ;;
    --run-id) need_value "$@" && run_id=$2 && shift ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
if [[ -n $resume && -n $fork$run_id ]]; then die 2 '--resume continues a run; --fork and --run-id make a new one'; fi
if [[ -n $own_run && -z $fork$run_id ]]; then resume=${resume:-$own_run}; fi
if [[ $how != only-prepare ]]; then need_sky && need_sent; fi

init_from=''
if [[ -n $resume ]]; then
  choose_continued_run "$resume"
  continue_run
else
  if [[ -n $fork ]]; then choose_run "$fork" && init_from=$run; fi
  create_run "$run_id"
  if [[ $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
  describe_run "$init_from"
fi
if [[ $how == only-prepare ]]; then
  keep_run
  echo "$run"
  exit
fi

launch train "$(basename -- "$run")" "$attempt" "${init_from##*/}"
record_launch "$attempt" "$id"
keep_run

copy=$run/artifact/$attempt
printf 'run %s: %s\n' "$(basename -- "$run")" "$(where_it_is "$(job_file "$run")")"
printf '  follow: %q --follow\n  stop:   %q\n' "$copy/logs.sh" "$copy/stop.sh"
if [[ $how == wait ]]; then follow_to_the_end "$run"; fi
