# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# client.sh: how job job reaches its hosts: ssh. Sourced by engine.sh.

fanout=32 # connections at once

# No password prompts, no waiting for a host that is gone, no host keys taken unseen but those of new hosts.
ssh_command=(
  ssh
  -o BatchMode=yes
  -o ConnectTimeout=10
  -o ServerAliveInterval=5
  -o ServerAliveCountMax=3
  -o StrictHostKeyChecking=accept-new
  -l root
  -p 2222
  '-oProxyJump=gate way'
)

# on_hosts FILE WORD…: the command on every host in FILE, with the host's name for a word `%h`. Prints `HOST: line`; the
# worst status of all.
on_hosts() {
  local list count slot pid code status=0 pids=()
  mapfile -t list <"$1"
  count=$(wc -l <"$1")
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

# one_by_one SLOT WORD…: for on_hosts, every fanout-th host of `list` from SLOT on.
one_by_one() {
  local at host word words code worst=0
  for ((at = $1; at < count; at += fanout)); do
    host=${list[at]} words=() code=0
    for word in "${@:2}"; do if [[ $word == %h ]]; then words+=("$host"); else words+=("$word"); fi; done
    { on_host "$host" "${words[@]}" 2>&1 </dev/null | sed -u "s/^/${host//\//}: /"; } || code=$?
    if ((code > worst)); then worst=$code; fi
  done
  return "$worst"
}
