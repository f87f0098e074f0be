# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# new_run.sh: part of run.sh. Makes a run or its next attempt.

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

# resume_id RUN: what submit.sh --resume takes for it: its path where this call finds runs in another place than the artifact.
resume_id() {
  if [[ -n ${JOBC_RUN_ROOT:-}$moved ]]; then printf '%s' "$1"; else printf '%s' "${1##*/}"; fi
}

# note_resume: what to type to go on with `run`, for status.sh and for the last words of a run.
note_resume() {
  { rm -f -- "$run/state/resume" && printf 'command=%q --resume %q\n' "$artifact/submit.sh" "$(resume_id "$run")" >"$run/state/resume"; } 2>/dev/null ||
    die 1 "cannot write $run/state/resume" 'is the disk full?'
}

# make_run_root FOLDER: of all runs, which git ignores until somebody removes its .gitignore.
make_run_root() {
  if [[ -e $1 ]]; then return; fi
  try "create the folder $1" mkdir -p -- "$1"
  echo '*' >"$1/.gitignore" || die 1 "cannot write to $1" 'is the disk full?'
}

# warn_of_live_runs: of this user and this job. Two at once may be meant, or may be a submit.sh that was typed twice.
warn_of_live_runs() {
  local live
  if [[ ! -d $runs ]]; then return; fi
  live=$(jobctl status --live 2>/dev/null) || return 0
  if [[ -n $live ]]; then
    printf 'warning: job %s is live already, in run %s; this is another run (stop.sh --run ID ends one)\n' "$job_name" "${live// /, }" >&2
  fi
}

# create_run [ID]: a new run folder in `run`, for attempt 0.
create_run() {
  local id=${1:-} tries=5
  if [[ -n $id ]] && ! is_run_id "$id"; then
    die 2 "not a run id: $id" 'letters, digits, dot, dash and underscore'
  fi
  make_run_root "$(dirname -- "$runs")"
  try "create the folder $runs" mkdir -p -- "$runs"
  resolve_runs
  warn_of_live_runs
  while ((tries--)); do
    run=$runs/${id:-$(date -u +%Y%m%d-%H%M%S)-$(od -An -N2 -tx1 /dev/urandom | tr -d ' \n')}
    if [[ -n $id ]]; then remove_abandoned "$run"; fi
    if mkdir -- "$run" 2>/dev/null; then
      unfinished=$run
      trap discard_unfinished EXIT
      attempt=0
      note_maker
      copy_artifact
      return
    elif [[ -e $run && -n $id ]]; then
      is_run "$run" || die 1 "$run is there, and is not a run that this script can continue" \
        "another submit.sh is making it, or it is not of jobc: choose another --run-id, or remove it"
      die 1 "run $id exists already" "submit.sh --resume $id continues it"
    elif [[ ! -e $run ]]; then
      try "create the folder $run" mkdir -- "$run"
    fi
  done
  die 1 "no free run id in $runs"
}

# note_maker: the process that makes `run`, as in the state file of a node: until describe_run, the folder is its own.
note_maker() {
  local place stat fields host_here namespace_here boot_here=''
  local -A state=()
  locate_process
  stat=$(<"/proc/$$/stat")
  read -ra fields <<<"${stat##*) }"
  printf '%s=%s\n' host "$host_here" boot "$boot_here" pid_namespace "$namespace_here" pid "$$" start_ticks "${fields[19]}" \
    >"$run/.making" 2>/dev/null || die 1 "cannot write to $run" 'is the disk full?'
}

# remove_abandoned FOLDER: what is left of a run of this user whose maker was killed, so that its id is free again.
remove_abandoned() {
  if is_run "$1" || [[ ! -f $1/.making || -L $1/.making ]] || ! is_mine "$1"; then return; fi
  if [[ $(node_status "$1/.making") == @(dead|silent) ]]; then
    erase "$1" || die 1 "cannot remove $1, which a submit.sh that was killed has left"
  fi
}

# erase FOLDER, which must be this user's: hides it first, so that a kill in the middle leaves nothing half under its name. Follows no symbolic
# link and goes to no other file system. clean.sh does the same (removal.py).
erase() {
  local hidden=${1%/*}/.${1##*/}.removed
  [[ -d $1 && ! -L $1 ]] && is_mine "$1" && mv -T -- "$1" "$hidden" || return 1
  chmod -R u+w -- "$hidden" 2>/dev/null || true # the copies of code and artifact in a run are read-only
  rm -rf --one-file-system -- "$hidden"
}

