# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # words for the shells of hosts; variables go from one part to another
# copies.sh: the run folders of job two, for storage.run=node: each host has its own, at the same path. Submit.sh
# makes the run here, and sends it; what hosts tell about it comes back when a script asks. The folder here is marked with
# state/mirror, and never sent to itself. Takes the place of functions of engine.sh and run.sh of the same name.

code_kind=rsync
live_every_s=3 # how often follow_logs asks the hosts
procs=2

# what the start-up files of a host print comes before this line, and is left out
begins='jobc: the output begins'
from_there="while IFS= read -r line && [[ \$line != *\"$begins\" ]]; do :; done; cat"

# from_host HOST WORD…: what the command prints there.
from_host() {
  on_host "$1" sh -c 'echo "$0" && exec "$@"' "$begins" "${@:2}" </dev/null | bash -p -c "$from_there"
}

# ---- out: to hosts that have nothing of jobc yet, so in words of sh

# receive RUN MARK: unpacks standard input into RUN, which must not be there, or be this very run: its state/run has the sum MARK.
receive='
set -eu
run=$0 mark=$1 made="" new=""
fail() {
  if [ -n "$new" ]; then chmod -R u+w -- "$new" && rm -rf -- "$new"; fi
  if [ -n "$made" ]; then rm -rf -- "$run"; fi
  echo "FAIL  $2"
  exit "$1"
}
if [ -e "$run/state/mirror" ]; then exit 0; fi
said=$(mkdir -p -- "${run%/*}" 2>&1) || fail 1 "cannot create $run: ${said##*: }"
if said=$(mkdir -- "$run" 2>&1); then
  made=yes
elif [ -e "$run" ] || [ -L "$run" ]; then
  # hosts may share this storage with one another: then another one is about to write state/run
  for _ in 1 2 3 4 5; do if [ -e "$run/state" ] && [ ! -e "$run/state/run" ]; then sleep 1; fi; done
  if [ "$(cksum 2>/dev/null <"$run/state/run")" != "$mark" ]; then
    echo "FAIL  $run is here already, and is not of this run: it is left as it is"
    exit 65
  fi
else
  fail 1 "cannot create $run: ${said##*: }"
fi
said=$(mkdir -p -- "$run/state" "$run/artifact" "$run/logs" "$run/control" 2>&1) || fail 1 "cannot write to $run: ${said##*: }"
new=$(mktemp -d "$run/.new.XXXXXX") || fail 1 "cannot write to $run"
said=$(tar -C "$new" -xf - 2>&1) || { said=$(echo "$said" | sed -n 1p) && fail 1 "cannot write to $run: ${said##*: }; is the disk full?"; }
if [ -e "$new/artifact" ]; then rm -f -- "$run/control/STOP"; fi
cd -- "$new"
for piece in state/* artifact/* code; do
  case $piece in
    *"*") ;;
    state/*) mv -f -- "$piece" "$run/$piece" ;;
    *) if [ -e "$piece" ] && [ ! -e "$run/$piece" ]; then mv -T -- "$piece" "$run/$piece" && { [ "$piece" = code ] || chmod -R a-w -- "$run/$piece"; }; fi ;;
  esac
done
cd -- "$run"
rm -rf -- "$new"
'

# remove RUN MARK ATTEMPT: the run, if nothing was started in it before this attempt; else the attempt.
remove='
if [ -e "$0/state/mirror" ] || [ "$(cksum 2>/dev/null <"$0/state/run")" != "$1" ]; then exit 0; fi
if [ "$2" = 0 ]; then gone=$0; else gone=$0/artifact/$2; fi
chmod -R u+w -- "$gone" && rm -rf -- "$gone"
'

# nodes_see FOLDER: hosts have nothing of this machine but what is sent.
nodes_see() {
  return 1
}

# sum_of RUN: what tells it from another one of the same name.
sum_of() {
  cksum <"$1/state/run"
}

# send_run: to every host. When one does not take it, nothing of it stays anywhere.
send_run() {
  local code=0 pieces=("artifact/$attempt" state/run)
  refuse_lost_checkpoints "$run"
  if [[ -n ${init_from:-} ]]; then refuse_lost_checkpoints "$init_from"; fi
  if [[ -d $run/code && $code_kind != rsync ]]; then pieces+=(code); fi
  touch -- "$run/state/mirror"
  sent=yes # see take_back
  each_host "$hosts" send %h "${pieces[@]}" >&2 || code=$?
  if ((code == 0)) && [[ -d $run/code && $code_kind == rsync ]]; then each_host "$hosts" send_code %h >&2 || code=$?; fi
  if ((code == 0)) && [[ -d $(secrets_of "$run") ]]; then each_host "$hosts" send_secrets %h >&2 || code=$?; fi
  if ((code)); then
    forget_secrets "$run"
    die "$((code == 65 ? code : 1))" "not all of the $nodes hosts took the run, so it is started on none" 'preflight.sh checks each host'
  fi
  grep -qsxF -- "$(head -n 1 -- "$hosts")" "$run/state/checkpoint_hosts" || head -n 1 -- "$hosts" >>"$run/state/checkpoint_hosts"
}

# send HOST PATH…: these paths of the run.
send() {
  local host=$1
  shift
  tar -C "$run" --mode=u+w -cf - -- "$@" | on_host "$host" sh -c "$receive" "$run" "$(sum_of "$run")"
  return "${PIPESTATUS[1]}"
}

# last_code RUN: prints `code FOLDER`, that of this user's newest other run of the job there; nothing when the run has its code.
last_code='
last=""
if [ -e "$0/code" ]; then exit; fi
command -v rsync >/dev/null || { echo "FAIL  there is no rsync: install it, or use code=snapshot" >&2; exit 65; }
for state in "${0%/*}"/*/state/run; do
  if [ -O "${state%/state/run}" ] && [ -d "${state%/state/run}/code" ] && { [ -z "$last" ] || [ "$state" -nt "$last" ]; }; then last=$state; fi
