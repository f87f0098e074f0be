# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# client.sh: how job opensora_k8s reaches its hosts: pdsh, which runs ssh. Sourced by engine.sh.

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
  # pdsh puts in %h itself, the name as it stands in FILE; any other % is doubled. It reads FILE from standard input,
  # because it would split a path at its commas.
  for word in "$@"; do
    if [[ $word == %h ]]; then command+=' %h'; else command+=" $(quoted "${word//%/%%}")"; fi
  done
  PDSH_SSH_ARGS_APPEND="${ssh_command[*]:1}" \
    pdsh -S -R ssh -f "$fanout" -w - "${command# }" 2>&1 <"$file"
}
