"""Read the SkyPilot job from a run's record, RUN/state/job_ATTEMPT: kind (managed or empty), cluster, id.

A record's keys are untrusted: a cluster must be a plain word, and an ID a number. Packed into jobctl.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.records import Record
from ....runtime.run_folder.run import shell_word
from ....runtime.system.untrusted_files import Unreadable, open_regular
from ....runtime.system.values import number, word

MOST_LOG_BYTES = 1 << 26


def is_managed(record: Record) -> bool:
    return record.keys.get("kind") == "managed"


def cluster_of(record: Record) -> str:
    return word(record.keys.get("cluster", ""))


def name_of(record: Record) -> str:
    """Return the recorded job's name for messages."""
    job_id = number(record.keys.get("id", ""))
    shown = "" if job_id is None else str(job_id)
    return f"managed job {shown}" if is_managed(record) else f"job {shown} of cluster {cluster_of(record)}"


def log_file(record: Record) -> Path:
    """Return the file that keeps an ended job's output."""
    return record.run.path / "logs" / f"sky_{record.attempt}.log"


def log_lines(record: Record) -> list[str]:
    try:
        with open_regular(log_file(record), follow=False) as file:
            return file.read(MOST_LOG_BYTES).decode(errors="replace").split("\n")
    except (Unreadable, OSError):
        return []


def logs_words(record: Record, request: LogRequest) -> list[str]:
    """Return the sky arguments that print a job's output."""
    how = ["--tail", str(request.tail or 0), "--follow" if request.follow else "--no-follow"]
    job_id = str(number(record.keys.get("id", "")) or "")
    return ["jobs", "logs", *how, job_id] if is_managed(record) else ["logs", *how, cluster_of(record), job_id]


def ssh_words(cluster: str, node: int, remote: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the ssh command that runs `remote` on a node, with SkyPilot's ssh configuration."""
    config = Path(os.path.expanduser("~")) / ".sky/generated/ssh" / cluster
    options = [*options, *(["-F", str(config)] if config.is_file() else [])]
    host = f"{cluster}-worker{node}" if node else cluster
    command = " ".join(map(shell_word, remote))
    return ["ssh", *options, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "--", host, command]