done
echo "code ${last:+${last%/state/run}/code}"
'

# send_code HOST: by rsync, into a folder of this run alone; files that the host's last run has too are copied there, not sent.
# Not linked: a script may write to its copy.
send_code() {
  local last
  type -P rsync >/dev/null || { echo 'FAIL  there is no rsync on this machine: install it, or use code=snapshot' && return 65; }
  last=$(from_host "$1" sh -c "$last_code" "$run") || return
  if [[ -z $last ]]; then return; fi # it is there: of the attempt before, or this machine
  last=${last#code }
  rsync --archive --secluded-args ${last:+--copy-dest="$last"} --rsync-path="echo '$begins'; rsync" \
    --rsh="bash -p -c 'set -o pipefail; \"\$@\" | { $from_there; }' - $(quoted "${ssh_command[@]}")" \
    -- "$run/code/" "$1:$run/.code.$1/" || return
  on_host "$1" sh -c '[ -e "$0/code" ] || mv -- "$0/.code.$1" "$0/code"' "$run" "$1"
}

# send_secrets HOST: into its home, where nobody else may read them. Homes may be shared: what is there is never cut short.
send_secrets() {
  local folder
  folder=$(secrets_of "$run")
  tar -C "$folder" -cf - . | on_host "$1" sh -c '
    umask 077
    to=$HOME/.jobc/secrets/$0
    mkdir -p -- "$to" && [ -O "$to" ] && [ ! -L "$to" ] && chmod 700 -- "$to" && new=$(mktemp -d "$to.XXXXXX") && tar -C "$new" -xf - && mv -f -- "$new"/* "$to" && rmdir -- "$new"
  ' "${folder##*/}"
  return "${PIPESTATUS[1]}"
}

# forget_secrets RUN: here and on its hosts.
forget_secrets() {
  local folder
  folder=$(secrets_of "$1")
  [[ -d $folder ]] || return 0
  rm -rf -- "$folder"
  if [[ -e $1/state/mirror ]]; then
    each_host "$hosts" on_host %h sh -c 'rm -rf -- "$HOME/.jobc/secrets/$0"' "${folder##*/}" >&2 || true
  fi
}

# take_back: what send_run has sent, on the way out of a script that has started nothing with it.
take_back() {
  if [[ -z ${sent:-} ]]; then return; fi
  each_host "$hosts" on_host %h sh -c "$remove" "$run" "$(sum_of "$run")" "$attempt" >/dev/null || true
}

