# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# join_run.sh: sourced after run.sh. For engines that start each node by itself, start a lost one again, and number nothing:
# the nodes agree in the run folder which attempt it is, and begin it together.
#
#   starts/ATTEMPT.SUBMISSION/NODE   node NODE has come to that attempt (a folder: mkdir tells who was first)
#
# A node that is started a second time begins the next attempt, and tells the others through exit/ATTEMPT/first, which
# their supervisors watch: they end with 69 or 75, the engine starts them as well, and all meet again.

# shellcheck source=/dev/null
source "$parts/node_codes.sh"

# join_run NODE NODES SUBMISSION MOST_REQUEUES TIMEOUT_S: sets `attempt`, and returns when all nodes have come.
# In: JOBC_RUN_DIR, which node 0 makes, and `artifact`, which it copies there; JOBC_FORK_OF, the run folder to begin with;
#   code_repository and code_commit, when node 0 brings the code from there
# SUBMISSION: the engine's id of what was submitted, which stays when it starts nodes again
# Ends the script with 0 when jobctl stop was called, 69 when another node was started again, 71 when some did not come, 1 when
# another submission of the run is at work.
join_run() {
  local node=$1 nodes=$2 submission=$3 most=$4 timeout_s=$5 starts
  run=$JOBC_RUN_DIR
  starts=$run/starts
  mkdir -p -- "$starts" "$run/exit" || die 1 "cannot write to $run" 'storage.root must lie on a volume that the pod may write'
  while :; do
    newest_attempt "$starts" "$submission"
    if [[ -e $run/control/STOP ]]; then leave 0 'the run was stopped'; fi
    if ((node == 0)); then prepare_attempt; fi
    mkdir -p -- "$starts/$attempt.$submission"
    if mkdir -- "$starts/$attempt.$submission/$node" 2>/dev/null; then break; fi
    begin_next_attempt "$node" "$submission" "$most"
  done
  export JOBC_ATTEMPT=$attempt
  wait_for_nodes "$starts/$attempt.$submission" "$node" "$nodes" "$timeout_s"
}

