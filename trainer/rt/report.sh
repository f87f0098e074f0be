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
  elif [[ $(node_status "$file") == @(dead|silent) ]]; then
    echo 'failed: its supervisor was killed, or the machine was restarted'
  else
    ended "$1" "$(run_code "$1")"
  fi
}

# status_or_owner RUN: for a list. The files of another user are read only for who names the run.
status_or_owner() {
  if is_mine "$1"; then run_status "$1"; else echo "belongs to $(owner_of "$1"): --run ${1##*/} reads it"; fi
}

# run_code RUN, run_reason RUN: of one that has ended, its exit code and why.
run_code() {
  key_number "$1/state/node_00" exit
}
run_reason() {
  key "$1/state/node_00" reason
}

# ended RUN CODE: how a run ended, in words.
ended() {
  if [[ -e $1/control/STOP && $2 == @(0|130) ]]; then
    echo "stopped by stop.sh or Ctrl-C (exit $2)"
  elif [[ $2 == 0 ]]; then
    echo 'done (exit 0)'
  elif [[ $2 == 75 ]]; then
    echo 'stopped early (exit 75)'
  else
    echo "failed (exit ${2:-unknown}: $(meaning "$2"))"
  fi
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

# describe_reason RUN: of one that fails, or has, why: the node that was first, or what the run says.
describe_reason() {
  local code first
  first=$1/exit/$(last_attempt "$1")/first
  if [[ -f $first ]]; then
    printf '  reason: node %s: %s\n' "$(key_number "$first" node '?')" "$(key "$first" reason)"
  elif [[ -n $(node_files "$1") ]] && ! is_live "$1"; then
    code=$(run_code "$1")
    # of a stop only that something was killed: what came after its last checkpoint is lost
    if [[ -n $code && ($code != @(0|130) || $(run_reason "$1") == *': killed, '*) ]]; then
      printf '  reason: %s\n' "$(run_reason "$1")"
    fi
  fi
}

# describe_next RUN: of one that has ended early, the command that continues it. RUN/state/resume only tells that there is one:
# a reader would type whatever stands there.
describe_next() {
  local code
  if [[ -z $(node_files "$1") ]] || is_live "$1"; then return; fi
  code=$(run_code "$1")
  if [[ -f $1/state/resume ]] && { [[ -z $code || $code == @(69|75) ]] || [[ $code == 1 && -d $1/checkpoints ]]; }; then
    printf '  go on with: %q --resume %q\n' "$artifact/submit.sh" "$(resume_id "$1")"
  fi
}

# describe_nodes RUN NODES: a line for each of them: up, ended or down, where, and how far its first rank is. Starts no
# program for each, so that a thousand take a second.
describe_nodes() {
  local file now files=() line words last node host_here boot_here='' namespace_here
  last=$(last_attempt "$1")
  local -A touched=() steps=()
  mapfile -t files < <(node_files "$1")
  if ((${#files[@]} == 0)); then return; fi
  now=$(storage_time "$1/state") || now=0
  while read -r line file; do touched[$file]=$line; done < <(stat -c '%Y %n' -- "${files[@]}" 2>/dev/null)
  while read -r line words; do steps[$line]=$words; done < <(last_steps "$1")
  for file in "${files[@]}"; do describe_node "$file" "$((now - ${touched[$file]:-0}))"; done
  for ((node = 0; node < $2; node++)); do
    printf -v file '%s/state/node_%02d' "$1" "$node"
    if [[ ! -f $file ]]; then echo "  node ${file##*_}  has not started"; fi
  done
}

# describe_node FILE SILENT_S: one line; its supervisor touched the file SILENT_S ago. The rest it has from describe_nodes.
describe_node() {
  local place since node=${1##*/node_} silent_s=$2
  local -x TZ=UTC0
  local -A state=()
  read_state "$1"
  locate_process
  since='an unknown time'
  if [[ -n ${state[started]} ]]; then printf -v since '%(%F %T)T UTC' "${state[started]}"; fi
  printf '  node %s  ' "$node"
  if [[ -n ${state[ended]} ]]; then
    printf 'ended on %s at %(%F %T)T UTC, exit %s' "${state[host]}" "${state[ended]}" "${state[exit]:-unknown}"
  elif [[ $place == @(here|unknown) ]]; then
    if is_process "${state[pid]}" "${state[start_ticks]}"; then
      printf 'up on %s since %s, pid %s' "${state[host]}" "$since" "${state[pid]}"
    else
      printf 'down on %s, started %s' "${state[host]}" "$since"
    fi
  elif ((silent_s > 30)); then
    printf 'silent for %s s on %s, up since %s' "$silent_s" "${state[host]}" "$since"
  else
    printf 'up on %s since %s, last seen %s s ago' "${state[host]}" "$since" "$((silent_s > 0 ? silent_s : 0))"
  fi
  if [[ -n ${state[attempt]} && ${state[attempt]} != "$last" ]]; then printf ', attempt %s' "${state[attempt]}"; fi
  if [[ -n ${steps[${state[first_rank]}]:-} ]]; then printf ', %s' "${steps[${state[first_rank]}]}"; fi
  echo
}

# last_steps RUN: for each rank with metrics a line `RANK step N, loss X`, of the last complete line that has both.
last_steps() {
  local file files=()
  for file in "$1"/metrics/rank_*.jsonl; do
    if [[ -f $file && ! -L $file && ${file##*/} == rank_+([0123456789]).jsonl ]]; then files+=("$file"); fi
  done
  if ((${#files[@]} == 0)); then return; fi
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
