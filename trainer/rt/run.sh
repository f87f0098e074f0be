# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# run.sh: what the scripts of an artifact share: diagnostics, finding a run, is it alive. Sourced; does nothing by itself.
# Needs bash 4.4, GNU coreutils, find, tar, awk and Linux's /proc. The parts beside it are sourced here as well.

# ---- diagnostics

# die CODE TITLE [HINT]: ends the script with CODE, and says on stderr what is wrong and what to type next.
die() {
  printf 'error: %s\n' "$(printable "$2")" >&2
  if [[ -n ${3:-} ]]; then printf '  hint: %s\n' "$(printable "$3")" >&2; fi
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
    65) echo 'invalid data or configuration: a restart will not help' ;;
    69) echo 'lost another rank, its network link or storage' ;;
    71) echo 'rendezvous timeout: the ranks did not find each other' ;;
    75) echo 'stopped early' ;;
    130) echo 'stopped by Ctrl-C' ;;
    *) echo 'unknown' ;;
  esac
}

# jobctl PROGRAM WORD…: a program of this artifact, run by the python3 on PATH.
jobctl() {
  type -P python3 >/dev/null || die 1 "python3 is not found on $(uname -n)" 'install Python 3.8 or newer, or put it on PATH'
  python3 -I -S "$artifact/jobctl" "$@"
}

# ---- where things are

# find_project ARTIFACT: sets `project`, which a run remembers. An artifact that no longer lies where
# .jobc/place says, or has nothing above it but /, belongs to the current folder.
find_project() {
  if [[ -f $1/../../state/run ]]; then
    project=$(key "$1/../../state/run" project)
  elif [[ $1 == /*/*/*/* && $1 == */"$(cat -- "$1/.jobc/place" 2>/dev/null)" ]]; then
    project=${1%/*/*/*}
  else
    cd -P . && project=$PWD
    if [[ $project == / ]]; then die 1 'this artifact was moved, and / is not a project folder' 'cd to the folder of your project'; fi
  fi
}

# under_project PATH: a relative PATH is one below the project.
under_project() {
  if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s' "$project/$1"; fi
}

