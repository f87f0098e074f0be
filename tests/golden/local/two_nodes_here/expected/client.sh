# shellcheck shell=bash disable=SC2034,SC2154,SC2329 # variables and functions go from one part to another
# client.sh: the hosts of job two are this machine, which has an address for each node. Sourced by engine.sh.

fanout=2 # nodes started at once

# on_this_machine … ADDRESS COMMAND: what ssh would run on a host: the last two words.
on_this_machine() {
  bash -p -c "${@: -1}"
}
ssh_command=(on_this_machine)

# on_hosts FILE WORD…: the command on every host in FILE, with the host's name for a word `%h`. Prints `HOST: line`; the
# worst status of all.
on_hosts() {
  each_host "$1" on_host %h "${@:2}"
}
