#!/usr/bin/env bash
# One host, from its power button on; PID 1 of namespaces of its own below those of the rack.
#
#     unshare --fork --pid --mount --uts --ipc --net host.sh FOLDER NAME GPUS
#
# Sees the machine's own files, but for: /tmp, /var/spool (its own, kept over a power-off), /run, /dev/shm (its own,
# empty), /proc, /sys, and a few files of /etc. Waits for a line on standard input, which says that eth0 is there;
# FOLDER/log/NAME.ready says that its daemons are.
set -euo pipefail
name=$2 gpus=$3
outside=/run/outside run=/run/new # until the end of the mounts: what these hide, what will be /run
folder=$outside$1 mine=$outside$1/hosts/$name

hostname "$name"
mount -t proc proc /proc
mount --rbind / $outside
mount -t sysfs sysfs /sys # for /sys/class/net
if [[ -d $outside/sys/fs/cgroup ]]; then mount --rbind $outside/sys/fs/cgroup /sys/fs/cgroup; fi
mount -t tmpfs -o mode=755 tmpfs $run
mkdir -p $run/sshd $run/munge $run/lock $run/log $run/gpus
mount --bind /run/munge $run/munge
mount --bind "$folder/log" $run/log
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$mine/spool" /var/spool
for file in "$folder"/etc/*; do
    target=/etc/${file##*/}
    if [[ -e $target ]]; then mount --bind "$file" "$target"; fi
done
if [[ -e /etc/hostname ]]; then mount --bind "$mine/hostname" /etc/hostname; fi
if ((gpus > 0)); then mount -t overlay -o "lowerdir=$folder/bin:/usr/local/bin" overlay /usr/local/bin; fi
for ((gpu = 0; gpu < gpus; gpu++)); do
    ln -s /dev/null "$run/nvidia$gpu" # a device that harms nothing
    echo 0 >"$run/gpus/$gpu"
done
mount --bind "$mine/tmp" /tmp
while read -r path; do # folders in these places that every host sees all the same
    mkdir -p "$path"
    mount --rbind "$outside$path" "$path"
done <"$folder/visible"
if [[ -d $mine/shared ]]; then
    mkdir -p "$1/shared"
    mount --bind "$mine/shared" "$1/shared"
fi
umount --lazy $outside
mount --no-mtab --move $run /run

read -r _
cd /
exec </dev/null
if [[ $name == login ]]; then
    mkdir -p /var/spool/slurmctld
    slurmctld
else
    mkdir -p /var/spool/slurmd
    slurmd
fi
"$(command -v sshd)" -E "/run/log/sshd.$name.log" # sshd wants to be called by its full path
touch "/run/log/$name.ready"
while :; do sleep 3600 & wait $! || true; done # PID 1 has to reap what others leave
