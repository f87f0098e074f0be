# shellcheck shell=bash disable=SC2034,SC2154,SC2329 # variables and functions go from one part to another
# client.sh: job here has one node and no hosts: it is this machine. Sourced by engine.sh.

fanout=32 # connections at once

# on_this_machine … COMMAND: what ssh would run on a host; the command is the last word.
on_this_machine() {
  bash -c "${@: -1}"
}
ssh_command=(on_this_machine)

# on_hosts FILE WORD…: the command on every host in FILE, with the host's name for a word `%h`. Prints `HOST: line`; the
# worst status of all.
on_hosts() {
  each_host "$1" on_host %h "${@:2}"
}
