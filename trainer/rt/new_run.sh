# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# new_run.sh: part of run.sh. Makes a run or its next attempt, starts it.

# ---- making a run

# discard_unfinished: removes what could not be completed. Runs whenever the script ends before it starts the job.
discard_unfinished() {
  if [[ -n $unfinished && -e $unfinished ]]; then
    take_back
    chmod -R u+w -- "$unfinished"
    rm -rf -- "$unfinished"
  fi
}

# take_back: removes it from other machines, if an engine has brought it there.
take_back() {
  :
}

# keep_run: from here on the folder is a run, which stays when this script ends. For one that queues the job and returns.
keep_run() {
  note_resume
  unfinished=''
}

# note_resume: what to type to go on with `run`, for status.sh and for the last words of a run.
note_resume() {
  local id=${run##*/}
  if [[ -n ${JOBC_RUN_ROOT:-}$moved ]]; then id=$run; fi
  { printf 'command=%q --resume %q\n' "$artifact/submit.sh" "$id" >"$run/state/resume"; } 2>/dev/null ||
    die 1 "cannot write $run/state/resume" 'is the disk full?'
}

# create_run [ID]: a new run folder in `run`, for attempt 0.
create_run() {
  local id=${1:-} tries=5
  if [[ -n $id && ! $id =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]]; then
    die 2 "not a run id: $id" 'letters, digits, dot, dash and underscore'
  fi
  try "create the folder $runs" mkdir -p -- "$runs"
  while ((tries--)); do
    run=$runs/${id:-$(date -u +%Y%m%d-%H%M%S)-$(od -An -N2 -tx1 /dev/urandom | tr -d ' \n')}
    if mkdir -- "$run" 2>/dev/null; then
      unfinished=$run
      trap discard_unfinished EXIT
      attempt=0
      copy_artifact
      return
    elif [[ -e $run && -n $id ]]; then
      die 1 "run $id exists already" "submit.sh --resume $id continues it"
    elif [[ ! -e $run ]]; then
      try "create the folder $run" mkdir -- "$run"
    fi
  done
  die 1 "no free run id in $runs"
}

# create_temporary_run [FOLDER]: a run folder in `run`, removed when this script ends unless keep_temporary_run is called.
create_temporary_run() {
  local folder=${1:-${TMPDIR:-/tmp}}
  run=$(mktemp -d "$folder/.jobc-smoke.XXXXXX") || die 1 "cannot create a folder in $folder" 'check permissions and free space, or set JOBC_RUN_ROOT to another folder'
  unfinished=$run
  attempt=0
  copy_artifact
  describe_run ''
}

# keep_temporary_run: for the one who looks into it; other machines have it no more.
keep_temporary_run() {
  take_back
  unfinished=''
}

# copy_artifact: this artifact, read-only, as that of the attempt.
copy_artifact() {
  local copy=$run/artifact/$attempt
  try "create the folder $run/artifact" mkdir -p -- "$run/artifact"
  mkdir -- "$copy" 2>/dev/null || die 1 "attempt $attempt of run ${run##*/} is being started by another"
  unfinished=${unfinished:-$copy}
  trap discard_unfinished EXIT
  try "copy the artifact to $copy" cp -R -- "$artifact/." "$copy"
  chmod -R a-w -- "$copy"
}

# describe_run INIT_FROM: writes state/run, which makes the folder a run. Last step of its making.
describe_run() {
  try "create the folder $run/state" mkdir -p -- "$run/state" "$run/logs" "$run/control"
  { printf '%s=%s\n' job "$job_name" created "$(date +%s)" project "$project" init_from "$1" >"$run/state/run"; } 2>/dev/null ||
    die 1 "cannot write $run/state/run" 'is the disk full?'
}

# choose_continued_run ID: sets `run`, and checks that this artifact may continue it.
choose_continued_run() {
  local id last changed hint
  choose_run "$1"
  refuse_live "$run"
  id=${run##*/}
  last=$(last_attempt "$run")
  changed=$(compare_specs "$run/artifact/$last/.jobc/identity.txt" "$artifact/.jobc/identity.txt")
  if [[ -z $changed ]]; then return; fi
  hint="submit.sh --fork $id starts a new run with its weights"
  if grep -q '^  model[.:]' <<<"$changed"; then
    hint='without --resume, submit.sh starts a new run; --fork cannot, for the weights are of another model'
  fi
  die 65 "this spec is not that of run $id:"$'\n'"$changed" "$hint"
}

# continue_run: prepares the next attempt of `run`.
continue_run() {
  local last changed
  last=$(last_attempt "$run")
  attempt=$((last + 1))
  copy_artifact
  changed=$(compare_specs "$run/artifact/$last/.jobc/free.txt" "$artifact/.jobc/free.txt")
  if [[ -n $changed ]]; then
    printf 'changed since attempt %s:\n%s\n' "$last" "$changed"
    printf 'attempt %s\n%s\n' "$attempt" "$changed" >>"$run/state/changes"
  fi
  if [[ -d $run/code ]]; then
    printf 'the code is that of the first submit, in %q; --fork %q takes it as it is now\n' "$run/code" "${run##*/}"
  fi
  rm -f -- "$run/control/STOP"
}

# compare_specs OLD NEW: a line for each `key = value` that differs.
compare_specs() {
  local old=$1 new=$2
  [[ -f $old ]] || old=/dev/null
  [[ -f $new ]] || new=/dev/null
  awk '
    { at = index($0, " = "); name = substr($0, 1, at - 1); names[name]; value[side, name] = substr($0, at + 3) }
    END {
      for (name in names) {
        was = ("old", name) in value ? value["old", name] : "(not set)"
        is = ("new", name) in value ? value["new", name] : "(not set)"
        if (was != is) print "  " name ": " was " -> " is
      }
    }' side=old "$old" side=new "$new" | sort
}

# ---- starting it

# check_start: ends the script when this node lacks what the start needs: secrets, environment, port, code. Makes nothing.
check_start() {
  local said code=0
  said=$(JOBC_RUN_DIR=$run JOBC_HEAD_PORT='' bash "$artifact/node.sh" 0 check 2>&1 >/dev/null) || code=$?
  if ((code != 0)); then
    printf '%s\n' "$said" >&2
    exit "$code"
  fi
}

# start_run DETACH: becomes the node script of `run`; with DETACH in the background, and waits until it is up.
start_run() {
  local node file=$run/state/node_00 copy=$run/artifact/$attempt
  printf 'run %s in %q\n' "$JOBC_RUN_ID" "$run"
  printf '  follow: %q --follow\n  stop:   %q\n' "$copy/logs.sh" "$copy/stop.sh"
  keep_run
  if [[ -z $1 ]]; then exec bash "$copy/node.sh" 0 train; fi

  setsid bash "$copy/node.sh" 0 train </dev/null >/dev/null 2>>"$run/logs/node_00.log" &
  node=$!
  until [[ -f $file && $(key "$file" attempt) == "$attempt" ]]; do
    if ! kill -0 "$node" 2>/dev/null; then
      local code=0
      wait "$node" || code=$?
      tail -n 20 -- "$run/logs/node_00.log" >&2
      exit "$code"
    fi
    sleep 0.1
  done
  if [[ -n $(key "$file" pid) ]]; then return; fi # up
  tail -n 20 -- "$run/logs/node_00.log" >&2
  exit "$(key "$file" exit)"
}
