"""Identify a process's machine: two pids refer to the same process only if host, boot and PID namespace are equal."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def identity() -> dict[str, str]:
    """Return this process's host, boot and pid_namespace; the last two only if /proc has them.

    boot: the kernel's boot ID (random(4)), which differs between machines with the same host name
    pid_namespace: the inode of the PID namespace (pid_namespaces(7)), which differs between containers on one kernel
    """
    keys = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
        keys["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        keys["pid_namespace"] = str(namespace)
    return keys
