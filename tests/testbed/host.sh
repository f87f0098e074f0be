#!/usr/bin/env bash
# Boot one host of the test bed. PID 1 of its own namespaces, inside those of the rack.
#
#     unshare --fork --pid --mount --uts --ipc --net host.sh FOLDER NAME GPUS
#
# Sees the files of the machine, except: /tmp and /var/spool (separate, kept over a power-off), /run and /dev/shm
# (separate, empty at boot), /proc, /sys, and a few files in /etc. Waits for a line on standard input, sent when eth0
# exists; creates FOLDER/log/NAME.ready when its daemons run.
set -euo pipefail
name=$2 gpus=$3
outside=/run/outside run=/run/new # during the mounts only: the machine's root, the future /run
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
mount -t tmpfs -o mode=755 tmpfs /root
mount --bind "$mine/spool" /var/spool
for file in "$folder"/etc/*; do
    target=/etc/${file##*/}
    if [[ -e $target ]]; then mount --bind "$file" "$target"; fi
done
if [[ -e /etc/hostname ]]; then mount --bind "$mine/hostname" /etc/hostname; fi
if ((gpus > 0)); then mount -t overlay -o "lowerdir=$folder/bin:/usr/local/bin" overlay /usr/local/bin; fi
for ((gpu = 0; gpu < gpus; gpu++)); do
    ln -s /dev/null "$run/nvidia$gpu" # a harmless device
    echo 0 >"$run/gpus/$gpu"
done
mount --bind "$mine/tmp" /tmp
while read -r path; do # folders under the paths above that every host shares
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
"$(command -v sshd)" -E "/run/log/sshd.$name.log" # sshd requires its full path
touch "/run/log/$name.ready"
while :; do sleep 3600 & wait $! || true; done # PID 1 has to reap orphans
