"""Run one of a job's nodes on a listed host: start it in the background, run another payload, or signal it.

Usage: jobctl task RUN ATTEMPT HOST|RANK start|train|smoke|preflight|shell|signal [WORD…]
         RUN     the run's folder, or "" for a shell without a run
         HOST    as in hosts.txt; its position there is the node rank
         start   train in the background, independent of this connection; return once the node is running
         signal  send QUIT or KILL to this node's supervisor
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..run_folder.run import Run
from ..run_folder.stopping import signal_supervisors_here
from ..run_folder.submitted_values import VARIABLE
from ..system.failure import print_failure
from ..system.values import number_or_none, read_keys
from .node import node_variables_from_hosts_file
from .node_failure import NodeFailure
from .node_start import exec_node, start_in_background


def main(argv: list[str]) -> int:
    """Return the exit code, unless this program execs the node."""
    run, attempt, host, payload, *words = argv
    artifact = Path(sys.argv[0]).resolve().parent
    inherited = ("JOBC_INIT_FROM", "JOBC_HEAD_PORT", VARIABLE)  # from another job; this run's records have the values
    environ = {name: value for name, value in os.environ.items() if name not in inherited}
    try:
        environ.update(node_variables_from_hosts_file(artifact, host, environ))
    except NodeFailure as failure:
        print_failure(failure)
        return failure.code
    node = int(environ["JOBC_NODE_RANK"])
    if payload == "signal":
        signal_supervisors_here(Run(Path(run)), words[0], node)
        return 0
    run_id = os.path.basename(run)
    environ.update(JOBC_RUN_DIR=run, JOBC_RUN_ID=run_id, JOBC_JOB_ID=run_id, JOBC_ATTEMPT=attempt)
    keys = read_keys(Path(run, "state/run")) if run else {}
    for name in ("init_from", "project"):
        if keys.get(name):
            environ[f"JOBC_{name.upper()}"] = keys[name]
    if payload != "start":
        exec_node(artifact, environ, payload, *words, node=node)
    return start_in_background(artifact, Path(run), number_or_none(attempt) or 0, environ, node)
