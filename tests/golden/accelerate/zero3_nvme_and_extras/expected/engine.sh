# shellcheck shell=bash disable=SC1091,SC2034,SC2154 # variables go from one part to another
# engine.sh: how job nvme starts its nodes over the network: takes the place of functions of run.sh of the same name.
# Sourced by this_job. The supervisors on the nodes need neither the connection nor this machine: they watch each other
# and the stop mark.

nodes=2
hosts=$artifact/hosts.txt
source "$artifact/client.sh"

# quoted WORD…: for a shell on the other side, whichever it is.
quoted() {
  local word out=''
  for word in "$@"; do out+=" '${word//\'/\'\\\'\'}'"; done
  printf '%s' "${out# }"
}

# on_host HOST WORD…: the command there, with a terminal if this script has one.
on_host() {
  local host=$1 terminal=()
  shift
  if [[ -t 0 && -t 1 ]]; then terminal=(-t); fi
  "${ssh_command[@]}" "${terminal[@]}" -- "$host" "$(quoted "$@")"
}

# each_host FILE WORD…: a function of this script for every host in FILE, fanout of them at once, with the host's name for a
# word `%h`. Prints `HOST: line`; the worst status of all.
each_host() {
  local list count slot pid code status=0 pids=()
  mapfile -t list <"$1"
  count=${#list[@]}
  shift
  for ((slot = 0; slot < fanout && slot < count; slot++)); do
    one_by_one "$slot" "$@" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do # not `wait -n`, which forgets a child that has ended before it is called
    code=0
    wait "$pid" || code=$?
    if ((code > status)); then status=$code; fi
  done
  return "$status"
}

# one_by_one SLOT WORD…: for each_host, every fanout-th host of `list` from SLOT on.
one_by_one() {
  local at host word words code worst=0
  for ((at = $1; at < count; at += fanout)); do
    host=${list[at]} words=() code=0
    for word in "${@:2}"; do if [[ $word == %h ]]; then words+=("$host"); else words+=("$word"); fi; done
    { "${words[@]}" 2>&1 </dev/null | sed -u "s/^/${host//\//}: /"; } || code=$?
    if ((code > worst)); then worst=$code; fi
  done
  return "$worst"
}

# task COPY WORD…: sets `task`, the command that runs task.sh of an artifact's COPY on a host, whatever its login shell is.
task() {
  # shellcheck disable=SC2016 # for the shell of the host
  task=(sh -c '[ -r "$0" ] || { echo "FAIL  $0 is not seen here: storage.root must lie on storage that all hosts share"; exit 65; }; exec bash "$0" "$@"'
    "$1/task.sh" "$run" "${@:2}")
}

# hosts_of RUN: the file with the hosts of its newest attempt; an empty one when a line of it could not be a host's name,
# which some clients hand to a shell.
hosts_of() {
  local file text
  file=$1/artifact/$(last_attempt "$1")/hosts.txt
  if [[ -f $file ]] && ! LC_ALL=C grep -qvE '^[A-Za-z0-9]([A-Za-z0-9._@:-]*[A-Za-z0-9])?$' <"$file"; then
    printf '%s' "$file"
  else
    printf '/dev/null'
  fi
}

# send_run: takes what submit.sh has made to where the nodes find it.
send_run() {
  :
}

# all_nodes PAYLOAD: task.sh with it on every host, at once; to start a run, node 0 first: the others would wait for one that
# does not answer.
all_nodes() {
  local task part code=0
  task "$run/artifact/$attempt" "$attempt" %h "$1"
  if [[ $1 != start ]] || ((nodes == 1)); then
    on_hosts "$hosts" "${task[@]}"
    return
  fi
  part=$(mktemp "$run/state/.hosts.XXXXXX")
  head -n 1 -- "$hosts" >"$part"
  on_hosts "$part" "${task[@]}" || code=$?
  if ((code == 0)); then
    tail -n +2 -- "$hosts" >"$part"
    on_hosts "$part" "${task[@]}" || code=$?
  fi
  rm -- "$part"
  return "$code"
}

# start_run DETACH: starts every node, then follows node 0 until all have ended; Ctrl-C stops the run.
start_run() {
  local copy=$run/artifact/$attempt code=0
  send_run
  printf 'run %s in %q\n' "$(basename -- "$run")" "$run"
  printf '  follow: %q --follow\n  stop:   %q\n' "$copy/logs.sh" "$copy/stop.sh"
  keep_run
  interrupted=''
  trap 'interrupted=yes; jobctl stop --run "$run" --signal TERM || true' INT # a bare `return` in a trap is what the trap interrupted
  all_nodes start >&2 || code=$?
  if ((code)); then
    forget_secrets "$run"
    jobctl stop --run "$run" --signal QUIT || true
    if [[ -n $interrupted ]]; then exit 130; fi
    die "$((code == 65 || code == 71 ? code : 1))" "not all of the $nodes nodes could be started, so none goes on" 'preflight.sh checks each host'
  fi
  forget_secrets "$run" # every node that is up has read them
  if [[ -n $1 ]]; then return; fi
  follow
}

# follow: prints what the nodes print until all have ended; the exit code of the run.
follow() {
  local code follower
  python3 -I -S "$artifact/jobctl" logs --run "$run" --follow & # where Ctrl-C does not end it: what the run prints then is wanted
  follower=$!
  trap 'kill "$follower"; exit 129' HUP TERM # the run goes on
  until wait "$follower" || ! kill -0 "$follower" 2>/dev/null; do :; done
  code=$(run_code "$run")
  echo "run $(basename -- "$run"): $(run_status "$run")"
  if [[ -n $interrupted ]]; then exit 130; fi
  exit "$code"
}
