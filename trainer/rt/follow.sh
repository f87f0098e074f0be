# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# follow.sh: part of run.sh. The logs of a run, those of all its nodes merged, and the failure that ended it.

live_every_s=1 # how often a follower asks whether the run is still live
hold_s=2       # how long a follower holds lines of many nodes back: the first failure is shown before what it led to
declare -A printed=() # log -> how many of its bytes print_logs has printed

# log_sizes RUN FILE…: a line `SIZE FILE` for each of these logs that exists. A FILE may be a pattern. What has another name
# than a log, or is not a regular file, is left out: print_logs has awk and sh open them, and a link may lead anywhere.
log_sizes() {
  local file files=()
  (
    cd -- "$1/logs" 2>/dev/null || exit 0
    # shellcheck disable=SC2068 # patterns
    for file in ${@:2}; do
      if [[ -f $file && ! -L $file && $file == @(node|rank)_+([0123456789]).log ]]; then files+=("$file"); fi
    done
    if ((${#files[@]})); then stat -L -c '%s %n' -- "${files[@]}" 2>/dev/null || true; fi
  )
}

# print_logs RUN NODES: what the logs on stdin, lines `SIZE FILE`, hold up to SIZE and has not been printed yet; as it is,
# or of several NODES merged by the times that node_log.py notes, with the node before each line. Keeps one line of each
# log in memory.
print_logs() {
  local file start size times parts=''
  while read -r size file; do
    if [[ -n $file ]] && ((size > ${printed[$file]:-0})); then
      times=.${file%.log}.times
      [[ -f $1/logs/$times && ! -L $1/logs/$times ]] || times=/dev/null
      parts+="$file ${printed[$file]:-0} $size $times"$'\n'
      printed[$file]=$size
    fi
  done
  if [[ -z $parts ]]; then return; fi
  if (($2 == 1)); then
    while read -r file start size _; do tail -c "+$((start + 1))" -- "$1/logs/$file" | head -c "$((size - start))" || true; done <<<"${parts%$'\n'}"
    return
  fi
  ulimit -Sn "$(ulimit -Hn)" # two open files a node
  # a Ctrl-C stops the run, and what it says then is wanted
  (trap '' INT && cd -- "$1/logs" && LC_ALL=C awk '
    function next_line(i,  line, got) { # of log i: text, and time, which holds from an offset on
      got = 0
      if (at[i] < end[i]) got = start[i] ? (pipe[i] | getline line) : (getline line < log_of[i])
      if (got <= 0) { over[i] = 1; return }
      text[i] = substr(line, 1, end[i] - at[i])
      while (known[i] && offset[i] <= at[i]) { time[i] = later[i]; next_time(i) }
      at[i] += length(line) + 1
    }
    function next_time(i,  line, word) {
      known[i] = (getline line < times_of[i]) > 0
      split(line, word, " "); later[i] = word[1]; offset[i] = word[2]
    }
    { n++; log_of[n] = $1; at[n] = start[n] = $2; end[n] = $3
      pipe[n] = "tail -c +" ($2 + 1) " -- " $1
      times_of[n] = $4
      node[n] = substr($1, 6) + 0 }
    END {
      for (i = 1; i <= n; i++) { next_time(i); next_line(i) }
      for (;;) {
        first = second = 0 # the logs with the earliest lines
        for (i = 1; i <= n; i++) if (!over[i]) {
          if (!first || time[i] < time[first]) { second = first; first = i }
          else if (!second || time[i] < time[second]) second = i
        }
        if (!first) exit
        do { printf "node %-2d | %s\n", node[first], text[first]; next_line(first) }
        while (!over[first] && (!second || time[first] <= time[second]))
      }
    }' <<<"${parts%$'\n'}")
}

# follow_logs RUN NODES FILE…: prints these logs as they grow, until the run has ended.
follow_logs() {
  local run=$1 nodes=$2 ticks=0 seen=() shown='' told=0 hold
  shift 2
  hold=$((nodes > 1 ? 2 * hold_s : 0))
  while ((ticks++ % (2 * live_every_s))) || { fetch_logs "$run" "$@" && is_live "$run"; }; do
    seen+=("$(log_sizes "$run" "$@")")
    if ((nodes > 1)) && [[ $shown != "$(last_attempt "$run")" && -f $run/exit/$(last_attempt "$run")/first ]]; then
      if ((told++ > 2)); then # an earlier one, of a node that is slower to tell, has come by now
        print_failure "$run" || true
        shown=$(last_attempt "$run") told=0
      fi
    elif ((${#seen[@]} > hold)); then
      print_logs "$run" "$nodes" <<<"${seen[0]}" || true # killed by Ctrl-C, which the caller takes for a wish to stop
      seen=("${seen[@]:1}")
    fi
    sleep 0.5 || true
  done
  fetch_logs "$run" "$@"
  if ((nodes > 1)) && [[ $shown != "$(last_attempt "$run")" ]]; then print_failure "$run"; fi
  print_logs "$run" "$nodes" <<<"$(log_sizes "$run" "$@")"
}

# print_failure RUN: of a run on several nodes, which one failed first, and the end of its log from the first traceback on.
print_failure() {
  local attempt first log rank node
  attempt=$(last_attempt "$1")
  first=$1/exit/$attempt/first
  [[ -f $first ]] || return 0
  rank=$(key_number "$first" rank)
  node=$(key_number "$first" node)
  log=node_$(printf '%02d' "${node:-0}").log
  if [[ -n $rank ]]; then log=rank_$(printf '%02d' "$rank").log; fi
  fetch_log "$1" "$1/logs/$log"
  printf 'jobc: node %s failed first: %s' "${node:-?}" "$(key "$first" reason)"
  if [[ ! -f $1/logs/$log || -L $1/logs/$log || ! -s $1/logs/$log ]]; then # it had not come to its own log yet
    echo
    return
  fi
  printf '; the end of logs/%s:\n' "$log"
  tail -c 1048576 -- "$1/logs/$log" | tail -n 200 | awk -v "header==== jobc: attempt $attempt, " '
    index($0, header) == 1 { n = 0; from = 0; next }
    { line[++n] = $0 }
    /Traceback \(most recent call last\)/ && !from { from = n }
    END { for (i = from ? from : n > 20 ? n - 19 : 1; i <= n; i++) print line[i] }'
  echo 'jobc: that failure was first; what follows is older, or came of it'
}
