"""Query sky and the bucket that holds the runs, and read the job in a run's record. Packed into jobctl.

In:  RUN/state/job_ATTEMPT, with the keys kind (managed or empty), cluster and id. They are untrusted, so a cluster must
     be a plain word, and an ID must be a number.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.record_engine import Record, RecordEngine
from ....runtime.run_folder.run import Run, quote_shell_word
from ....runtime.system.failure import Failure
from ....runtime.system.untrusted_files import Unreadable, open_regular
from ....runtime.system.values import number_or_none, word_or_empty
from .parse_output import last_json, status_rows

MOST_LOG_BYTES = 1 << 26
SKY_S = 300  # timeout of a sky command, which may start its API server and query clouds


class SkypilotClient(RecordEngine):
    @property
    def is_in_bucket(self) -> bool:
        return self.job.settings.get("storage") == "object"

    def run_sky(self, *words: str) -> str:
        self.require_client()
        return self.ask(["sky", *words], SKY_S, self.sky_environment).text

    @property
    def sky_environment(self) -> dict[str, str]:
        return {} if self.job.settings.get("usage_collection") else {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}

    def require_client(self) -> None:
        if shutil.which("sky") is None:
            hint = "pip install 'skypilot[…]' with your infrastructure's name; https://docs.skypilot.co"
            raise Failure("sky was not found", hint)

    def status_of(self, cluster: str) -> str:
        """Return a cluster's status (UP, STOPPED or INIT), or "" if the cluster does not exist.

        The status is refreshed first, because a cluster may stop without a request (autostop, preemption).
        """
        table = self.run_sky_for_json("status", "--refresh", "--output", "json", cluster)
        return next((str(row.get("status", "")) for row in status_rows(table)), "").rpartition(".")[2]

    def run_sky_for_json(self, *words: str) -> Any:
        """Return the JSON that sky prints after its log lines, or None if there is none."""
        return last_json(self.run_sky(*words))

    def depot_words_and_environment(self, run: Run, verb: str, *words: str) -> tuple[list[str], dict[str, str]]:
        """Return the depot.py command for a run, and the environment variables that the command needs."""
        store = self.job.settings.get("store")
        environment = {key: str(value) for key, value in store.items()} if isinstance(store, dict) else {}
        program = [sys.executable, "-I", "-S", str(self.job.artifact / "jobctl")]
        return [*program, "depot", verb, f"{self.job.name}/{run.id}", *words], environment

    def path_on_nodes(self, run: Run, node: int = 0) -> str:
        """Return the run's path on the nodes. A relative path is relative to the home directory."""
        path = super().path_on_nodes(run, node)
        return path[2:] if path.startswith("~/") else path


def is_managed_job(record: Record) -> bool:
    return record.keys.get("kind") == "managed"


def cluster_in_record(record: Record) -> str:
    return word_or_empty(record.keys.get("cluster", ""))


def job_id_in_record(record: Record) -> str:
    """Return the job ID, or "" if it is not a number."""
    return str(number_or_none(record.keys.get("id", "")) or "")


def describe_job(record: Record) -> str:
    job_id = job_id_in_record(record)
    return f"managed job {job_id}" if is_managed_job(record) else f"job {job_id} of cluster {cluster_in_record(record)}"


def saved_output_file(record: Record) -> Path:
    return record.run.path / "logs" / f"sky_{record.attempt}.log"


def saved_output_lines(record: Record) -> list[str]:
    try:
        with open_regular(saved_output_file(record), follow=False) as file:
            return file.read(MOST_LOG_BYTES).decode(errors="replace").split("\n")
    except (Unreadable, OSError):
        return []


def sky_logs_arguments(record: Record, request: LogRequest) -> list[str]:
    how = ["--tail", str(request.tail or 0), "--follow" if request.follow else "--no-follow"]
    verb = ["jobs", "logs", *how] if is_managed_job(record) else ["logs", *how, cluster_in_record(record)]
    return [*verb, job_id_in_record(record)]


def ssh_command_for_node(cluster: str, node: int, remote: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the ssh command that runs `remote` on a node, with SkyPilot's ssh configuration."""
    config = Path(os.path.expanduser("~")) / ".sky/generated/ssh" / cluster
    file = ["-F", str(config)] if config.is_file() else []
    host = f"{cluster}-worker{node}" if node else cluster
    command = " ".join(map(quote_shell_word, remote))
    return ["ssh", *options, *file, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "--", host, command]
