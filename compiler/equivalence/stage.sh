# shellcheck shell=bash disable=SC1090,SC2034,SC2154 # files and variables of the scripts that are run
# stage.sh: read by every bash below stage.py (BASH_ENV) and by the recorders. The scripts of an artifact run as they are;
# the functions of its runtime library, and every command that is no plain filter, only note that they were called.
# Nothing is written but $JOBC_STAGE/calls. In: JOBC_STAGE, with artifact/ (the emitted files), run/, project/, bin/ and
# calls/.

if [[ -n ${JOBC_TRACE:-} ]]; then # which lines are executed, for prove/mutations.py
  exec {BASH_XTRACEFD}>>"$JOBC_TRACE"
  PS4='+${BASH_SOURCE##*/}:$LINENO: '
  set -x
fi

# jobc_note WORD…: folder, words, standing and environment of a call, NUL-terminated; by builtins alone, for there are
# some hundred. The environment is as bash prints it, which environment.py reads.
jobc_note() {
  local now=${EPOCHREALTIME:-$SECONDS} # bash 5 has microseconds
  { printf '%s\0' "$PWD" "$#" "$@" && jobc_stands && builtin export -p && printf '\0'; } \
    >"$JOBC_STAGE/calls/${now/[.,]/}.$BASHPID.$RANDOM"
}