# is_mine PATH: it belongs to this user, or to the owner that the storage gives new files of this user. NFS with root_squash or
# all_squash, and CIFS, change the owner of each new file.
is_mine() {
  [[ -O $1 ]] || { [[ -e $1 ]] && [[ $(stat -L -c %u -- "$1") == "$(owner_of_new_files "${1%/*}")" ]]; }
}

# owner_of_new_files FOLDER: user id. stat reads the open descriptor, because others may rename files in FOLDER.
owner_of_new_files() {
  local probe=$1/.jobc-owner.$$.$RANDOM$RANDOM
  (set -C && exec 3>"$probe" && stat -L -c %u /dev/fd/3 && rm -f -- "$probe") 2>/dev/null || echo "$EUID"
}

# owner_of FOLDER: the name of its user, or the number where there is no name.
owner_of() {
  local name
  name=$(stat -c %U -- "$1") || return
  if [[ $name == UNKNOWN ]]; then stat -c 'uid %u' -- "$1"; else printf '%s\n' "$name"; fi
}

# last_attempt RUN: the number of its newest attempt.
last_attempt() {
  numbered_folders "$1/artifact" | tail -n 1
}

# ---- is it alive

# A node's state file names the process of its supervisor: host, boot (an id of the kernel's start), pid_namespace, pid and
# start_ticks. It is locked as long as that process lives, and touched every few seconds (peers.py).

# read_state FILE: its keys, in the associative array `state` of the caller; empty where the file lacks one or has no number.
read_state() {
  local text line name value
  state=([host]='' [boot]='' [pid_namespace]='' [pid]='' [start_ticks]='' [started]='' [ended]='' [exit]='' [attempt]='' [first_rank]=0)
  read_text "$1"
  while IFS= read -r line; do
    name=${line%%=*} value=${line#*=}
    case $name in
      host | boot | pid_namespace) state[$name]=$value ;;
      pid | start_ticks | started | ended | exit | attempt | first_rank) if is_number "$value"; then state[$name]=$((10#$value)); fi ;;
    esac
  done <<<"$text"
}

# locate_process: sets `place` of the process in `state`: here; beside, in another pid namespace of this kernel; away, under
# another kernel, be it of this machine before it was restarted or of another one with its name; unknown, because an older
# jobc wrote the file.
locate_process() {
  if [[ -z ${boot_here:-} ]]; then
    host_here=$(uname -n)
    namespace_here=$(stat -Lc %i /proc/self/ns/pid)
    boot_here=$(</proc/sys/kernel/random/boot_id)
  fi
  place=away
  if [[ ${state[host]:-} != "$host_here" ]]; then return; fi
  case ${state[boot]:-}:${state[pid_namespace]:-} in
    :*) place=unknown ;;
    "$boot_here:$namespace_here") place='here' ;;
    "$boot_here":*) place=beside ;;
  esac
}

# node_status FILE: up, here; elsewhere, and live as far as is known; ended; dead, which is certain; silent, so that it must be
# dead or have lost its storage. A supervisor records `exit` before it waits for a restart in place, and `ended` with it before
# it waits for anything else.
node_status() {
  local place lock over=dead
  local -A state=()
  read_state "$1"
  if [[ -n ${state[exit]:-} ]]; then over=ended; fi
  if [[ -n ${state[ended]:-} ]]; then
    echo ended
    return
  fi
  locate_process
  if [[ $place == @(here|unknown) ]] && is_process "${state[pid]:-}" "${state[start_ticks]:-}"; then
    echo up
  elif [[ $place == here ]]; then
    echo "$over"
  else
    lock=$(lock_state "$1.lock")
    case $place:$lock in
      *:held) echo elsewhere ;;
      beside:free | unknown:*) echo "$over" ;;
      *) if is_silent "$1"; then echo silent; else echo elsewhere; fi ;;
    esac
  fi
}

# lock_state FILE: held, free, or unknown where the file or the file system does not say. Under one kernel it is certain.
lock_state() {
  local status=0
  if [[ -f $1 && -r $1 ]] && type -P flock >/dev/null; then flock -n -s -E 9 "$1" true 2>/dev/null || status=$?; else status=1; fi
  case $status in 0) echo free ;; 9) echo held ;; *) echo unknown ;; esac
}

# describe_place FILE: where a process is that cannot be seen from here.
describe_place() {
  local place
  local -A state=()
  read_state "$1"
  locate_process
  case $place in
    beside) echo "in another container on ${state[host]:-}" ;;
    *) if [[ ${state[host]:-} == "$host_here" ]]; then echo "on another machine named $host_here, or before this one was restarted"; else echo "on ${state[host]:-}"; fi ;;
  esac
}

# storage_time RUN|RUN/state: seconds since 1970, by the clock of the storage: those of two machines may differ. Nothing is written to
# the folder of another user, so there it is this machine's clock. False when the storage takes nothing.
storage_time() {
  if is_mine "${1%/state}"; then touch_mark "$1/.now" && stat -c %Y -- "$1/.now"; else date +%s; fi
}

# is_silent FILE: it has not been touched for 90 s.
is_silent() {
  local now file_s
  now=$(storage_time "${1%/*}") && file_s=$(stat -c %Y -- "$1" 2>/dev/null) || return 1
  ((now - file_s > 90))
}

# touch_mark FILE: sets the time of FILE, in a run folder, to now; creates it. False for a symlink, which may lead anywhere.
touch_mark() {
  [[ ! -L $1 ]] && touch -- "$1" 2>/dev/null
}

# is_process PID START_TICKS: that very process runs (proc(5): state and start time are fields 3 and 22 of stat).
is_process() {
  local stat fields
  [[ -n $1 && -n $2 ]] || return 1
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != [ZX] && ${fields[19]} == "$2" ]]
}

# node_files RUN: the state files of its nodes, one a line.
node_files() {
  local file
  for file in "$1"/state/node_*; do
    if [[ -f $file && ${file##*/node_} != *[!0123456789]* ]]; then printf '%s\n' "$file"; fi
  done
}

# live_elsewhere RUN: `, node NN PLACE` of the first node that lives where it cannot be seen.
live_elsewhere() {
  local file
  while IFS= read -r file; do
    if [[ $(node_status "$file") == elsewhere ]]; then
      echo ", node ${file##*_} $(describe_place "$file")"
      return
    fi
  done < <(node_files "$1")
}

# refuse_live RUN
refuse_live() {
  local file
  while IFS= read -r file; do
    case $(node_status "$file") in
      up | elsewhere)
        die 1 "run ${1##*/} is live$(live_elsewhere "$1")" 'jobctl stop ends it; without --resume, jobctl submit starts another one'
        ;;
    esac
  done < <(node_files "$1")
}

