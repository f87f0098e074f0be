# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# report.sh: part of run.sh. Status in words, and stopping.

# ---- what other machines know about it: nothing to do where the run folder is seen here. An engine may know better.
# fetch_news RUN: what every node says about itself.
fetch_news() {
  :
}

# ---- how it is doing: jobctl knows (verbs/status.py)
# run_status RUN: live, done, stopped, failed, …; in words.
run_status() {
  jobctl status --run "$1" --field text
}

# run_code RUN: the exit code of one that has ended; nothing when it is not known.
run_code() {
  jobctl status --run "$1" --field code
}

# worst_exit RUN ATTEMPT [STATUS NODES]: of all nodes the code that most deserves attention. The STATUS of what started
# them counts only where one of the NODES has left none: a signal may have hit it on its way out.
worst_exit() {
  local wanted codes
  read_codes "$1" "$2"
  for wanted in 65 71 1 69 75; do
    if [[ $codes == *"=$wanted "* ]]; then
      echo "$wanted"
      return
    fi
  done
  if ((${3:-0} && $(num_ended "$1" "$2") < ${4:-1})); then echo 1; else echo 0; fi
}

# read_codes RUN ATTEMPT: sets `codes` to ` first=CODE node_00=CODE … `, of the nodes that have left their exit code.
read_codes() {
  local file text
  codes=' '
  for file in "$1/exit/$2"/{first,node_*}; do
    read_text "$file"
    text=${text%%$'\n'*}
    if is_number "$text"; then codes+="${file##*/}=$text "; fi
  done
}

# num_ended RUN ATTEMPT: how many nodes have left their exit code.
num_ended() {
  find "$1/exit/$2" -name 'node_*' -printf . 2>/dev/null | wc -c
}

# ---- stopping it
# mark_stopped RUN: the stop mark. It exists before anything is signalled, so nobody takes the end for a preemption.
mark_stopped() {
  try "write the stop mark in $1/control" mkdir -p -- "$1/control"
  try "write the stop mark in $1/control" touch_mark "$1/control/STOP"
}

# signal_nodes NAME RUN: to the supervisors on this machine.
signal_nodes() {
  local file
  while IFS= read -r file; do
    case $(node_status "$file") in
      up) signal_supervisor "$1" "$file" ;;
      elsewhere) echo "node ${file##*_} is $(describe_place "$file"): run stop.sh there, or wait until it sees the stop mark" ;;
    esac
  done < <(node_files "$2")
}

# signal_supervisor NAME FILE: to the process in the state file of a node that is up; to no other than a supervisor of that run.
signal_supervisor() {
  local pid folder
  pid=$(key_number "$2" pid)
  folder=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^JOBC_RUN_DIR=//p') || return 0
  if [[ -n $folder && $folder -ef ${2%/state/*} ]]; then kill -s "$1" "$pid" 2>/dev/null || true; fi
}

# wait_for_end SECONDS RUN: says how it ended; false when it has not.
wait_for_end() {
  local until=$((SECONDS + $1))
  while is_live "$2"; do
    if ((SECONDS >= until)); then return 1; fi
    sleep 0.2
  done
  echo "run ${2##*/}: $(run_status "$2")"
}