# jobc_see: where the streams of this process lead. From here on its notes have its standing, as standing.py reads it.
jobc_see() {
  local at file
  jobc_streams=()
  for at in 0 1 2; do
    jobc_streams[at]='another file'
    if [[ -p /dev/fd/$at ]]; then jobc_streams[at]='a pipe'; fi
    if [[ ! -e /dev/fd/$at ]]; then jobc_streams[at]='nothing'; fi
    for file in /dev/null "$JOBC_STAGE"/std{out,err} "$JOBC_STAGE"/run/logs/*; do
      if [[ /dev/fd/$at -ef $file ]]; then jobc_streams[at]=${file#"$JOBC_STAGE/"}; fi
    done
  done
}
jobc_stands() { # only builtins
  if ((${#jobc_streams[@]})); then
    printf '%s\n' "$BASHPID" "${jobc_streams[@]}" && builtin umask
    if [[ ! -o posix ]]; then
      builtin ulimit -Sa && builtin trap -p
    else # which has other units and names of signals; to leave it here would unset POSIXLY_CORRECT, which is the job's
      (set +o posix && builtin ulimit -Sa && builtin trap -p)
    fi
  fi
  printf '\0'
}
jobc_begin() { # what the stage itself has given, before anything of the artifact: the first call of all
  jobc_see
  { printf '%s\0' "$PWD" 1 begins && jobc_stands; } >"$JOBC_STAGE/calls/0"
}
jobc_streams=()

command_not_found_handle() {
  jobc_note "$@"
}

# Files of the artifact are the stage's, whatever folder a script thinks they are in; those of the library are this one.
# Aliases: in POSIX mode (env.POSIXLY_CORRECT=1) bash 5.2 takes a special builtin before a function of its name.
jobc_source() {
  local file=$JOBC_STAGE/artifact/${1##*/}
  case $1 in
    */lib/jobc_trainer/rt/*) ;;
    *) if [[ -f $file ]]; then builtin source "$file" "${@:2}"; else jobc_note source "$@"; fi ;;
  esac
}
jobc_trap() {
  jobc_note trap "$@"
  builtin trap "$@"
}
jobc_wait() { # by itself it leaves no trace of what a script does not wait for
  jobc_note wait "$@"
  builtin wait "$@"
}
shopt -s expand_aliases
alias source=jobc_source .=jobc_source trap=jobc_trap wait=jobc_wait

exit_with() { # of what the library calls fail and die: the reader says why a script gave up
  jobc_note "$@"
  exit "$2"
}
die() { exit_with die "$@"; }
fail() { exit_with fail "$@"; }

this_job() {
  job_name=$1 artifact=$JOBC_STAGE/artifact own_run='' run='' runs=$JOBC_STAGE/runs project=$JOBC_STAGE/project moved=''
  jobc_note this_job "$@"
  if [[ -f $artifact/engine.sh ]]; then builtin source "$artifact/engine.sh"; fi
  if [[ -n ${JOBC_STAGE_VERBS:-} ]]; then jobc_hear; fi
}

# jobc_hear: what a verb asks of these is noted, whether the engine has its own or not; its own does what it does.
jobc_hear() {
  local name
  for name in mark_stopped signal_nodes wait_for_end wait_for_job describe_nodes fetch_news fetch_logs follow_logs \
    forget_secrets read_storage on_node; do
    if declare -F "$name" >/dev/null; then
      eval "jobc_own_$(declare -f "$name")"
      eval "$name() { jobc_note $name \"\$@\" && jobc_own_$name \"\$@\"; }"
    fi
  done
}
find_project() { project=$JOBC_STAGE/project moved=''; }
under_project() { if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s' "$project/$1"; fi; }
create_run() {
  jobc_note create_run "$@"
  run=$JOBC_STAGE/run attempt=0
}
create_temporary_run() {
  jobc_note create_temporary_run "$@"
  run=$JOBC_STAGE/run attempt=0
}
join_run() { # the call knows JOBC_RUN_DIR as the engine's file has it; from here on it is the stage's
  jobc_note join_run "$@"
  run=$JOBC_STAGE/run attempt=0
  export JOBC_ATTEMPT=0 JOBC_RUN_DIR=$run
}
join_bucket() {
  jobc_note join_bucket "$@"
  run=$JOBC_STAGE/run attempt=0
  export JOBC_ATTEMPT=0 JOBC_RUN_DIR=$run
}
start_run() { exec bash "$JOBC_STAGE/artifact/node.sh" 0 train; }
key() {
  local line
  [[ -f $1 ]] || return 0
  while IFS= read -r line; do
    if [[ $line == "$2="* ]]; then printf '%s' "${line#*=}" && return; fi
  done <"$1"
}
last_attempt() { echo 0; }
worst_exit() {
  jobc_note worst_exit "$@"
  echo "${3:-0}"
}
meaning() { echo "$1"; }
is_run() { return 1; }
node_status() { echo "${JOBC_STAGE_NODE:-dead}"; }
try() { jobc_note "${@:2}"; }
mkdir() { jobc_note mkdir "$@"; }
tee() {
  jobc_note tee "$@"
  cat
}
getent() { :; }
sleep() { builtin read -rt 0.02 _ <>"$JOBC_STAGE/nothing" || true; } # without a process
dirname() { if (($# == 2)) && [[ $1 == -- && $2 == ?*/?* && $2 != */ ]]; then printf '%s\n' "${2%/*}"; else command dirname "$@"; fi; }
basename() { if (($# == 2)) && [[ $1 == -- && $2 == */?* && $2 != */ ]]; then printf '%s\n' "${2##*/}"; else command basename "$@"; fi; }
kill() { # what a script sends is noted, and goes nowhere
  if [[ $1 == -s ]]; then jobc_note kill "$@"; else builtin kill "$@"; fi
}
setsid() {
  jobc_note setsid "$@"
  command setsid "$@"
}
realpath() { printf '%s\n' "${@: -1}"; }
secrets_of() { printf '%s' "$HOME/.jobc/secrets/${1##*/}"; }
cd() { # also into a folder that only the node has: the last call says where a script is
  if builtin cd "$@" 2>/dev/null; then jobc_note cd "$PWD"; else jobc_note cd "${@: -1}"; fi
}

find_python() {
  jobc_note find_python "$@"
  python=$JOBC_STAGE/bin/python
}
use_cache() {
  jobc_note use_cache "$@"
  cache=$1
}
use_own_cache() { use_cache "$@"; }
secret_env() {
  jobc_note secret_env "$@"
  export "$1=secret:$2"
}
secret_file() {
  jobc_note secret_file "$@"
  export "$1=secret:$2"
}
secret_k8s() { jobc_note secret_k8s "$@"; }
need_shm() { jobc_note need_shm "$@"; }
activated() { jobc_note activated "${@:2}"; }
enter_container() { # goes on inside, where node.sh starts once more
  jobc_note enter_container "$runtime" "$image" "${shm_bytes:-}" "${#mounts[@]}" "${mounts[@]}" "${container_options[@]}"
  export JOBC_INSIDE=0
  exec bash "$JOBC_STAGE/artifact/node.sh" "$@"
}

# What only verbs ask for. JOBC_STAGE_WAIT: whether a run ends (0); JOBC_STAGE_LIVE: whether one is live (0); JOBC_STAGE_OLD:
# a run that clean.sh finds.
choose_run() {
  jobc_note choose_run "$@"
  run=$JOBC_STAGE/run
}
choose_live_run() {
  jobc_note choose_live_run "$@"
  run=$JOBC_STAGE/run
}
choose_continued_run() {
  jobc_note choose_continued_run "$@"
  run=$JOBC_STAGE/run
}
continue_run() {
  jobc_note continue_run "$@"
  attempt=1
}
wait_for_end() { return "${JOBC_STAGE_WAIT:-0}"; }
wait_for_job() { return "${JOBC_STAGE_WAIT:-0}"; }
is_live() { observe "$1"; }
no_runs() { [[ -z ${JOBC_STAGE_RUNS:-} ]]; }
list_runs() { printf '%s\0' "$JOBC_STAGE/run"; }
observe() {
  file=$(job_file "$1") state=gone code=''
  if declare -F ask_engine >/dev/null; then ask_engine "$1"; fi
  return "${JOBC_STAGE_LIVE:-1}"
}
job_file() { printf '%s/state/job_0' "$1"; }
run_status() { echo "status of ${1##*/}"; }
log_sizes() {
  jobc_note log_sizes "$@"
  echo "1 ${2:-}"
}
list_removals() {
  jobc_note list_removals "$@"
  removals=(${JOBC_STAGE_OLD:+"$JOBC_STAGE_OLD"})
}
trial_id() { printf 'trial-%s' "$1"; }
table() {
  cat >/dev/null
  jobc_note table "$@"
}

# What of the settings in node.sh only the library reads, and nothing else shows.
lock_ports() {
  jobc_note settings "$nodes" "$procs" "$gpus" "$launcher" "$network" "$interface" "$rendezvous_timeout_s" "$code_kind" \
    "$code_root" "$wanted_python" "$uses_trainer"
}
find_network() { jobc_note find_network; }
find_head_port() { jobc_note find_head_port; }
refuse_live_node() { jobc_note refuse_live_node; }
settle_in() { jobc_note settle_in; }
need_launch_module() { jobc_note need_launch_module; }
need_mpirun() { jobc_note need_mpirun; }
need_module() { jobc_note need_module "$@"; }
need_file() { :; }
