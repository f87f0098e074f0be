"""`jobctl container [RANK] [PAYLOAD] [COMMAND…]`: run launch.sh again, inside the job's container.

In:  the container in .jobc/job.json; the node's environment after its modules were loaded; the project as the working
     directory. All of jobc's programs run inside the container, including the supervisor.
Out: this process execs `docker run` or `apptainer exec`. In the container, launch.sh sees two more variables:
     JOBC_INSIDE, which is 1 if a preflight check failed outside the container and 0 otherwise; and JOBC_STARTER,
     this process's `PID START_TICKS`. supervise.py stops the node when this process is gone.
Exit: 65 if the image does not start; 1 if this node's container is already running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ..exit_codes import CRASHED, DONE
from ..node.job_secrets import read_job_secrets
from ..node.node import node_and_run_variables, reject_live_node
from ..node.node_failure import NodeFailure, print_failed_check, record_and_print_failure
from ..node.node_settings import NodeSettings
from ..node.node_start import exec_program
from ..system.processes import process_start_time
from .container_node import ContainerNode


def main(argv: list[str]) -> int:
    """Enter the container. Return an exit code on failure, or if the payload is `check` and the image is missing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # so that Ctrl-C during `docker pull` prints no traceback
    artifact = Path(os.path.realpath(sys.argv[0])).parent
    environ = dict(os.environ)
    payload = argv[1] if len(argv) > 1 else "train"
    try:
        settings = NodeSettings.read(artifact).settings_for_payload(payload)
        environ.update(node_and_run_variables(artifact, argv, environ))
        environ.update(JOBC_JOB_NAME=settings.name, JOBC_NODES=str(settings.nodes))
        reject_live_node(settings, payload, environ)
        failed = _add_secrets(settings, environ, payload)
        environ.update(JOBC_INSIDE=str(int(failed)), JOBC_STARTER=f"{os.getpid()} {process_start_time(os.getpid())}")
        command = ContainerNode(artifact, settings, environ, payload).build_command()
    except NodeFailure as failure:
        if payload == "preflight":  # nothing can be checked inside the container
            record_and_print_failure(environ, "check", failure)
            return CRASHED
        return record_and_print_failure(environ, payload, failure)
    if command is not None:
        words = [str(artifact / "launch.sh"), environ["JOBC_NODE_RANK"], payload, *argv[2:]]
        if command[0] != "docker" and payload != "shell" and any(map(os.isatty, range(3))):
            _leave_terminal()
        exec_program([*command, *words], environ)
    return DONE


def _add_secrets(settings: NodeSettings, environ: dict[str, str], payload: str) -> bool:
    """Add the job's secrets to the environment. In preflight, return whether one is missing. Raises NodeFailure."""
    failed = False
    for name, reference in settings.secrets.items():
        try:
            environ.update(read_job_secrets({name: reference}, environ, payload))
        except NodeFailure as failure:
            if payload != "preflight":
                raise
            print_failed_check(failure)
            failed = True
    return failed


def _leave_terminal() -> None:
    """Read from /dev/null and print through `cat`: on a terminal, apptainer exec loses signals sent only to it."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout.flush()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # so that Ctrl-C does not kill `cat` before its last line
    for descriptor in (1, 2):
        read_end, write_end = os.pipe()
        subprocess.Popen(["cat"], stdin=read_end, stdout=descriptor)
        os.dup2(write_end, descriptor)
        os.close(read_end)
        os.close(write_end)
    signal.signal(signal.SIGINT, handler)
