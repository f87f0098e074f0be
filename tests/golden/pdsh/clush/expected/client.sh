# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# client.sh: how job two reaches its hosts: clush, which runs ssh. Sourced by engine.sh.

fanout=32 # connections at once

ssh_command=(
  ssh
  -o BatchMode=yes
  -o ConnectTimeout=10
  -o ServerAliveInterval=5
  -o ServerAliveCountMax=3
  -o StrictHostKeyChecking=yes
)

# on_hosts FILE WORD…: the command on every host in FILE, with the host's name for a word `%h`. Prints `HOST: line`; the
# worst status of all (-S; without it a failure on a host is lost).
on_hosts() {
  local file=$1 word command=''
  shift
  # the worker exec runs a shell command on this machine, and puts in %host; any other % is doubled
  for word in "$@"; do
    if [[ $word == %h ]]; then command+=' %host'; else command+=" $(quoted "${word//%/%%}")"; fi
  done
  clush -S -f "$fanout" --worker=exec --hostfile="$file" \
    "$(quoted "${ssh_command[@]}") -n -- %host $(quoted "${command# }")" 2>&1 </dev/null
}