# create_temporary_run [FOLDER]: a run folder in `run`, removed when this script ends unless keep_temporary_run is called.
create_temporary_run() {
  local folder=${1:-${TMPDIR:-/tmp}}
  if [[ -z ${1:-} && -d $folder ]] && ! is_safe "$folder"; then folder=$(private_folder smoke) || die 1 "cannot create a folder in $folder" 'set TMPDIR'; fi
  run=$(mktemp -d "$folder/.jobc-smoke.XXXXXX") || die 1 "cannot create a folder in $folder" 'check permissions and free space, or set JOBC_RUN_ROOT to another folder'
  unfinished=$run
  run=$(cd -- "$run" && pwd -P)
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
  local copy=$run/artifact/$attempt part
  try "create the folder $run/artifact" mkdir -p -- "$run/artifact"
  part=$run/artifact/.$attempt.$$ # a name that no attempt has, so that a kill leaves no half one
  try "create the folder $part" mkdir -- "$part"
  unfinished=${unfinished:-$part}
  trap discard_unfinished EXIT
  try "copy the artifact to $part" cp -R -- "$artifact/." "$part"
  chmod -R a-w -- "$part"
  if [[ -e $copy ]] || ! mv -T -- "$part" "$copy" 2>/dev/null; then
    [[ ! -e $copy ]] || die 1 "attempt $attempt of run ${run##*/} is being started by another"
    try "create the folder $copy" mv -T -- "$part" "$copy"
  fi
  if [[ $unfinished == "$part" ]]; then unfinished=$copy; fi
}

# describe_run INIT_FROM: writes state/run, which makes the folder a run. Last step of its making.
describe_run() {
  try "create the folder $run/state" mkdir -p -- "$run/state" "$run/logs" "$run/control"
  { printf '%s=%s\n' job "$job_name" created "$(date +%s)" project "$project" init_from "$1" >"$run/state/run"; } 2>/dev/null ||
    die 1 "cannot write $run/state/run" 'is the disk full?'
  rm -f -- "$run/.making"
}

# choose_continued_run ID: sets `run`, and checks that this artifact may continue it.
choose_continued_run() {
  local id last changed hint
  choose_run "$1" change
  refuse_irregular "$run"
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

# refuse_irregular RUN: ends the script when something that the next attempt writes to is neither a file nor a folder: a
# named pipe would make it wait, a symbolic link have it write to any file of this user.
refuse_irregular() {
  local found
  found=$(cd -- "$1" && find state exit logs metrics control starts -maxdepth 2 ! -path 'logs/torchrun/*' ! -type f ! -type d -print -quit 2>/dev/null) || true
  if [[ -z $found ]]; then
    found=$(cd -- "$1" && find state/node_* state/resume state/run logs/*.log metrics/*.jsonl -maxdepth 0 ! -type f -print -quit 2>/dev/null) || true
  fi
  [[ -z $found ]] || die 65 "$found in run ${1##*/} is not a regular file" "remove it, then resume; jobc did not make it"
}

# continue_run [NEW_CODE]: prepares the next attempt of `run`; NEW_CODE: yes when the caller then copies the code again.
continue_run() {
  local last changed
  last=$(last_attempt "$run")
  attempt=$((last + 1))
  copy_artifact
  changed=$(printable "$(compare_specs "$run/artifact/$last/.jobc/spec.txt" "$artifact/.jobc/spec.txt")")
  if [[ -n $changed ]]; then
    printf 'changed since attempt %s:\n%s\n' "$last" "$changed"
    printf 'attempt %s\n%s\n' "$attempt" "$changed" >>"$run/state/changes"
  fi
  if [[ -n ${1:-} ]]; then
    [[ -d $run/code ]] || die 2 "run ${run##*/} has no copy of the code, so --new-code has nothing to do"
    [[ ! -e $run/state/mirror ]] || die 2 'with storage.run=node the code is on the hosts, so --new-code cannot replace it' '--fork starts a new run with the code as it is now'
    printf 'attempt %s\n  code: copied again\n' "$attempt" >>"$run/state/changes"
  elif [[ -d $run/code ]]; then
    printf 'the code is that of the first start, in %q; --new-code copies it again\n' "$run/code"
  fi
  rm -f -- "$run/control/STOP"
}

# compare_specs OLD NEW: a line for each `key = value` that differs.
compare_specs() {
  local text old new
  read_text "$1" && old=$text
  read_text "$2" && new=$text
  awk '
    { at = index($0, " = "); name = substr($0, 1, at - 1); names[name]; value[side, name] = substr($0, at + 3) }
    END {
      for (name in names) {
        was = ("old", name) in value ? value["old", name] : "(not set)"
        is = ("new", name) in value ? value["new", name] : "(not set)"
        if (was != is) print "  " name ": " was " -> " is
      }
    }' side=old <(printf '%s\n' "$old") side=new <(printf '%s\n' "$new") | sort
}

# ---- the copy of the user's code

code_script='' # the file of the user's code that the ranks run, where the scripts of the artifact know it

# snapshot_code ROOT MAX_BYTES: copies the code there to RUN/code, where the ranks run and may write. Not copied is what git
# would not commit, and what a .jobcignore (written as a .gitignore) names, committed or not. Top-level entries that git
# ignores, such as data/, are linked where the nodes see them. When git cannot answer, nothing is copied. code_script,
# which the ranks run, must be in the copy.
snapshot_code() {
  local words=()
  if [[ -n $code_script ]]; then words+=(--script "$code_script"); fi
  if nodes_see "$1"; then words+=(--linked); fi
  jobctl snapshot --run "$run" --runs "$runs" --project "$project" --max-bytes "$2" "${words[@]}" -- "$1" || exit
}

# nodes_see FOLDER: the ranks can open it, because it is on the file system of the run. Engines that know better redefine it.
nodes_see() {
  [[ $(stat -c %m -- "$1" 2>/dev/null) == "$(stat -c %m -- "$run")" ]]
}
