# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# run.sh: what the scripts of an artifact share: diagnostics, finding a run, is it alive. Sourced; does nothing by itself.
# Needs bash 4.4, GNU coreutils, find, tar, awk and Linux's /proc. The parts beside it are sourced here as well.
# After `this_job`: artifact (folder of the script), project (holds artifacts/), runs (RUN_ROOT/NAME), own_run (or '').

# ---- diagnostics

# die CODE TITLE [HINT]: ends the script with CODE, and says on stderr what is wrong and what to type next.
die() {
  printf 'error: %s\n' "$2" >&2
  if [[ -n ${3:-} ]]; then printf '  hint: %s\n' "$3" >&2; fi
  exit "$1"
}

# show_help: the comment at the top of the script that was called.
show_help() {
  sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0"
}

# bad_option WORD: ends the script with 2, for an option that it does not know.
bad_option() {
  die 2 "unknown option: $1" "$(basename -- "$0") --help"
}

# need_value OPTION VALUE…: dies when the value is missing.
need_value() {
  (($# >= 2)) || die 2 "$1 needs a value" "$(basename -- "$0") --help"
}

# try WHAT COMMAND…: runs it; when it fails, dies with the reason that it gave last.
try() {
  local what=$1 said
  shift
  said=$("$@" 2>&1 >/dev/null) || die 1 "cannot $what: ${said##*: }" \
    'check permissions and free space, or set JOBC_RUN_ROOT to another folder'
}

# meaning CODE: a D13 exit code in words, as in exit_codes.py.
meaning() {
  case $1 in
    0) echo 'done' ;;
    1) echo 'crashed' ;;
    65) echo 'data or configuration broken: starting it again will not help' ;;
    69) echo 'another rank, the link to it or storage was lost' ;;
    71) echo 'the ranks did not find each other' ;;
    75) echo 'stopped early' ;;
    130) echo 'stopped by Ctrl-C' ;;
    *) echo 'unknown' ;;
  esac
}

# ---- where things are

# this_job NAME RUN_ROOT: called first by every script. RUN_ROOT is relative to the folder that holds artifacts/.
this_job() {
  job_name=$1
  artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[1]}")" && pwd -P)
  own_run='' run=''
  find_project "$artifact"
  if [[ -f $artifact/../../state/run ]]; then # this is RUN/artifact/ATTEMPT
    own_run=$(cd -- "$artifact/../.." && pwd -P)
    runs=$(dirname -- "$own_run")
  else
    local root=${JOBC_RUN_ROOT:-$2}
    [[ $root == /* ]] || root=$([[ -n ${JOBC_RUN_ROOT:-} ]] && pwd || printf '%s' "$project")/$root
    runs=$root/$job_name
    if [[ -n $moved ]]; then printf 'this artifact was moved: its runs are in %q\n' "$runs" >&2; fi
  fi
  local folder
  for folder in "$project" "$runs"; do # state/ and node_files have one path a line
    if [[ $folder == *$'\n'* ]]; then die 2 "the folder's name holds a newline: ${folder@Q}" 'rename the folder'; fi
  done
  # shellcheck source=/dev/null
  if [[ -f $artifact/engine.sh ]]; then source "$artifact/engine.sh"; fi
}

# find_project ARTIFACT: sets `project`, which a run remembers, and `moved`. An artifact that no longer lies where
# .jobc/place says, or has nothing above it but /, belongs to the current folder.
find_project() {
  moved=''
  if [[ -f $1/../../state/run ]]; then
    project=$(key "$1/../../state/run" project)
  elif [[ $1 == /*/*/*/* && $1 == */"$(cat -- "$1/.jobc/place" 2>/dev/null)" ]]; then
    project=${1%/*/*/*}
  else
    cd -P . && project=$PWD moved=yes
    if [[ $project == / ]]; then die 1 'this artifact was moved, and / is no project' 'cd to the folder of your project'; fi
  fi
}

# under_project PATH: a relative PATH is one below the project.
under_project() {
  if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s' "$project/$1"; fi
}

# key FILE NAME: the value of a `NAME=value` line.
key() {
  local line
  while IFS= read -r line; do
    if [[ $line == "$2="* ]]; then
      printf '%s' "${line#*=}"
      return
    fi
  done <"$1"
}

