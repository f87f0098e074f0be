"""Read the SkyPilot job from a run's record, RUN/state/job_ATTEMPT: kind (managed or empty), cluster, id.

A record's keys are untrusted, so a cluster must be a plain word, and an ID must be a number. Packed into jobctl.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.record_engine import Record
from ....runtime.run_folder.run import quote_shell_word
from ....runtime.system.untrusted_files import Unreadable, open_regular
from ....runtime.system.values import number_or_none, word_or_empty

MOST_LOG_BYTES = 1 << 26


def is_managed_job(record: Record) -> bool:
    return record.keys.get("kind") == "managed"


def cluster_name_in_record(record: Record) -> str:
    return word_or_empty(record.keys.get("cluster", ""))


def describe_job(record: Record) -> str:
    """Return the name of the recorded job, as printed in messages."""
    job_id = number_or_none(record.keys.get("id", ""))
    shown = "" if job_id is None else str(job_id)
    return (
        f"managed job {shown}" if is_managed_job(record) else f"job {shown} of cluster {cluster_name_in_record(record)}"
    )


def saved_output_file(record: Record) -> Path:
    """Return the file in which an ended job's output is saved."""
    return record.run.path / "logs" / f"sky_{record.attempt}.log"


def saved_output_lines(record: Record) -> list[str]:
    try:
        with open_regular(saved_output_file(record), follow=False) as file:
            return file.read(MOST_LOG_BYTES).decode(errors="replace").split("\n")
    except (Unreadable, OSError):
        return []


def sky_logs_arguments(record: Record, request: LogRequest) -> list[str]:
    """Return the sky arguments that print a job's output."""
    how = ["--tail", str(request.tail or 0), "--follow" if request.follow else "--no-follow"]
    job_id = str(number_or_none(record.keys.get("id", "")) or "")
    return (
        ["jobs", "logs", *how, job_id]
        if is_managed_job(record)
        else ["logs", *how, cluster_name_in_record(record), job_id]
    )


def ssh_command_for_node(cluster: str, node: int, remote: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the ssh command that runs `remote` on a node, with SkyPilot's ssh configuration."""
    config = Path(os.path.expanduser("~")) / ".sky/generated/ssh" / cluster
    options = [*options, *(["-F", str(config)] if config.is_file() else [])]
    host = f"{cluster}-worker{node}" if node else cluster
    command = " ".join(map(quote_shell_word, remote))
    return ["ssh", *options, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "--", host, command]
