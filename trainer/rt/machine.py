"""The machine of a process: what must be equal for its pid to mean the same process elsewhere."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def identity() -> dict[str, str]:
    """Return host, boot and pid_namespace of this process; without what /proc does not show.

    boot: an id of this start of the kernel, which tells machines of one host name apart (random(4))
    pid_namespace: the inode of pid_namespaces(7), which tells containers of one kernel apart
    """
    keys = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
        keys["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        keys["pid_namespace"] = str(namespace)
    return keys