# is_run FOLDER: made by jobc, and completely; clean.sh hides what it is about to remove.
is_run() {
  [[ -f $1/state/run && -d $1/artifact && ! -L $1 && ${1##*/} != .* ]]
}

# list_runs: all runs of this job, the one started last first, NUL-terminated.
list_runs() {
  local found
  [[ -d $runs ]] || return 0
  while IFS= read -r -d '' found; do
    if is_run "${found#* }"; then printf '%s\0' "${found#* }"; fi
  done < <(find "$runs" -mindepth 2 -maxdepth 2 -name artifact -printf '%T@ %h\0' | sort -znr)
}

# choose_run [ID|FOLDER]: sets `run`: the named one, else the one this script lies in, else the newest.
choose_run() {
  run=''
  if [[ -n ${1:-} ]]; then
    local candidate
    for candidate in "$runs/$1" "$1"; do
      if is_run "$candidate"; then
        run=$(cd -- "$candidate" && pwd -P)
        return
      fi
    done
    die 1 "job $job_name has no run $1 in $runs" 'status.sh --all lists them'
  fi
  run=$own_run
  [[ -n $run ]] || IFS= read -r -d '' run < <(list_runs) || die 1 "job $job_name has no run in $runs" \
    'submit.sh makes one; JOBC_RUN_ROOT says where they are'
}

# check_node NODE NODES: ends the script when there is no such node; the first is 0.
check_node() {
  if [[ ! $1 =~ ^(0|[1-9][0-9]{0,8})$ ]] || (($1 >= $2)); then
    die 2 "there is no node $1" "nodes are 0 to $(($2 - 1)); a command comes after --"
  fi
}

# last_attempt RUN: the number of its newest attempt.
last_attempt() {
  find "$1/artifact" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort -n | tail -n 1
}

# ---- is it alive

# node_status FILE: up, ended, dead (its supervisor is gone without a word, or has been silent) or elsewhere (another host).
node_status() {
  if [[ -n $(key "$1" ended) ]]; then
    echo ended
  elif [[ $(key "$1" host) != "$(uname -n)" ]]; then
    if is_silent "$1"; then echo dead; else echo elsewhere; fi
  elif is_process "$(key "$1" pid)" "$(key "$1" start_ticks)"; then
    echo up
  else
    echo dead
  fi
}

# is_silent FILE: its supervisor touches it every few seconds (peers.py), and has not for long. Times are compared on the
# storage itself, for clocks of two machines may differ.
is_silent() {
  local now=${1%/*}/.now
  touch -- "$now" 2>/dev/null || return 1
  (($(stat -c %Y -- "$now") - $(stat -c %Y -- "$1") > 90))
}

# is_process PID START_TICKS: that very process runs (proc(5): state and start time are fields 3 and 22 of stat).
is_process() {
  local stat fields
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != [ZX] && ${fields[19]} == "$2" ]]
}

# node_files RUN: the state files of its nodes, one a line.
node_files() {
  local file
  for file in "$1"/state/node_*; do
    if [[ -f $file && $file != *.lock ]]; then printf '%s\n' "$file"; fi
  done
}

# is_live RUN: some node is up, or is on another host and has not ended.
is_live() {
  seems_live "$1"
}

# seems_live RUN: as far as its folder here tells.
seems_live() {
  local file
  while IFS= read -r file; do
    case $(node_status "$file") in up | elsewhere) return 0 ;; esac
  done < <(node_files "$1")
  return 1
}

# refuse_live RUN
refuse_live() {
  if is_live "$1"; then
    die 1 "run ${1##*/} is live" 'stop.sh ends it; without --resume, submit.sh starts another one'
  fi
}

# ---- which of the live ones
# no_runs: this job has none, and this script lies in none.
no_runs() {
  [[ -z $own_run && -z $(list_runs | tr '\0' '\n') ]]
}

# choose_live_run [ID|FOLDER]: sets `run`; refuses to choose between two, and ends the script when there is none.
choose_live_run() {
  local candidate live=()
  if [[ -n ${1:-}$own_run ]]; then
    choose_run "${1:-}"
    is_live "$run" || die 1 "run ${run##*/} is not live: $(run_status "$run")"
    return
  fi
  while IFS= read -r -d '' candidate; do
    if is_live "$candidate"; then live+=("$candidate"); fi
  done < <(list_runs)
  if ((${#live[@]} == 0)); then die 1 "job $job_name has no live run in $runs"; fi
  if ((${#live[@]} > 1)); then die 1 "job $job_name has ${#live[@]} live runs: ${live[*]##*/}" 'choose one with --run ID'; fi
  run=${live[0]}
}

# ---- secrets of a run: in no run folder, for those are shared; removed when the run has ended

# secrets_of RUN: the folder, in the user's home, which the nodes see. JOBC_SECRETS_ROOT is where a container sees it.
secrets_of() {
  printf '%s' "${JOBC_SECRETS_ROOT:-${HOME:-/nonexistent}/.jobc/secrets}/${1##*/}"
}

# save_secret VARIABLE: its value, for the nodes of `run`. It goes through no command line and no environment of a job.
save_secret() {
  local folder
  folder=$(secrets_of "$run")
  [[ -n ${!1:-} ]] || die 65 "secret: the environment variable $1 is not set" "export $1 before submit.sh"
  (umask 077 && mkdir -p -- "$folder" && printf '%s' "${!1}" >"$folder/$1") || die 1 "cannot write to $folder"
}

# forget_secrets RUN
forget_secrets() {
  rm -rf -- "$(secrets_of "$1")"
}

# ---- the other parts

parts=$(dirname -- "${BASH_SOURCE[0]}")
for part in new_run old_runs join_run join_bucket code_snapshot code_checkout node_setup report follow; do
  # shellcheck source=/dev/null
  source "$parts/$part.sh"
done
