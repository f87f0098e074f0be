"""Query sky and the bucket that holds the runs. Packed into jobctl."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from ....runtime.engines.record_engine import RecordEngine
from ....runtime.run_folder.run import Run
from ....runtime.system.failure import Failure
from .parse_output import last_json, status_rows

SKY_S = 300  # timeout of a sky command, which may start its API server and query clouds


class SkypilotClient(RecordEngine):
    """The part of the engine that queries sky and the bucket."""

    @property
    def is_in_bucket(self) -> bool:
        return self.job.settings.get("storage") == "object"

    def sky(self, *words: str) -> str:
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

        The status is refreshed first, because a cluster may stop by itself.
        """
        table = self.run_sky_for_json("status", "--refresh", "--output", "json", cluster)
        return next((str(row.get("status", "")) for row in status_rows(table)), "").rpartition(".")[2]

    def run_sky_for_json(self, *words: str) -> Any:
        """Return the JSON that sky prints after its log lines, or None if there is none."""
        return last_json(self.sky(*words))

    def depot(self, run: Run, *words: str) -> str:
        """Run a depot.py verb on the runs' bucket. Return its output, or "" if it fails.

        It fails without credentials, for example.
        """
        command, environment = self.depot_words(run, *words)
        answer = self.ask(command, environment=environment)
        return "" if answer.code else answer.text

    def depot_words(self, run: Run, verb: str, *words: str) -> tuple[list[str], dict[str, str]]:
        """Return the depot.py command for a run, and the environment variables that the command needs."""
        store = self.job.settings.get("store")
        environment = {key: str(value) for key, value in store.items()} if isinstance(store, dict) else {}
        program = [sys.executable, "-I", "-S", str(self.job.artifact / "jobctl"), "depot", verb]
        return [*program, f"{self.job.name}/{run.id}", *words], environment

    def path_on_nodes(self, run: Run, node: int = 0) -> str:
        """Return the run's path on the nodes. A relative path starts at the home folder."""
        path = super().path_on_nodes(run, node)
        return path[2:] if path.startswith("~/") else path
