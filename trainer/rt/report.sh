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

# fetch_logs RUN FILE…: the same for these logs of its folder; FILE may be a pattern.
fetch_logs() {
  :
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

# worst_exit RUN ATTEMPT [STATUS NODES]: of all nodes the code that most deserves attention. The STATUS of what started
# them counts only where one of the NODES has left none: a signal may have hit it on its way out.
worst_exit() {
  local wanted
  for wanted in 65 71 1 69 75; do
    if grep -qsx -- "$wanted" "$1/exit/$2"/{first,node_*}; then
      echo "$wanted"
      return
    fi
  done
  if ((${3:-0} && $(find "$1/exit/$2" -name 'node_*' 2>/dev/null | wc -l) < ${4:-1})); then echo 1; else echo 0; fi
}

# describe_reason RUN: of one that fails, or has, why: the node that was first, or what the run says.
describe_reason() {
  local code first
  first=$1/exit/$(last_attempt "$1")/first
  if [[ -f $first ]]; then
    printf '  reason: node %s: %s\n' "$(key "$first" node)" "$(key "$first" reason)"
  elif [[ -n $(node_files "$1") ]] && ! is_live "$1"; then
    code=$(run_code "$1")
    # of a stop only that something was killed: what came after its last checkpoint is lost
    if [[ -n $code && ($code != @(0|130) || $(run_reason "$1") == *': killed, '*) ]]; then
      printf '  reason: %s\n' "$(run_reason "$1")"
    fi
  fi
}

# describe_next RUN: of one that has ended early, the command that goes on with it.
describe_next() {
  local code
  if [[ -z $(node_files "$1") ]] || is_live "$1"; then return; fi
  code=$(run_code "$1")
  if [[ -f $1/state/resume ]] && { [[ -z $code || $code == @(69|75) ]] || [[ $code == 1 && -d $1/checkpoints ]]; }; then
    printf '  go on with: %s\n' "$(key "$1/state/resume" command)"
  fi
}

# describe_nodes RUN NODES: a line for each of them: up, ended or down, where, and how far its first rank is. Starts no
# program for each, so that a thousand take a second.
describe_nodes() {
  local file now=$1/state/.now files=() line words here last node
  here=$(uname -n)
  last=$(last_attempt "$1")
  local -A touched=() steps=()
  mapfile -t files < <(node_files "$1")
  if ((${#files[@]} == 0)); then return; fi
  touch -- "$now" 2>/dev/null || now=$1/state # times are compared on the storage itself: clocks of two machines differ
  while read -r line file; do touched[$file]=$line; done < <(stat -c '%Y %n' -- "$now" "${files[@]}" 2>/dev/null)
  while read -r line words; do steps[$line]=$words; done < <(last_steps "$1")
  for file in "${files[@]}"; do describe_node "$file" "$((${touched[$now]} - ${touched[$file]:-0}))"; done
  for ((node = 0; node < $2; node++)); do
    printf -v file '%s/state/node_%02d' "$1" "$node"
    if [[ ! -f $file ]]; then echo "  node ${file##*_}  has not started"; fi
  done
}

# describe_node FILE SILENT_S: one line; its supervisor touched the file SILENT_S ago. The rest it has from describe_nodes.
describe_node() {
  local line node=${1##*/node_} silent_s=$2
  local -x TZ=UTC0
  local -A state=()
  while IFS= read -r line; do state[${line%%=*}]=${line#*=}; done <"$1"
  printf '  node %s  ' "$node"
  if [[ -n ${state[ended]:-} ]]; then
    printf 'ended on %s at %(%F %T)T UTC, exit %s' "${state[host]}" "${state[ended]}" "${state[exit]}"
  elif [[ ${state[host]} == "$here" ]]; then
    if is_process "${state[pid]}" "${state[start_ticks]}"; then
      printf 'up on %s since %(%F %T)T UTC, pid %s' "${state[host]}" "${state[started]}" "${state[pid]}"
    else
      printf 'down on %s, started %(%F %T)T UTC' "${state[host]}" "${state[started]}"
    fi
  elif ((silent_s > 30)); then
    printf 'silent for %s s on %s, up since %(%F %T)T UTC' "$silent_s" "${state[host]}" "${state[started]}"
  else
    printf 'up on %s since %(%F %T)T UTC, last seen %s s ago' "${state[host]}" "${state[started]}" "$((silent_s > 0 ? silent_s : 0))"
  fi
  if [[ ${state[attempt]} != "$last" ]]; then printf ', attempt %s' "${state[attempt]}"; fi
  if [[ -n ${steps[${state[first_rank]:-0}]:-} ]]; then printf ', %s' "${steps[${state[first_rank]:-0}]}"; fi
  echo
}

# last_steps RUN: for each rank with metrics a line `RANK step N, loss X`, of the last complete line that has both.
last_steps() {
  local files=("$1"/metrics/rank_*.jsonl)
  [[ -f ${files[0]} ]] || return 0
  tail -v -c 16384 -- "${files[@]}" | LC_ALL=C awk '
    /^==> .*rank_[0-9]+\.jsonl <==$/ { rank = $0; sub(/.*rank_/, "", rank); rank += 0; next }
    /}$/ && match($0, /"step": *[0-9]+/) {
      step = substr($0, RSTART, RLENGTH); sub(/.*: */, "", step)
      if (match($0, /"loss[a-z_]*": *[-+0-9.eE]+/)) {
        loss = substr($0, RSTART, RLENGTH); sub(/.*: */, "", loss)
        last[rank] = sprintf("step %s, loss %.4g", step, loss)
      }
    }
    END { for (rank in last) print rank, last[rank] }'
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
  echo "run ${2##*/}: $(run_status "$2")"
}
