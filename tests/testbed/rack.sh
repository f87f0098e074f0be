#!/usr/bin/env bash
# Start the rack of one cluster: the namespaces around all its hosts, the switch that connects them, and munged.
#
#     unshare --fork --pid --mount --ipc --net rack.sh FOLDER
#
# It is PID 1 there and exits at end of file on standard input. So when its owner exits for any reason, the kernel kills
# every process of the cluster and removes its mounts and network. The network has no connection to the outside.
set -euo pipefail
folder=$1

mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/munge /run/outside /run/new # the last two are for host.sh
munged --foreground --force --key-file "$folder/munge/key" --seed-file "$folder/munge/seed" \
    --socket /run/munge/munge.socket.2 --pid-file /run/munge/pid &

echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 # the switch needs no address
ip link add switch type bridge stp_state 0 forward_delay 0
ip link set switch up

until [[ -S /run/munge/munge.socket.2 ]]; do sleep 0.01; done
touch "$folder/ready"
while read -r _; do :; done
