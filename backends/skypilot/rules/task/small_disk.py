"""JC4720: a disk below 1 GB, SkyPilot's unit, or too small for the cloud's machine image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...config import PODS
from ...finished import FinishedTask, Machine
from ...sky_names import LEAST_DISK_GB


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for machine in task.machines():
        yield from _disk(task, machine)


def _disk(task: FinishedTask, machine: Machine) -> Iterator[Diagnostic]:
    path, disk_size = machine.place("disk_size"), machine.asked.get("disk_size")
    least = 1 if machine.cloud in ("slurm", *PODS) else LEAST_DISK_GB.get(machine.cloud, min(LEAST_DISK_GB.values()))
    size, typed, key = _gigabytes(disk_size), task.options.disk_size, task.key(path)
    if key == "backend.disk_size" and typed is not None:
        size = typed / 1024**3
    if size is not None and size < least:
        because = "SkyPilot counts whole GB" if least == 1 else "the machine image would not fit on it"
        title = f"disk too small: {f'{size:.0f} GB' if size >= 1 else 'less than 1 GB'}"
        value = f"{least}GiB" if key == "backend.disk_size" else least
        yield Diagnostic("JC4720", title, because, f"{key}={value} or more", key=key)


def _gigabytes(said: Any) -> float | None:
    """Parse a size as SkyPilot does, in GB or with a unit; None if invalid, which its schema reports."""
    match = re.fullmatch(r"(\d+)(?:([kmgtp])[bi])?", str(said).lower())
    return int(match[1]) * 1024.0 ** ("kmgtp".index(match[2] or "g") - 2) if match else None
