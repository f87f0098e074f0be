# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# client.sh: how job opensora_k8s reaches its hosts: ssh. Sourced by engine.sh.

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
  each_host "$1" on_host %h "${@:2}"
}