# refuse_lost_checkpoints RUN: rank 0 writes its checkpoints on its own host, and all ranks get them from there.
refuse_lost_checkpoints() {
  local host text known=$1/state/checkpoint_hosts
  read_text "$known"
  while IFS= read -r host; do
    [[ -z $host ]] || grep -qxF -- "$host" "$hosts" || die 1 "run $(basename -- "$1") may have checkpoints on $host, which is not a host of this start" \
      "add it to hosts; or copy $1/checkpoints there to one of these, and remove its line in $known"
  done <<<"$text"
}

# all_nodes PAYLOAD: task.sh with it on every host. Node 0 first: where the others meet it is known only then.
all_nodes() {
  local code=0 node over='' task others
  task "$run/artifact/$attempt" "$attempt" %h "$1"
  if [[ $1 == preflight ]] || ((nodes == 1)); then
    on_hosts "$hosts" "${task[@]}"
    return
  fi
  others=$(mktemp -d)
  head -n 1 -- "$hosts" >"$others/first"
  tail -n +2 -- "$hosts" >"$others/rest"
  on_hosts "$others/first" "${task[@]}" &
  node=$!
  until has_met "$run" || fetch_meeting; do
    if [[ -n $over ]]; then
      rm -r -- "$others"
      wait "$node" && return 1
      return # as it did
    fi
    kill -0 "$node" 2>/dev/null || over=yes
    sleep 0.3
  done
  each_host "$others/rest" send %h state/head state/link || code=$?
  if ((code == 0)); then on_hosts "$others/rest" "${task[@]}" || code=$?; fi
  rm -r -- "$others"
  wait "$node" || code=$?
  return "$code"
}

# has_met RUN: node 0 of this attempt has said where the others meet it.
has_met() {
  grep -qsx "attempt=$attempt" "$1/state/head" && grep -qsx "attempt=$attempt" "$1/state/link"
}

# fetch_meeting: what it has said, once it has.
fetch_meeting() {
  from_host "$(head -n 1 -- "$hosts")" sh -c '
    cd -- "$0/state" && grep -qsx "attempt=$1" head && grep -qsx "attempt=$1" link && tar -cf - head link
  ' "$run" "$attempt" 2>/dev/null | tar -C "$run/state" -xf - 2>/dev/null && has_met "$run"
}

# ---- back: into the mirror

# tell RUN NODE ATTEMPT: what a host knows about its node: its state, how it ended, and what time it is there.
tell='
cd -- "$0" 2>/dev/null && [ ! -e state/mirror ] && [ -e "state/$1" ] || exit 0
touch state/.now
set -- "state/$1" "exit/$2/$1" "exit/$2/first"
for file do
  shift
  if [ -e "$file" ]; then set -- "$@" "$file"; fi
done
tar -cf - state/.now "$@"
'

# is_mirror RUN: or is it a node's own folder? That of another user is only read: what is written there may be a link.
is_mirror() {
  [[ -e $1/state/mirror ]] && is_mine "$1"
}

# all_have_ended RUN: every node has recorded its end.
all_have_ended() {
  local node state
  for ((node = 0; node < nodes; node++)); do
    printf -v state '%s/state/node_%02d' "$1" "$node"
    [[ -n $(key_number "$state" ended) ]] || return 1
  done
}

# some_linger RUN: a node that has ended has not heard yet how each of the others did.
some_linger() {
  grep -qsx 'lingers=yes' "$1"/state/node_[0-9]*
}

# is_live RUN: the other nodes are asked only when node 0 has ended or does not answer. What nodes hear while they linger
# is fetched once more, when all have ended.
is_live() {
  if is_mirror "$1" && ! all_have_ended "$1"; then
    news_of "$1" <(head -n 1 -- "$(hosts_of "$1")")
    if [[ -f $1/state/node_00 ]] && [[ $(node_status "$1/state/node_00") == @(up|elsewhere) ]]; then return; fi
    news_of "$1" <(tail -n +2 -- "$(hosts_of "$1")")
    if all_have_ended "$1" && some_linger "$1"; then
      sleep 1
      news_of "$1" "$(hosts_of "$1")"
    fi
  fi
  seems_live "$1"
}

