#!/usr/bin/env bash
# Run one container of a pod on a host of the test bed; exec its command as PID 1 of the pod.
#
#     unshare --fork --pid --mount --uts pod.sh FOLDER
#
# FOLDER contains hostname, mounts (KIND SOURCE TARGET OPTIONS, tab-separated), command and environment (NUL-terminated).
# Its parent contains hosts, shared by the containers of the pod.
# The container sees the files of the host under its own root, so that mounts do not affect the host.
set -euo pipefail
folder=$1 root=/mnt

hostname "$(<"$folder/hostname")"
mount --make-rprivate /
mount -t tmpfs tmpfs $root
for entry in /*; do
    if [[ -L $entry ]]; then
        cp --no-dereference "$entry" $root
    elif [[ -d $entry && $entry != /proc && $entry != "$root" ]]; then
        mkdir "$root$entry"
        mount --rbind "$entry" "$root$entry"
    fi
done
mkdir $root/proc
mount -t proc proc $root/proc
mount --bind "$folder/../hosts" $root/etc/hosts
mount -t tmpfs -o size=64m,mode=1777 tmpfs $root/dev/shm
while IFS=$'\t' read -r kind source target options; do
    mkdir -p "$root$target"
    case $kind in
        bind) mount --bind "$source" "$root$target" ;;
        tmpfs) mount -t tmpfs -o "${options:-mode=1777}" tmpfs "$root$target" ;;
    esac
    if [[ $options == ro ]]; then mount -o remount,bind,ro "$root$target"; fi
done <"$folder/mounts"

mapfile -d '' -t command <"$folder/command"
mapfile -d '' -t environment <"$folder/environment"
folder_in_image=$(<"$folder/workdir")
if ! chroot $root env -i "${environment[@]}" bash -c 'type -P -- "$1" >/dev/null' - "${command[0]}"; then
    echo "exec: \"${command[0]}\": executable file not found in \$PATH" >&2
    exit 128
fi
exec chroot $root env -i --chdir="$folder_in_image" "${environment[@]}" "${command[@]}"
