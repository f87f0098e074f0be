"""Base class of engines that can test a job's nodes, for verbs/smoke.py, verbs/preflight.py and verbs/shell.py."""

from __future__ import annotations

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from ..node.node_start import exec_node
from ..system.failure import Failure
from .engine import Engine
from .starting_engine import StartingEngine

if TYPE_CHECKING:
    from .artifact_location import Place
    from .check_table import Table


class CheckingEngine(StartingEngine, ABC):
    """An engine that can run commands other than the job itself on the job's nodes."""

    @abstractmethod
    def smoke(self, place: Place) -> int:
        """Run a collective across the nodes. Return the exit code; 0 means success. Raises Failure."""

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the preflight options that only this backend has."""

    @abstractmethod
    def preflight(self, place: Place, options: argparse.Namespace) -> Table | int:
        """Check the nodes. Return the table of checks, or an exit code if there is no table. Raises Failure."""

    def shell_nodes(self, place: Place, named: str) -> int:
        """Return the number of nodes on which a shell can be opened. named: as for shell(). Raises Failure."""
        return place.job.nodes

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Run the command, or a shell if there is none, on a node in the ranks' environment. Return the exit code.

        named: the run whose code is used, or "" for the default. Raises Failure.
        """
        exec_shell(place, named, node, command)


def checking_engine(engine: Engine) -> CheckingEngine:
    """Return the engine. Raises Failure if it cannot check nodes."""
    if not isinstance(engine, CheckingEngine):
        raise Failure(f"backend {engine.job.backend} has no engine that checks its nodes")
    return engine


def exec_shell(place: Place, named: str, node: int, command: Sequence[str]) -> NoReturn:
    """Exec the command, or a shell if there is none, on this machine. Raises Failure.

    named: the run whose code is used. If it is "", the newest run's code is used, or your current code if there is no
    run.
    """
    run = place.choose_run(named) if named or place.has_runs() else None
    folder = "" if run is None else str(run.path)
    environ = {**os.environ, "JOBC_PROJECT": place.job.project, "JOBC_RUN_DIR": folder}
    exec_node(place.artifact, environ, "shell", *command, node=node)
