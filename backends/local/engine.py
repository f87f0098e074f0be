"""This machine, for the verbs of an artifact: submit starts node.sh, which becomes the supervisor.

Packed into jobctl; Python 3.8.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ...trainer.rt.engines.checking import CheckingEngine
from ...trainer.rt.engines.engine import Failure
from ...trainer.rt.engines.run import Run, shell_word
from ...trainer.rt.engines.streams import printed_lines
from ...trainer.rt.exit_codes import DATA_BROKEN
from ...trainer.rt.gpus import number_seen, too_few
from ...trainer.rt.new_run import NewRun, temporary_run
from ...trainer.rt.node_start import become_node, check_node, node_words, run_node, start_in_background
from ...trainer.rt.verbs.jobs import Place
from ...trainer.rt.verbs.table import Table

SMOKE_S = 60  # limit of the collective


class LocalEngine(CheckingEngine):
    """One node, which is this machine."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--detach", action="store_true", default=self.job.settings.get("detach") is True)

    def sees_code(self, folder: Path, new: NewRun) -> bool:
        return True

    def require_startable(self, run: Run | None) -> None:
        """Raise Failure, or exit, if this machine lacks GPUs, secrets, the environment, the port or the code."""
        least = self.job.settings.get("gpus")
        if isinstance(least, int) and least and (message := too_few(number_seen(os.environ), least)):
            title, _, hint = message.partition("\n")
            raise Failure(title, hint, DATA_BROKEN)
        folder = "" if run is None else str(run.path)
        check_node(self.job.artifact, {**os.environ, **self._gpu_type(), "JOBC_RUN_DIR": folder, "JOBC_HEAD_PORT": ""})

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Become the node, or start it in the background and wait until it is up."""
        copy, run = new.artifact, new.run
        print(f"run {run.id} in {shell_word(str(run.path))}")
        print(f"  follow: {shell_word(str(copy / 'logs.sh'))} --follow")
        print(f"  stop:   {shell_word(str(copy / 'stop.sh'))}", flush=True)
        environ = {
            **self.run_environ(new, init_from),
            **self._gpu_type(),
            "JOBC_JOB_ID": run.id,
            "JOBC_NODE_RANK": "0",
            "JOBC_HEAD_ADDR": "127.0.0.1",
            "JOBC_HEAD_PORT": str(self.job.settings.get("head_port", 0)),
        }
        new.keep()
        if not options.detach:
            become_node(copy, environ)
        return start_in_background(copy, run.path, new.attempt, environ)

    def smoke(self, place: Place) -> int:
        with temporary_run(place, self) as new:
            environ = {
                **self.run_environ(new),
                "JOBC_RUN_ID": "smoke",
                "JOBC_JOB_ID": "smoke",
                "JOBC_NODE_RANK": "0",
                "JOBC_HEAD_ADDR": "127.0.0.1",
                "JOBC_HEAD_PORT": "0",
                "JOBC_TIME_LIMIT_S": str(SMOKE_S),
            }
            code = run_node(new.artifact, "smoke", environ)
            if code:
                new.preserve()
                print(f"its logs are in {shell_word(str(new.run.path / 'logs'))}", file=sys.stderr)
        return code

    def preflight(self, place: Place, options: argparse.Namespace) -> Table:
        own_run = "" if place.own_run is None else str(place.own_run.path)
        folders = {"JOBC_RUN_ROOT": str(self.job.runs.parent), "JOBC_RUN_DIR": own_run}
        host = os.uname().nodename
        table = Table([host])
        for line in printed_lines(node_words(self.job.artifact, "preflight"), {**self._gpu_type(), **folders}):
            table.add(f"{host}: {line}")
        return table

    def _gpu_type(self) -> dict[str, str]:
        """Return the variable with which node.sh compares the GPUs of this machine."""
        gpu_type = self.job.settings.get("gpu_type")
        return {"JOBC_GPU_TYPE": str(gpu_type)} if gpu_type else {}


ENGINE = LocalEngine
