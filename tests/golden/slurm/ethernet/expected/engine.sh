# shellcheck shell=bash disable=SC1091,SC2034,SC2154 # variables go from one part to another
# engine.sh: what is Slurm's own in job aorta: takes the place of functions of run.sh of the same name.
# Sourced by this_job and by job.sbatch. A run's jobs are in RUN/state/job_ATTEMPT: job_id, and exit and reason at the end;
# here=yes when the job is somebody's allocation (--here), of which only the step in RUN/state/step_ATTEMPT is the run's.

nodes=2
live_every_s=5 # between two questions to the controller

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

declare -gA states=() # by job id, what look_at_array has heard: one question for a whole sweep

# job_state RUN: `STATE REASON` as squeue says it, or nothing when Slurm does not have the job any more, or has it for others.
# False when Slurm does not answer, and then it says why.
job_state() {
  local file id
  file=$(job_file "$1")
  [[ -n $file ]] || return 0
  if [[ -n $(key "$file" here) && -n $(key_number "$file" exit) ]]; then return; fi # the allocation goes on without it
  id=$(job_id "$file")
  if [[ -z $id ]]; then return; fi
  if [[ -n ${states[$id]:-} ]]; then printf '%s' "${states[$id]}"; else ask_squeue "$id" '%T %r'; fi
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

# is_live RUN: Slurm has it, or does not say.
is_live() {
  local said
  if hear job_state "$1" && is_over "$said"; then return 1; fi
}

# is_over STATE
is_over() {
  case $1 in
    '' | COMPLETED* | CANCELLED* | FAILED* | TIMEOUT* | NODE_FAIL* | OUT_OF_MEMORY* | BOOT_FAIL* | DEADLINE* | PREEMPTED*) ;;
    *) return 1 ;;
  esac
}

# may_still_run RUN: why it may not be removed yet, in words. Slurm knows when all processes of a job have ended.
may_still_run() {
  local file said
  file=$(job_file "$1")
  if [[ $file != */job_$(last_attempt "$1") ]]; then
    echo "attempt $(last_attempt "$1") of it has not been queued yet"
  elif ! said=$(job_state "$1"); then
    echo "Slurm does not answer: $said"
  elif ! is_over "$said"; then
    echo "Slurm has its job $(job_id "$file")"
  fi
}

# run_status RUN: in words.
run_status() {
  local file said state reason code
  file=$(job_file "$1")
  if [[ -z $file ]]; then
    echo 'not submitted'
    return
  fi
  if ! said=$(job_state "$1"); then
    echo "not known, for Slurm does not answer: $said"
    return
  fi
  read -r state reason <<<"$said" || true
  case $state in
    PENDING) echo "queued as job $(job_id "$file"): $(pending "$reason")" ;;
    RUNNING | SUSPENDED | CONFIGURING | COMPLETING | STOPPED | SIGNALING | STAGE_OUT | RESIZING | REQUEUE* | SPECIAL_EXIT)
      if [[ -e $1/control/STOP ]]; then
        echo "stopping, job $(job_id "$file")"
      elif [[ $state == RUNNING ]]; then
        echo "live, job $(job_id "$file")"
      else
        echo "job $(job_id "$file") is $state"
      fi
      ;;
    *)
      code=$(key_number "$file" exit)
      if [[ -z $code && -e $1/control/STOP ]]; then
        echo "stopped by stop.sh before it had started, job $(job_id "$file")"
      elif [[ $state == CANCELLED && $code == 75 ]]; then
        echo "job $(job_id "$file") was cancelled by hand, and saved; submit.sh --resume $(basename -- "$1") goes on"
      elif [[ -n $code ]]; then
        ended "$1" "$code"
      else
        echo "failed: job $(job_id "$file") ended without a word${state:+ as $state}: cancelled by hand, or its node was lost"
      fi
      ;;
  esac
}

# run_code RUN, run_reason RUN: of its newest job.
run_code() {
  key_number "$(job_file "$1")" exit
}
run_reason() {
  local attempt first node=$1/state/node_00
  attempt=$(last_attempt "$1")
  first=$1/exit/$attempt/first
  if [[ -f $first ]]; then
    echo "node $(key_number "$first" node): $(key "$first" reason)"
  elif ((nodes == 1)) && [[ $(key_number "$node" attempt) == "$attempt" && -n $(key "$node" reason) ]]; then
    key "$node" reason
  else
    key "$(job_file "$1")" reason
    if [[ -d $1/exit/$attempt ]] && (($(num_ended "$1" "$attempt") < nodes)); then
      printf '; not every node has left word how it ended: logs/slurm-*.log may tell'
    fi
  fi
}

# pending REASON: why a job waits (squeue manual, JOB REASON CODES).
pending() {
  case $1 in
    JobArrayTaskLimit) echo 'other points of the sweep come first: backend.array_limit' ;;
    Resources) echo 'it is next, and waits until nodes are free' ;;
    Priority) echo 'jobs with a higher priority come first' ;;
    Dependency) echo 'the jobs in queue.after have not ended' ;;
    DependencyNeverSatisfied) echo 'a job in queue.after failed, so it will never start: stop.sh removes it' ;;
    BeginTime) echo 'Slurm starts it again in a moment' ;;
    JobHeldUser) echo 'it is held: scontrol release' ;;
    JobHeldAdmin) echo 'an administrator holds it' ;;
    ReqNodeNotAvail*) echo 'nodes it asks for are down, drained or reserved: see sinfo -R' ;;
    NodeDown) echo 'a node it needs is down: see sinfo -R' ;;
    PartitionNodeLimit) echo 'it asks for more nodes than the partition has or allows, so it will never start' ;;
    PartitionTimeLimit) echo 'it asks for more time than the partition allows, so it will never start' ;;
    PartitionConfig) echo 'the nodes it could run on are down, drained or too small: see sinfo -R' ;;
    PartitionDown | PartitionInactive) echo 'the partition takes no jobs now' ;;
    BadConstraints) echo 'no node can do what it asks for, so it will never start' ;;
    Assoc* | QOS* | MaxJobs*) echo "a limit of the account or its quality of service ($1)" ;;
    Reservation) echo 'its reservation has not begun' ;;
    Licenses) echo 'it waits for licenses' ;;
    None | '') echo 'the scheduler has not looked at it yet' ;;
    *) echo "$1" ;;
  esac
}

# signal_nodes NAME RUN: to the ranks' supervisors; KILL removes the job, and so does anything while it is in the queue. An
# allocation that the run was started in stays.
signal_nodes() {
  local file said
  file=$(job_file "$2")
  hear job_state "$2" || return 0
  if [[ -z $(key "$file" here) && $1:$said == @(KILL:*|*:PENDING*) ]]; then
    scancel "$(job_id "$file")"
    forget_secrets "$2" # job.sbatch may not have come to it
  else
    signal_steps "$1" "$2"
  fi
}

# signal_steps NAME RUN: to the steps of its job; with --here to its own one alone, which exists a moment after the start.
signal_steps() {
  local file target text
  file=$(job_file "$2")
  target=$(job_id "$file")
  if [[ -n $(key "$file" here) ]]; then
    read_text "$2/state/step_${file##*_}"
    target=${text%$'\n'}
    [[ $target =~ ^[0-9]{1,18}[.][0-9]{1,18}$ ]] || return 0
  fi
  if [[ -z $target ]]; then return; fi
  scancel --signal="$1" "$target" 2>/dev/null || true
}

source "$artifact/queue.sh"
