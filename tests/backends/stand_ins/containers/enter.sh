#!/usr/bin/env bash
# Becomes a command in another root file system, with some of this machine's folders: the part that the stand-ins share.
#
#     unshare --mount --propagation private enter.sh ROOT FOLDER SOURCE TARGET ro|rw … -- COMMAND…
#
# ROOT is not written to. FOLDER: where the command starts. Same process, network and /proc, as in the real ones.
set -euo pipefail
root=$1 folder=$2
shift 2

mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
for place in proc sys dev; do mount --rbind "/$place" "/mnt/root/$place"; done
# both bind the names of hosts: docs/user/bind_paths_and_mounts of Apptainer 1.4, conf/mounts/20-config.fstab of enroot 3.5
mkdir -p /mnt/root/etc && touch /mnt/root/etc/hosts && mount --bind /etc/hosts /mnt/root/etc/hosts
while [[ $1 != -- ]]; do
    target=/mnt/root$2
    if [[ $1 == tmpfs ]]; then
        mkdir -p "$target"
        mount -t tmpfs tmpfs "$target"
    else
        if [[ -d $1 ]]; then mkdir -p "$target"; else mkdir -p "${target%/*}" && touch "$target"; fi
        mount --rbind "$1" "$target"
        if [[ $3 == ro ]]; then mount -o remount,bind,ro "$target"; fi
    fi
    shift 3
done
shift
for place in ${PATH//:/ }; do
    if [[ -x /mnt/root$place/$1 ]]; then exec /usr/sbin/chroot /mnt/root env --chdir="$folder" "$@"; fi
done
echo "FATAL:   \"$1\": executable file not found in \$PATH" >&2
exit 255
