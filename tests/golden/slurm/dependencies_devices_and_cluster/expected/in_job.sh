# shellcheck shell=bash disable=SC2154 # variables go from one part to another
# in_job.sh: what job queued does about its own end: a node that was lost, another start, the last word. Sourced by
# job.sbatch. A run's jobs are in RUN/state/job_ATTEMPT: job_id, and exit and reason at the end; here=yes when the job is
# somebody's allocation (--here), of which only the step in RUN/state/step_ATTEMPT is the run's.

# record_job JOB ATTEMPT [EXIT] [REASON]: for `run`.
record_job() {
  local file=$run/state/job_$2
  printf '%s\n' "job_id=$1" "exit=${3:-}" "reason=${4:-}" "here=${here:-}" >"$file.$$" && mv -- "$file.$$" "$file"
}

# signal_steps: SIGTERM to the steps of this job; with --here to the run's own one alone, which exists a moment after the start.
signal_steps() {
  local target=$job_id text
  if [[ -n $here ]]; then
    read_text "$run/state/step_$attempt"
    target=${text%$'\n'}
    [[ $target =~ ^[0-9]{1,18}[.][0-9]{1,18}$ ]] || return 0
  fi
  scancel --signal=TERM "$target" 2>/dev/null || true
}

# end_left_behind SRUN SECONDS: srun waits for every task, and for that of a lost node in vain until Slurm has given the node
# up. So srun is ended when a failure has stood for so long that all nodes that live have ended. (srun --wait counts from the
# end of any task, also from one that is well while rank 0 still saves.)
end_left_behind() {
  local since=''
  while kill -0 "$1" 2>/dev/null; do
    if [[ ! -e $run/exit/$attempt/first ]]; then # or not any more: the ranks start again in place
      since=''
    elif ((SECONDS - ${since:=$SECONDS} > $2)); then
      kill -TERM "$1" 2>/dev/null || true
      return
    fi
    sleep 1
  done
}

# starts_again CODE ASKED: `queued` when Slurm has requeued this job already, `ask` when it should: at the time limit, in the
# grace of a preemption, when a peer was lost. Else nothing: so it is after scancel by hand, after jobctl stop, at the limit, and
# in somebody's allocation.
starts_again() {
  local shown
  if [[ -n $here ]]; then return; fi
  shown=$(scontrol show job "$job_id") || return 0
  if [[ $shown =~ Restarts=([0-9]{1,18}) ]] && ((BASH_REMATCH[1] > restarts)); then
    echo queued
  elif [[ $shown == *JobState=RUNNING* && ! -e $run/control/STOP ]] && ((restarts < max_requeues)); then
    if [[ $1 == 69 || ($1 == 75 && ($2 == time || $shown == *PreemptTime=[0-9]*)) ]]; then echo ask; fi
  fi
}

# leave CODE REASON: the end of the run, in job.sbatch.
leave() {
  record_job "$job_id" "$attempt" "$1" "$2"
  forget_secrets "$run"
  exit "$1"
}

# requeue CODE: this job again, after 69 without the nodes that do not answer. By itself Slurm starts it on them again, or
# waits until they are down (SlurmdTimeout, 300 s): so they leave the job first, and then the next start is without them.
# Slurm does not let go of the node of this script; when that is lost, it requeues the job itself, after SlurmdTimeout.
requeue() {
  local lost='' kept excluded
  if [[ $1 == 69 ]]; then lost=$(lost_nodes | paste -sd ,); fi
  if [[ -n $lost ]]; then
    echo "node $lost does not answer; going on without it"
    kept=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -Fxv -f <(tr , '\n' <<<"$lost") | paste -sd ,)
    # it also writes a script for interactive shells into the current folder
    (cd -- "$run/state" && scontrol update "jobid=$job_id" "nodelist=$kept" && rm -f slurm_job_*_resize.*) >/dev/null || true
    excluded=$(scontrol show job "$job_id" | sed -n 's/.* ExcNodeList=//p')
    [[ $excluded != '(null)' ]] || excluded=''
  fi
  trap '' TERM # a requeue ends this script, with KillWait (30 s) for what is left to do
  scontrol requeue "$job_id" || return
  # only a job that waits can be told; one that must have the node waits for it
  if [[ -n $lost ]]; then scontrol update "jobid=$job_id" "excnodelist=${excluded:+$excluded,}$lost" || true; fi
}

# lost_nodes: those of this job whose slurmd does not take a connection within ten seconds, one a line.
lost_nodes() {
  local port node address
  port=$(scontrol show config | sed -n 's/^SlurmdPort *= *\([0-9]*\).*/\1/p')
  while read -r node address; do
    { timeout 10 bash -p -c '<"/dev/tcp/$0/$1"' "$address" "$port" || echo "$node"; } 2>/dev/null &
  done < <(scontrol --oneliner show node "$SLURM_JOB_NODELIST" | sed -n 's/^NodeName=\([^ ]*\) .* NodeAddr=\([^ ]*\) .*/\1 \2/p')
  wait
}