# fetch_news RUN: what every node says about itself, and how far rank 0 is.
fetch_news() {
  local run=$1
  is_mirror "$1" || return 0
  news_of "$1" "$(hosts_of "$1")"
  each_host "$(hosts_of "$1")" fetch_progress %h >/dev/null || true
}

# fetch_progress HOST: of the first rank there.
fetch_progress() {
  fetch_log "$run" "$run/metrics/rank_$(printf '%02d' "$(($(rank_of "$1") * procs))").jsonl"
}

# fetch_logs RUN FILE: a log of the run, or with `node_*.log` those of all nodes, with the times of their lines.
fetch_logs() {
  local run=$1
  if [[ $2 != 'node_*.log' ]]; then
    fetch_log "$1" "$1/logs/$2"
  elif is_mirror "$1"; then
    each_host "$(hosts_of "$1")" fetch_console %h >/dev/null || true
  fi
}

# fetch_console HOST: of its node.
fetch_console() {
  local node
  node=$(printf '%02d' "$(rank_of "$1")")
  fetch_log "$run" "$run/logs/node_$node.log"
  fetch_log "$run" "$run/logs/.node_$node.times"
}

# news_of RUN FILE: of the nodes on the hosts in FILE that have not ended, as far as is known here.
news_of() {
  local run=$1
  each_host "$2" news_from %h >/dev/null || true
}

# news_from HOST: about `run`.
news_from() {
  local node attempt new age
  attempt=$(last_attempt "$run")
  node=node_$(printf '%02d' "$(rank_of "$1")")
  if [[ -e $run/exit/$attempt/$node && -n $(key_number "$run/state/$node" ended) && -z $(key "$run/state/$node" lingers) ]]; then return; fi
  new=$(mktemp -d "$run/.news.XXXXXX")
  from_host "$1" sh -c "$tell" "$run" "$node" "$attempt" 2>/dev/null | tar -C "$new" -xf - 2>/dev/null
  # a regular file each: a host may send a link, which would have this machine read or write elsewhere
  if [[ -n $(find "$new" ! -type f ! -type d -print -quit) ]]; then
    rm -rf -- "$new"
    return
  fi
  if [[ -f $new/state/$node && -f $new/state/.now ]]; then
    # as old as it is there, whatever the clock there says
    age=$(($(stat -c %Y "$new/state/.now") - $(stat -c %Y "$new/state/$node")))
    touch -d "@$(($(date +%s) - age))" "$new/state/$node"
    mkdir -p -- "$run/exit/$attempt"
    if [[ -e $new/exit/$attempt/$node ]]; then mv -f -- "$new/exit/$attempt/$node" "$run/exit/$attempt"; fi
    if [[ -e $new/exit/$attempt/first ]]; then mv -f -- "$new/exit/$attempt/first" "$run/exit/$attempt"; fi
    mv -f -- "$new/state/$node" "$run/state"
  fi
  rm -rf -- "$new"
}

# rank_of HOST: of its node in the newest attempt of `run`.
rank_of() {
  echo "$(($(grep -m 1 -nxF -- "$1" "$(hosts_of "$run")" | cut -d : -f 1) - 1))"
}

# fetch_log RUN FILE: what has been appended to a file of a rank or a node since the last time. Two that do so write the same.
fetch_log() {
  local number=${2##*_} file=${2#"$1"/} size=0 host
  is_mirror "$1" || return 0
  number=$((10#${number%.*}))
  if [[ ${2##*/} == rank_* ]]; then number=$((number / procs)); fi
  host=$(sed -n "$((number + 1))p" "$(hosts_of "$1")")
  if [[ -z $host ]]; then return; fi
  mkdir -p -- "$(dirname -- "$2")"
  if [[ -f $2 ]]; then size=$(stat -c %s "$2"); fi
  from_host "$host" sh -c '[ ! -e "$0/state/mirror" ] && [ -e "$0/$1" ] && tail -c "+$2" -- "$0/$1"' "$1" "$file" "$((size + 1))" \
    2>/dev/null | write_at "$size" "$2" || true
}

# write_at BYTE FILE: standard input, if there is any.
write_at() {
  dd of="$2" bs=64K oflag=seek_bytes seek="$1" iflag=fullblock conv=notrunc status=none
  if [[ ! -s $2 ]]; then rm -f -- "$2"; fi
}
