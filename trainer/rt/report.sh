# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# report.sh: part of run.sh. Status in words, and stopping.

# ---- what other machines know about it: nothing to do where the run folder is seen here. An engine may know better.
# fetch_news RUN: what every node says about itself.
fetch_news() {
  :
}

# fetch_log RUN LOG: what has been appended to a log since the last time.
fetch_log() {
  :
}

# follow_log RUN LOG: prints it until the run ends.
follow_log() {
  tail -n +1 -f --pid="$(key "$1/state/node_00" pid)" -- "$2"
}

# ---- how it is doing
# run_status RUN: live, done, stopped, failed, …; in words.
run_status() {
  local file=$1/state/node_00
  if is_live "$1"; then
    if [[ -e $1/control/STOP ]]; then echo 'stopping'; else echo 'live'; fi
  elif [[ ! -f $file ]]; then
    echo 'not started'
  elif [[ $(node_status "$file") == dead ]]; then
    echo 'failed: its supervisor was killed, or the machine was restarted'
  else
    ended "$1" "$(run_code "$1")"
  fi
}

# run_code RUN, run_reason RUN: of one that has ended, its exit code and why.
run_code() {
  key "$1/state/node_00" exit
}
run_reason() {
  key "$1/state/node_00" reason
}

# ended RUN CODE: how a run ended, in words.
ended() {
  if [[ -e $1/control/STOP && $2 == @(0|130) ]]; then
    echo "stopped by stop.sh or Ctrl-C (exit $2)"
  elif (($2 == 0)); then
    echo 'done (exit 0)'
  elif (($2 == 75)); then
    echo 'stopped early (exit 75)'
  else
    echo "failed (exit $2: $(meaning "$2"))"
  fi
}

# describe_end RUN: of a run that did not end as it should, why, and the command that goes on with it.
describe_end() {
  local code
  if [[ -z $(node_files "$1") ]] || is_live "$1"; then return; fi
  code=$(run_code "$1")
  if [[ -n $code && $code != @(0|130) ]]; then printf '  reason: %s\n' "$(run_reason "$1")"; fi
  if [[ -f $1/state/resume ]] && { [[ -z $code || $code == @(69|75) ]] || [[ $code == 1 && -d $1/checkpoints ]]; }; then
    printf '  go on with: %s\n' "$(key "$1/state/resume" command)"
  fi
}

# describe_node FILE: one line.
describe_node() {
  local node=${1##*/node_} status since
  status=$(node_status "$1")
  since=$(key "$1" started)
  case $status in
    up) printf 'node %s  up on %s since %s, pid %s' "$node" "$(key "$1" host)" "$(clock "$since")" "$(key "$1" pid)" ;;
    ended) printf 'node %s  ended on %s at %s, exit %s' "$node" "$(key "$1" host)" "$(clock "$(key "$1" ended)")" "$(key "$1" exit)" ;;
    dead) printf 'node %s  down on %s, started %s' "$node" "$(key "$1" host)" "$(clock "$since")" ;;
    elsewhere) printf 'node %s  on %s since %s; ask there' "$node" "$(key "$1" host)" "$(clock "$since")" ;;
  esac
}

# clock SECONDS: as in the logs.
clock() {
  date -u -d "@$1" '+%F %T UTC'
}

# last_step RUN: step and loss of the last complete line of rank 0's metrics that has both.
last_step() {
  [[ -f $1/metrics/rank_00.jsonl ]] || return 0
  tail -c 65536 -- "$1/metrics/rank_00.jsonl" | LC_ALL=C awk '
    /}$/ && match($0, /"step": *[0-9]+/) {
      step = substr($0, RSTART, RLENGTH); sub(/.*: */, "", step)
      if (match($0, /"loss[a-z_]*": *[-+0-9.eE]+/)) { loss = substr($0, RSTART, RLENGTH); sub(/.*: */, "", loss); found = 1 }
    }
    END { if (found) printf "  step %s, loss %.4g\n", step, loss }'
}

# ---- stopping it
# mark_stopped RUN: the stop mark. It exists before anything is signalled, so nobody takes the end for a preemption.
mark_stopped() {
  try "write the stop mark in $1/control" mkdir -p -- "$1/control"
  try "write the stop mark in $1/control" touch -- "$1/control/STOP"
}

# signal_nodes NAME RUN: to the supervisors on this machine.
signal_nodes() {
  local file
  while IFS= read -r file; do
    case $(node_status "$file") in
      up) kill -s "$1" "$(key "$file" pid)" 2>/dev/null || true ;;
      elsewhere) echo "node ${file##*_} is on $(key "$file" host): run stop.sh there, or wait until it sees the stop mark" ;;
    esac
  done < <(node_files "$2")
}

# wait_for_end SECONDS RUN: says how it ended; false when it has not.
wait_for_end() {
  local until=$((SECONDS + $1))
  while is_live "$2"; do
    if ((SECONDS >= until)); then return 1; fi
    sleep 0.2
  done
  echo "run $(basename -- "$2"): $(run_status "$2")"
}