# ---- secrets of a run: in no run folder, for those are shared; removed when the run has ended

# secrets_of RUN: the folder, in the user's home, which the nodes see. JOBC_SECRETS_ROOT is where a container sees it. Its name
# ends with a hash of the run's path, which is resolved (resolve_runs), because runs in two roots may have one id. The hash
# is FNV-1a, in bash, because this runs in images that have no sha256sum.
secrets_of() {
  local LC_ALL=C position byte hash=$((0xcbf29ce484222325))
  for ((position = 0; position < ${#1}; position++)); do
    printf -v byte %d "'${1:position:1}"
    hash=$(((hash ^ (byte & 255)) * 0x100000001b3))
  done
  printf '%s-%016x' "${JOBC_SECRETS_ROOT:-${HOME:-/nonexistent}/.jobc/secrets}/${1##*/}" "$hash"
}

# save_secret VARIABLE: its value, for the nodes of `run`. It goes through no command line and no environment of a job.
save_secret() {
  local folder
  folder=$(secrets_of "$run")
  [[ -n ${!1:-} ]] || die 65 "secret: the environment variable $1 is not set" "export $1 before jobctl submit"
  { make_private "${folder%/*}" && make_private "$folder"; } || die 1 "$folder is not a folder of this user alone" 'remove it, or what it is below, if it is not yours'
  (umask 077 && cd -P -- "$folder" && [[ -O . ]] && rm -f -- "$1" && printf '%s' "${!1}" >"$1") || die 1 "cannot write to $folder"
}

# make_private FOLDER: makes it, or closes it to others; false when it is not this user's.
make_private() {
  (umask 077 && mkdir -p -- "$1") 2>/dev/null && [[ -O $1 && -d $1 && ! -L $1 ]] && chmod 700 -- "$1"
}

# is_safe FOLDER: only this user and root can replace it. It and all above it belong to them, and are closed to other writers,
# or sticky. A group with the number of the user is that user's own.
is_safe() {
  local path folders=(/) owner group mode trusted="0|$EUID"
  path=$(cd -P -- "$1" 2>/dev/null && pwd -P) || return 1
  while [[ $path == /?* ]]; do folders+=("$path") path=${path%/*}; done
  if [[ $(</proc/self/uid_map) != *4294967295* ]]; then trusted+="|$(</proc/sys/kernel/overflowuid)"; fi # root of outside a container
  while read -r owner group mode; do
    [[ $owner =~ ^($trusted)$ ]] || return 1
    if ((8#$mode & 8#1000)); then continue; fi
    if ((8#$mode & 8#2)) || { ((8#$mode & 8#20)) && [[ ! $group =~ ^(0|$EUID)$ ]]; }; then return 1; fi
  done < <(stat -c '%u %g %a' -- "${folders[@]}")
}

# private_folder NAME: prints a folder that only this user can change: the same one for all that this user starts here, unless
# somebody has taken all its places. False when there is none.
private_folder() {
  local root
  for root in "${TMPDIR:-/tmp}" /tmp "${XDG_RUNTIME_DIR:-/run/user/$EUID}"; do
    if is_safe "$root" && make_private "$root/jobc-$EUID" && make_private "$root/jobc-$EUID/$1"; then
      printf '%s' "$root/jobc-$EUID/$1"
      return
    fi
  done
  mktemp -d
}

# saved_secret RUN VARIABLE: the file of save_secret, if it is there and this user's.
saved_secret() {
  local file
  file=$(secrets_of "$1")/$2
  if [[ -f $file && -s $file && -O $file && ! -L $file && -O ${file%/*} && ! -L ${file%/*} ]]; then printf '%s' "$file"; fi
}

# forget_secrets RUN
forget_secrets() {
  rm -rf -- "$(secrets_of "$1")"
}

# ---- the other parts

parts=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=/dev/null
source "$parts/values.sh"
# shellcheck source=/dev/null
source "$parts/node_setup.sh"
