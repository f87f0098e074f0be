# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# queue.sh: how job zero gets into Slurm's queue, and tries of it on nodes as it would get them. Sourced by engine.sh.

# clean COMMAND…: without what an outer allocation would put into a new job (SLURM_CPU_BIND cuts its cores), and without
# whatever else this shell has: Slurm stores the environment of a job.
clean() {
  local name kept=()
  for name in HOME USER LOGNAME SHELL PATH LANG LC_ALL TZ MODULEPATH MODULESHOME LMOD_CMD SLURM_CONF JOBC_RUN_ROOT; do
    if [[ -n ${!name:-} ]]; then kept+=("$name=${!name}"); fi
  done
  env -i "${kept[@]}" "$@"
}

# add_dependency TEXT: to `after`, options of sbatch: an id is that of a job that must end well, as in queue.after.
add_dependency() {
  local text=$1 given='' # queue.after: this option takes the place of the line in job.sbatch
  if [[ $text =~ ^[0-9] ]]; then text=afterok:${text//,/:}; fi
  [[ $text =~ ^(singleton|after(any|ok|notok|corr|burstbuffer)?(:[0-9]+([_+][0-9]+)?)+)$ ]] ||
    die 2 "--after takes ID, KIND:ID or singleton, not $1" 'kinds are afterok, afterany, afternotok and aftercorr'
  if [[ -z ${after[*]} ]]; then
    after=("--dependency=${given:+$given,}$text")
  else
    after[0]+=,$text
  fi
}

# job_number SAID: the id in what sbatch --parsable said, among the warnings of a site.
job_number() {
  grep -Eo '^[0-9]+' <<<"$1" | tail -n 1
}

# note_job JOB: the job of this attempt of `run`, unless it runs already and has said so itself.
note_job() {
  answers=yes # it has just taken the job
  (set -C && printf '%s\n' "job_id=$1" >"$run/state/job_$attempt") 2>/dev/null || true
}

# never_starts JOB: why, when it asks for more than its partition has or allows; Slurm would keep it in the queue for ever.
never_starts() {
  local reason partition nodes cpus limit shown most
  read -r reason partition nodes cpus limit <<<"$(squeue --noheader --jobs="$1" --format='%r %P %D %c %l')"
  nodes=$(number "$nodes" 0) cpus=$(number "$cpus" 0)
  [[ $reason == @(Partition*|BadConstraints) && $partition != *,* ]] || return 0
  shown=$(scontrol show partition "$partition")
  for most in MaxNodes TotalNodes; do
    if [[ $shown =~ $most=([0-9]{1,18}) ]] && ((nodes > BASH_REMATCH[1])); then
      echo "$nodes nodes, and partition $partition has or allows ${BASH_REMATCH[1]}"
      return
    fi
  done
  if [[ $shown =~ MaxTime=([0-9:-]+) ]] && (($(seconds "$limit") > $(seconds "${BASH_REMATCH[1]}"))); then
    echo "a time limit of $limit, and partition $partition allows ${BASH_REMATCH[1]}"
    return
  fi
  most=$(number "$(sinfo --noheader --partition="$partition" --format=%c | tr -d + | sort -n | tail -n 1)" "$cpus")
  if ((cpus > most)); then echo "$cpus cores a node, and partition $partition has nodes of at most $most"; fi
}

# seconds TEXT: of D-HH:MM:SS or its end, as Slurm writes a time limit.
seconds() {
  awk -F '[-:]' '{ split("86400 3600 60 1", unit, " "); for (i = 1; i <= NF; i++) s += $i * unit[4 - NF + i]; print s }' <<<"$1"
}

# refuse SAID: the end of submit.sh when Slurm does not take the job; nothing of the start stays.
refuse() {
  local said hint
  said=$(sed -E 's/^sbatch: (error: )?(Batch job submission failed: )?//' <<<"$1" | paste -sd ';' | sed 's/;/; /g')
  case ${said,,} in
    *'invalid partition'*) hint='queue.name; sinfo lists the partitions' ;;
    *'node configuration'*) hint="no node has all of gpus, gpu_type, cpus and mem: sinfo --format='%P %D %c %m %G'" ;;
    *feature*) hint="backend.constraint; sinfo --format='%N %f' lists the features" ;;
    *'node name'*) hint='hosts, queue.nodelist or queue.exclude; sinfo --Node lists the nodes' ;;
    *'job array'*) hint='the site allows fewer elements: scontrol show config | grep MaxArraySize' ;;
    *reservation*) hint='queue.reservation; scontrol show reservation lists them' ;;
    *account*) hint='queue.account; sacctmgr show associations lists them' ;;
    *qos*) hint='queue.qos; sacctmgr show qos lists them' ;;
    *'time limit'*) hint='time, or another queue.name; sinfo lists the limits' ;;
    *', and partition '*) hint='nodes, cpus or time, or another queue.name; sinfo lists the partitions' ;;
    *) hint='preflight.sh checks the job against the site' ;;
  esac
  forget_secrets "$run"
  die 1 "Slurm does not take the job: $said" "$hint"
}

# wait_for_job RUN: until Slurm is done with it, printing what its nodes print; the exit code of the job.
wait_for_job() {
  local code
  jobctl logs --run "$1" --follow --patient || true
  code=$(key_number "$(job_file "$1")" exit)
  echo "run $(basename -- "$1"): $(run_status "$1")"
  return "${code:-1}"
}

# on_nodes [SRUN OPTION…] -- PAYLOAD COMMAND…: task.sh on nodes as the job would get them, in an allocation of ten minutes.
on_nodes() {
  local flags more=()
  while [[ $1 != -- ]]; do more+=("$1") && shift; done
  shift
  mapfile -t flags < <(sed -n 's/^#SBATCH //p' "$artifact/job.sbatch" |
    grep -Ev '^--(time|signal|requeue|no-requeue|open-mode|dependency|ntasks-per-node|cpus-per-task)')
  clean srun "${flags[@]}" --ntasks-per-node=1 --time=10 --mpi=none --quiet "${more[@]}" bash "$artifact/task.sh" "$run" 0 "$@"
}
