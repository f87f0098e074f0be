# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# client.sh: how job aorta reaches its hosts: ssh. Sourced by engine.sh.

fanout=32 # connections at once

# No password prompts, no waiting for a host that is gone, no host keys taken unseen.
ssh_command=(
  ssh
  -o BatchMode=yes
  -o ConnectTimeout=10
  -o ServerAliveInterval=5
  -o ServerAliveCountMax=3
  -o StrictHostKeyChecking=yes
)

# on_hosts FILE WORD…: the command on every host in FILE, with the host's name for a word `%h`. Prints `HOST: line`; the
# worst status of all.
on_hosts() {
  local file=$1 host running=0 status=0 word words
  shift
  while IFS= read -r host; do
    words=()
    for word in "$@"; do if [[ $word == %h ]]; then words+=("$host"); else words+=("$word"); fi; done
    if ((running >= fanout)); then wait_for_one; fi
    (
      set +e
      on_host "$host" "${words[@]}" 2>&1 </dev/null | sed -u "s/^/${host//\//}: /"
      exit "${PIPESTATUS[0]}"
    ) &
    running=$((running + 1))
  done <"$file"
  while ((running)); do wait_for_one; done
  return "$status"
}

# wait_for_one: of the connections of on_hosts.
wait_for_one() {
  local code=0
  wait -n || code=$?
  if ((code > status)); then status=$code; fi
  running=$((running - 1))
}
