"""Run the artifact's verbs on this machine.

`submit` execs launch.sh, which execs the supervisor. Several nodes are started in the same way as on several hosts.

Packed into jobctl; Python 3.8.
"""

from __future__ import annotations

import argparse

from ...runtime.engines.engine import Job
from ...runtime.engines.new_run import NewRun
from ...runtime.engines.one_machine import OneMachineEngine
from ...runtime.engines.starting_engine import StartingEngine
from ...runtime.node.node_start import exec_node, start_in_background
from ...runtime.run_folder.run import quote_shell_word


class LocalEngine(OneMachineEngine):
    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        text = "start the job in the background and return; by default, wait and exit with the job's exit code"
        is_detached = self.job.settings.get("detach") is True
        parser.add_argument("--detach", action="store_true", default=is_detached, help=text)

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Exec the node's launch.sh, or start it in the background and wait until it is running."""
        new.print_started(f" in {quote_shell_word(str(new.run.path))}")
        environ = self.node_environ(new, init_from)
        new.keep()
        if not options.detach:
            exec_node(new.artifact, environ)
        return start_in_background(new.artifact, new.run.path, new.attempt, environ)


def ENGINE(job: Job) -> StartingEngine:
    if job.nodes == 1:
        return LocalEngine(job)
    from ...runtime.engines.hosts_engine import HostsEngine  # packed only into jobs with several nodes

    return HostsEngine(job)