# newest_attempt STARTS SUBMISSION: sets `attempt`: the newest one of this submission, else one after all others. A new
# submission goes on with a run that was stopped.
newest_attempt() {
  local last
  last=$(list_starts "$1" '*' | sort -n | tail -n 1)
  attempt=${last%%.*}
  if [[ -z $last ]]; then
    attempt=0
  elif [[ ${last#*.} != "$2" ]]; then
    refuse_beating "$attempt"
    attempt=$((attempt + 1))
    rm -f -- "$run/control/STOP"
  fi
}

# list_starts STARTS SUBMISSION: prints ATTEMPT.SUBMISSION of the folders there; `*` is any submission.
list_starts() {
  LC_ALL=C find "$1" -mindepth 1 -maxdepth 1 -name "*.$2" -regextype posix-extended \
    -regex '.*/(0|[1-9][0-9]{0,17})[.][^/[:cntrl:]]+' -printf '%f\n'
}

# refuse_beating ATTEMPT: of another submission: waits until nothing of it can be alive, and ends the script when something is.
# A supervisor touches its file every few seconds (peers.py).
refuse_beating() {
  local file beat heard said=''
  local -A seen_beat=()
  while :; do
    heard=''
    while IFS= read -r file; do
      beat=$(stat -c %Y -- "$file") # before it is read: the last time that it is written, it tells of its end
      if [[ $(key_number "$file" attempt) != "$1" || -n $(key_number "$file" ended) ]] || is_silent "$file"; then continue; fi
      heard=${file##*_}
      seen_beat[$heard]=${seen_beat[$heard]:-$beat}
      if [[ $beat != "${seen_beat[$heard]}" ]]; then
        leave 1 "run ${run##*/} is live: node $heard of another job writes to it; stop that job first, or jobctl submit without --resume makes a run of its own"
      fi
    done < <(node_files "$run")
    if [[ -z $heard ]]; then return; fi
    if [[ -z $said ]]; then
      said=yes
      echo "jobc: node $heard of another job has not recorded its end: waiting until it has been inactive for 90 s"
    fi
    sleep 1
  done
}

# prepare_attempt: node 0 makes the folders of the run, and the copy of the artifact from which all nodes start.
prepare_attempt() {
  local copy=$run/artifact/$attempt unfinished_copy=$run/artifact/.$attempt
  if [[ ! -f $run/state/run ]]; then describe_run "${JOBC_FORK_OF:-}"; fi
  if [[ -n ${code_commit:-} ]]; then checkout_code "$code_repository" "$code_commit"; fi
  if [[ -d $copy ]]; then return; fi
  rm -rf -- "$unfinished_copy"
  mkdir -p -- "$unfinished_copy"
  try "copy the artifact to $unfinished_copy" cp -R -- "$artifact/." "$unfinished_copy"
  try "move it to $copy" mv -T -- "$unfinished_copy" "$copy"
}

# describe_run INIT_FROM: writes state/run, which makes the folder a run. Last step of its making.
describe_run() {
  try "create the folder $run/state" mkdir -p -- "$run/state" "$run/logs" "$run/control"
  { printf '%s=%s\n' job "$job_name" created "$(date +%s)" project "$project" init_from "$1" >"$run/state/run"; } 2>/dev/null ||
    die 1 "cannot write $run/state/run" 'is the disk full?'
  rm -f -- "$run/.making"
}

# begin_next_attempt NODE SUBMISSION MOST_REQUEUES: this node has been in `attempt` before.
begin_next_attempt() {
  local began final next=$((attempt + 1)) first=$run/exit/$attempt/first codes
  read_codes "$run" "$attempt"
  export JOBC_ATTEMPT=$attempt
  if [[ $codes =~ ' node_'([0-9]+)'=0 ' ]]; then
    fail 1 "node ${BASH_REMATCH[1]} has ended well, and is not started again with this one" 'jobctl submit --resume goes on'
  fi
  for final in 65 71 1; do # the engine has seen a node that ended with 69 or 75 because of it, and not the one that failed
    if [[ $codes == *"=$final "* ]]; then leave "$final" "attempt $attempt failed so, and another start does not help"; fi
  done
  # those up to this one: another node may have begun the next already
  began=$(list_starts "$run/starts" "$2" | awk -F . -v last="$attempt" '$1 <= last' | wc -l)
  if ((began > $3)); then fail 1 "started again $3 times, the limit is $3" 'lifecycle.max_requeues'; fi
  mkdir -p -- "$run/exit/$attempt"
  printf '69\nnode=%s\nreason=node %s was started again\n' "$1" "$1" >"$first.$HOSTNAME"
  ln -- "$first.$HOSTNAME" "$first" 2>/dev/null || true # whoever failed first stays
  rm -f -- "$first.$HOSTNAME"
  mkdir -p -- "$run/starts/$next.$2"
}

# wait_for_nodes FOLDER NODE NODES TIMEOUT_S
wait_for_nodes() {
  local other lacking until=$((SECONDS + $4)) said=''
  while :; do
    lacking=''
    for ((other = 0; other < $3; other++)); do
      if [[ ! -d $1/$other ]]; then lacking+=" $other"; fi
    done
    if [[ -z $lacking ]]; then return; fi
    if [[ -e $run/control/STOP ]]; then leave 0 'the run was stopped'; fi
    if [[ -e $run/exit/$attempt/first ]]; then leave 69 "node $(key_number "$run/exit/$attempt/first" node): $(key "$run/exit/$attempt/first" reason)"; fi
    if [[ $said != "$lacking" ]]; then
      said=$lacking
      echo "jobc: node $2 is there, waiting for$lacking"
    fi
    if ((SECONDS >= until)); then fail 71 "these nodes have not come within $4 s:$lacking" 'jobctl status shows what they wait for'; fi
    sleep 0.5
    find "$1" -maxdepth 0 -newermt @0 >/dev/null # makes a network file system look again
  done
}

# leave CODE WHY: ends the script.
leave() {
  echo "jobc: $2: this node ends with $1"
  exit "$1"
}
