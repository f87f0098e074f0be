#!/usr/bin/env bash
# Run a command in another root file system, with some folders of this machine. Shared by the container stand-ins.
#
#     unshare --mount --propagation private enter.sh ROOT FOLDER SOURCE TARGET ro|rw … -- COMMAND…
#
# ROOT is not modified. FOLDER: working directory of the command. As in the real runtimes, the process, network and /proc
# stay the same.
set -euo pipefail
root=$1 folder=$2
shift 2

mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
for place in proc sys dev; do mount --rbind "/$place" "/mnt/root/$place"; done
# both runtimes bind /etc/hosts: Apptainer 1.4 docs/user/bind_paths_and_mounts, enroot 3.5 conf/mounts/20-config.fstab
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
