"""Base class of engines whose only node is this machine: checks before a start, smoke and preflight."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..exit_codes import DATA_BROKEN
from ..node.node_start import exit_if_node_unfit, launch_command_of_node, run_node
from ..run_folder.run import Run, quote_shell_word
from ..system.failure import Failure
from ..system.streams import client_output_lines
from .check_table import Table
from .new_run import NewRun, temporary_run
from .starting_engine import StartingEngine

if TYPE_CHECKING:
    from .artifact_location import Place

SMOKE_S = 60  # time limit for the collective


class OneMachineEngine(StartingEngine):
    """An engine that starts a job's node on this machine. Subclasses define start()."""

    def can_nodes_read_folder(self, folder: Path, new: NewRun) -> bool:
        return True

    def node_environ(self, new: NewRun, init_from: str = "") -> dict[str, str]:
        """Return the environment in which launch.sh runs."""
        return {
            **self.environment_for_launch_sh(new, init_from),
            **self._gpu_type_variable(),
            "JOBC_JOB_ID": new.run.id,
            "JOBC_NODE_RANK": "0",
            "JOBC_HEAD_ADDR": "127.0.0.1",
            "JOBC_HEAD_PORT": str(self.job.settings.get("head_port", 0)),
        }

    def require_startable(self, run: Run | None) -> None:
        """Raise Failure, or exit, if this machine lacks GPUs, secrets, the environment, the port or the code."""
        least = self.job.settings.get("gpus")
        if isinstance(least, int) and least:
            from ..system.gpus import missing_gpus_reason, usable_gpu_count  # packed only in jobs with GPUs

            if message := missing_gpus_reason(usable_gpu_count(os.environ), least):
                title, _, hint = message.partition("\n")
                raise Failure(title, hint, DATA_BROKEN)
        folder = "" if run is None else str(run.path)
        where = {"JOBC_PROJECT": self.job.project, "JOBC_RUN_DIR": folder, "JOBC_HEAD_PORT": ""}
        exit_if_node_unfit(self.job.artifact, {**os.environ, **self._gpu_type_variable(), **where})

    def smoke(self, place: Place) -> int:
        with temporary_run(place, self) as new:
            environ = {
                **self.node_environ(new),
                "JOBC_RUN_ID": "smoke",
                "JOBC_JOB_ID": "smoke",
                "JOBC_HEAD_PORT": "0",
                "JOBC_TIME_LIMIT_S": str(SMOKE_S),
            }
            code = run_node(new.artifact, "smoke", environ)
            if code:
                new.keep_for_logs()
                print(f"its logs are in {quote_shell_word(str(new.run.path / 'logs'))}", file=sys.stderr)
        return code

    def preflight(self, place: Place, options: argparse.Namespace) -> Table:
        own_run = "" if place.own_run is None else str(place.own_run.path)
        folders = {"JOBC_RUN_ROOT": str(self.job.runs.parent), "JOBC_RUN_DIR": own_run}
        folders["JOBC_PROJECT"] = self.job.project
        host = os.uname().nodename
        table = Table([host])
        for line in client_output_lines(
            launch_command_of_node(self.job.artifact, "preflight"), {**self._gpu_type_variable(), **folders}
        ):
            table.add(f"{host}: {line}")
        return table

    def _gpu_type_variable(self) -> dict[str, str]:
        """Return the variable with the GPU type that launch.py expects on this machine."""
        gpu_type = self.job.settings.get("gpu_type")
        return {"JOBC_GPU_TYPE": str(gpu_type)} if gpu_type else {}
