#!/usr/bin/env bash
# submit.sh: send job mine to a Kubernetes cluster, as a new run or as the next attempt of one.
# usage: submit.sh [--wait] [--replace] [--resume ID | --fork ID] [--run-id ID]
#   --wait       wait for its end; the exit code is the job's
#   --replace    first remove what an ended run of this same job left in the cluster: its pods and their logs
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --fork ID    new run that begins with that run's newest checkpoint
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the record, print its path, send nothing

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job mine runs

how='' replace='' resume='' fork='' run_id=''
while (($#)); do
  case $1 in
    --wait | --only-prepare) how=${1#--} ;;
    --replace) replace=yes ;;
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

if [[ -n $resume$fork ]]; then die 65 'runs of this job end with their pods: there is nothing to continue' 'storage.root below a mounted claim, or storage.run=object, keeps them'; fi
if [[ -n $resume ]]; then
  choose_continued_run "$resume"
  before=$(job_file "$run")
  continue_run
else
  init_from=''
  if [[ -n $fork ]]; then choose_run "$fork" && init_from=$(basename -- "$run"); fi
  create_run "$run_id"
  pack_code
  describe_run ''
  before=''
fi
if [[ $how == only-prepare ]]; then
  keep_run
  echo "$run"
  exit
fi
send_code

# One object per job: its name is made from the plan.
choose_cluster
look ''
if [[ -n $uid ]]; then
  has_ended || die 1 "$kind $object is live in $(where_it_is), started by ${owner:-somebody}" 'stop.sh ends it; another name= or another spec makes another object'
  [[ -n $replace || (-n $before && $(key_word "$before" uid) == "$uid") ]] ||
    die 1 "$kind $object has ended in $(where_it_is), started by ${owner:-somebody}" 'submit.sh --replace removes it, with the logs of its pods; those on the storage stay'
fi
refuse_unwelcome train "$(basename -- "$run")" "${init_from:-}"
delete_objects '' # as well what a job.batch that was deleted by hand has left
create_objects '' train "$(basename -- "$run")" "${init_from:-}"
record_object
keep_run

copy=$run/artifact/$attempt
printf 'run %s: %s %s in %s\n' "$(basename -- "$run")" "$kind" "$object" "$(where_it_is)"
printf '  follow: %q --follow\n  stop:   %q\n' "$copy/logs.sh" "$copy/stop.sh"
if [[ $how == wait ]]; then wait_for_job "$run"; fi
