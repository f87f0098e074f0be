# shellcheck shell=bash disable=SC1091,SC2034,SC2154 # variables go from one part to another
# engine.sh: what is Slurm's own in job job: takes the place of functions of run.sh of the same name.
# Sourced by this_job and by job.sbatch. A run's jobs are in RUN/state/job_ATTEMPT: job_id, and exit and reason at the end;
# here=yes when the job is somebody's allocation (--here), of which only the step in RUN/state/step_ATTEMPT is the run's.

nodes=2

# ---- the jobs of a run

# record_job JOB ATTEMPT [EXIT] [REASON]: for `run`.
record_job() {
  local file=$run/state/job_$2
  printf '%s\n' "job_id=$1" "exit=${3:-}" "reason=${4:-}" "here=${here:-}" >"$file.$$" && mv -- "$file.$$" "$file"
}

# job_file RUN: that of its newest attempt.
job_file() {
  local attempt
  attempt=$(numbered_files "$1/state" job_ | tail -n 1)
  if [[ -n $attempt ]]; then printf '%s' "$1/state/job_$attempt"; fi
}

# job_id FILE: that of the job in a state/job_ATTEMPT, with its place in an array; scancel would take another word for an option.
job_id() {
  local id
  id=$(key "$1" job_id)
  if [[ $id =~ ^[0-9]{1,18}(_[0-9]{1,18})?$ ]]; then printf '%s' "$id"; fi
}

# job_state RUN: `STATE REASON` as squeue says it, or nothing when Slurm does not have the job any more, or has it for others.
# False when Slurm does not answer, and then it says why.
job_state() {
  local file id
  file=$(job_file "$1")
  [[ -n $file ]] || return 0
  if [[ -n $(key "$file" here) && -n $(key_number "$file" exit) ]]; then return; fi # the allocation goes on without it
  id=$(job_id "$file")
  if [[ -z $id ]]; then return; fi
  ask_squeue "$id" '%T %r'
}

# ask_squeue JOB FORMAT [OPTION]: what it says of a job, over or not; nothing when Slurm does not have it any more.
# False when Slurm does not answer, and then it says why.
ask_squeue() {
  local said
  if said=$(squeue --noheader --jobs="$1" --states=all --format="$2" "${@:3}" 2>&1); then
    printf '%s' "$said"
  elif [[ $said != *[Ii]'nvalid job id'* ]]; then
    printf '%s' "${said##*: }"
    return 1
  fi
}

answers='' # yes: Slurm has answered this script; silent: it does not any more

# hear FUNCTION ARGUMENT…: sets `said`, what this one of the above says. When Slurm does not answer, a first question ends
# the script, and a later one is false, so that who waits goes on waiting: slurmctld comes back after a restart.
hear() {
  if said=$("$@"); then
    answers=yes
    return
  fi
  [[ -n $answers ]] || die 1 "Slurm does not answer: $said" 'sinfo shows whether the controller is up'
  if [[ $answers == yes ]]; then echo "Slurm does not answer: $said; asking again" >&2; fi
  answers=silent
  return 1
}

source "$artifact/queue.sh"
source "$artifact/pyxis.sh"
