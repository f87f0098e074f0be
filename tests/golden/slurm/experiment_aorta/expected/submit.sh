#!/usr/bin/env bash
# submit.sh: queue job aorta on Slurm, as a new run or as the next attempt of one.
# usage: submit.sh [--wait | --detach | --here | --only-prepare] [--resume ID [--new-code] | --fork ID] [--run-id ID]
#                  [--after ID|KIND:ID|singleton]…
#   --wait       print what it prints until it ends; the exit code is the job's
#   --detach     return when it is queued, as without --wait
#   --here       run in the allocation that this shell is in; else a new job, whatever this shell is in
#   --resume ID  continue that run: same model, data, seed, optimiser and batch
#   --new-code   with --resume: copy your code again; else it is that of the first start. What the run wrote stays
#   --fork ID    new run that begins with that run's newest checkpoint
#   --after ID   start after job ID has ended well; afterany:ID, afternotok:ID, singleton as in sbatch --dependency. Adds to
#                queue.after
#   --run-id ID  name of the new run; else date, time and four random digits
#   --only-prepare  make the run folder, print its path, queue nothing

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads the others
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job aorta runs

code_kind=lib
code_root=.
code_max_bytes=209715200

after=()
how='' resume='' new_code='' fork='' run_id=''
while (($#)); do
  case $1 in
    --wait | --detach | --here | --only-prepare) how=${1#--} ;;
    --resume) need_value "$@" && resume=$2 && shift ;;
    --new-code) new_code=yes ;;
    --fork) need_value "$@" && fork=$2 && shift ;;
    --run-id) need_value "$@" && run_id=$2 && shift ;;
    --after) need_value "$@" && add_dependency "$2" && shift ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
if [[ -n $resume && -n $fork$run_id ]]; then die 2 '--resume continues a run; --fork and --run-id make a new one'; fi
if [[ -n $own_run && -z $fork$run_id ]]; then resume=${resume:-$own_run}; fi
if [[ -n $new_code && -z $resume ]]; then die 2 '--new-code needs --resume: a new run has the code as it is now'; fi
if [[ $how == here && -z ${SLURM_JOB_ID:-} ]]; then die 2 'this shell is in no allocation' 'salloc first, or leave out --here'; fi
if ! command -v sbatch >/dev/null; then die 1 "no sbatch on $(uname -n)" 'call this where you call sbatch: on a login node of the cluster'; fi

# The run folder and its copy of this artifact, before the job exists: Slurm does not create the folder of --output.
if [[ -n $resume ]]; then
  choose_continued_run "$resume"
  continue_run "$new_code"
  if [[ -n $new_code && $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
else
  init_from=''
  if [[ -n $fork ]]; then choose_run "$fork" && init_from=$run; fi
  if [[ $how == only-prepare && ${SLURM_RESTART_COUNT:-0} != 0 ]] && is_run "$runs/$run_id"; then
    echo "$runs/$run_id" # of a job that sbatch started by hand, and Slurm has started again
    exit
  fi
  create_run "$run_id"
  if [[ $code_kind == snapshot ]]; then snapshot_code "$(under_project "$code_root")" "$code_max_bytes"; fi
  describe_run "$init_from"
fi

copy=$run/artifact/$attempt
if [[ $how == only-prepare ]]; then
  keep_run
  echo "$run"
  exit
fi
if [[ $how == here ]]; then
  keep_run
  cd -- "$run"
  exec bash "$copy/job.sbatch" "$run" "$attempt" here
fi
said=$(clean sbatch --parsable "${after[@]}" --chdir="$run" --output="$run/logs/slurm-%j.log" "$copy/job.sbatch" "$run" "$attempt" 2>&1) ||
  refuse "$said"
id=$(job_number "$said")
never=$(never_starts "$id")
if [[ -n $never ]]; then
  scancel "$id"
  refuse "$never"
fi
keep_run # queued: the folder is a run now
note_job "$id"
printf 'run %s in %q, job %s\n' "$(basename -- "$run")" "$run" "$id"
printf '  follow: %q --follow\n  stop:   %q\n' "$copy/logs.sh" "$copy/stop.sh"
if [[ $how == wait ]]; then wait_for_job "$run"; fi
