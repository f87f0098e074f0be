#!/usr/bin/env bash
# The rack of one cluster: the namespaces that all its hosts live in, the switch that joins them, and munged.
#
#     unshare --fork --pid --mount --ipc --net rack.sh FOLDER
#
# It is PID 1 there, and ends when its standard input does: its owner needs only to die, in whatever way, and the
# kernel ends every process of the cluster with it, and then its mounts and its network. No cable leads outside.
set -euo pipefail
folder=$1

mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/munge /run/outside /run/new # the latter two for host.sh
munged --foreground --force --key-file "$folder/munge/key" --seed-file "$folder/munge/seed" \
    --socket /run/munge/munge.socket.2 --pid-file /run/munge/pid &

echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 # the switch has no address of its own
ip link add switch type bridge stp_state 0 forward_delay 0
ip link set switch up

until [[ -S /run/munge/munge.socket.2 ]]; do sleep 0.01; done
touch "$folder/ready"
while read -r _; do :; done
