"""Restart in place: after a crash, all of an attempt's nodes restart their ranks together, without the scheduler.

The nodes agree through exit/ATTEMPT/restart_N/: each node that can continue writes node_NN there once all its processes
have ended. When all nodes have done so, node 0 writes `go`. Thus no rank connects to a rank from before the crash. The
launchers themselves are restarted, because torchrun's own --max-restarts keeps its store, in which ranks would find
dead ranks' addresses (torch 2.13).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from ..run_folder.run_folder import RunFolder

PAUSE_S = 0.2
MORE_S = 30.0  # time, beyond the grace period, for the others to notice the failure and stop their processes


class Restarts:
    """One node's restarts.

    most: maximum number of restarts.
    pause(seconds): waits, and returns False if the node was asked to stop meanwhile.
    """

    def __init__(self, run: RunFolder, node: int, nodes: int, most: int, pause: Callable[[float], bool]) -> None:
        self.run, self.node, self.nodes, self.most, self.pause = run, node, nodes, most, pause
        self.made = 0

    def agree_on_restart(self, timeout_s: float) -> bool:
        """Agree with the other nodes on a restart. Return False if one ended or is silent, or the run was stopped."""
        folder = self.run.exits / f"restart_{self.made + 1}"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"node_{self.node:02}").touch()
            deadline = time.monotonic() + timeout_s + MORE_S
            while time.monotonic() < deadline and not self._has_attempt_ended() and self.pause(PAUSE_S):
                os.utime(self.run.node_state_file(self.node))  # heartbeat
                names = os.listdir(folder)
                if "go" in names:
                    self.made += 1
                    return True
                if self.node == 0 and len(names) == self.nodes:
                    self.run.first_failure.unlink(missing_ok=True)
                    self.run.mpi_daemon.unlink(missing_ok=True)
                    (folder / "go").touch()
        return False

    def _has_attempt_ended(self) -> bool:
        return self.run.stop_mark.exists() or any(self.run.node_exit_file(0).parent.glob("node_*"))
