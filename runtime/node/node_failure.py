"""Report that a node cannot start its ranks: print why, and record it in the run folder for the other nodes.

Usage: jobctl node_failure RANK PAYLOAD STATUS COMMAND [LINE]     (launch.sh calls this)
         LINE: the line of launch.sh that failed, during setup
Out:   exit/ATTEMPT/first, exit/ATTEMPT/node_NN and state/node_NN; and the exit code, which is 0 in preflight because
       preflight continues.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..run_folder.run_folder import RunFolder, write_small_file
from ..system.failure import Failure, print_failure
from ..system.text import printable
from ..system.values import number_or_none, word_or_empty

WITHOUT_RECORD = ("shell", "preflight", "check")  # payloads that start no attempt


class NodeFailure(Failure):
    """Raised when this node cannot start."""

    def __init__(self, code: int, title: str, hint: str = "") -> None:
        super().__init__(title, hint, code)


class NodeAlreadyRunning(NodeFailure):
    """Raised if this node is already running. It is not recorded, because the records belong to the running node."""


def main(argv: list[str]) -> int:
    """Report the line of launch.sh that failed."""
    from .node import node_and_run_variables  # node.py imports this module
    from .node_settings import NodeSettings

    rank, payload, status, command = argv[:4]
    line = argv[4] if len(argv) > 4 else ""
    environ, artifact = dict(os.environ), Path(sys.argv[0]).resolve().parent
    with contextlib.suppress(NodeFailure):
        environ["JOBC_NODES"] = str(NodeSettings.read(artifact).nodes)
        environ.update(node_and_run_variables(artifact, [rank, payload], environ))
    return record_and_print_failure(environ, payload, _setup_failure(status, command, line, artifact / "launch.sh"))


def _setup_failure(status: str, command: str, line: str, script: Path) -> NodeFailure:
    """Return the Failure for a line of launch.sh (`script`)."""
    host = os.uname().nodename
    if "/init/bash" in command and "${MODULESHOME" in command:  # a line that jobc adds before the first `module …`
        initializer = os.environ.get("MODULESHOME") or "/usr/share/modules"
        title = f"environment modules are not installed on {host} (no {initializer}/init/bash)"
        with contextlib.suppress(OSError):
            needed = re.search("^module .*", script.read_text(errors="replace"), re.MULTILINE)
            title += f", needed by {needed[0]}" if needed else ""
        return NodeFailure(DATA_BROKEN, title, "install Lmod there, set MODULESHOME, or load no modules")
    if command == "exit" and status == "2":
        title = "setup: a line is not valid bash, or calls exit 2"
        return NodeFailure(DATA_BROKEN, title, "the message above names the line; fix the `setup` key")
    if command == "exit":
        return NodeFailure(DATA_BROKEN, f"setup exited with {status}", "a line of the `setup` key calls exit")
    if line:
        hint = f"line {line} of launch.sh, from the `setup` key; try that line in a fresh shell on {host}"
        return NodeFailure(DATA_BROKEN, f"setup failed (exit {status}): {command}", hint)
    if status == "127" and word_or_empty(os.path.basename(command)) and " " not in command:
        hint = "set python.interpreter to another name; or use python=venv, conda, uv or modules"
        return NodeFailure(DATA_BROKEN, f"python not found: {command}", hint)
    if command.startswith("cd "):
        hint = "with container.workdir=null, the ranks start in the code folder"
        return NodeFailure(DATA_BROKEN, "container.workdir does not exist in the container", hint)
    activate = command[2:].strip("'") if command.startswith(". ") else ""
    if activate and not os.access(activate, os.R_OK):
        hint = "create the environment there, or choose another with python and python.path"
        where = f"on {host}" if os.path.isabs(activate) else f"in {os.getcwd()}"
        return NodeFailure(DATA_BROKEN, f"no {activate} {where}", hint)
    title = f"setting up the environment failed (exit {status}): {command}"
    return NodeFailure(DATA_BROKEN, title, "try that line in a fresh shell")


def record_and_print_failure(environ: Mapping[str, str], payload: str, failure: Failure) -> int:
    """Record and print why this node cannot start. Return its exit code, or 0 in preflight."""
    if payload == "preflight":
        print_failed_check(failure)
        return 0
    if not isinstance(failure, NodeAlreadyRunning):
        record_failure(environ, payload, failure)
    print_failure(failure)
    return failure.code


def failed_check_line(failure: Failure) -> str:
    """Return a failed check as node_checks.py prints it."""
    fields = ("FAIL", "environment", failure.title, failure.hint)
    return "\t".join(" ".join(printable(field).split()) for field in fields)


def print_failed_check(failure: Failure) -> None:
    print(failed_check_line(failure), flush=True)


def record_failure(environ: Mapping[str, str], payload: str, failure: Failure) -> None:
    """Record the failure in the run folder, so that `jobctl status` prints it and the other nodes do not wait."""
    path, attempt = environ.get("JOBC_RUN_DIR", ""), number_or_none(environ.get("JOBC_ATTEMPT", "0"))
    if payload in WITHOUT_RECORD or attempt is None or not path or not os.path.isdir(os.path.join(path, "state")):
        return
    run, node = RunFolder(Path(path), attempt), number_or_none(environ.get("JOBC_NODE_RANK", "0")) or 0
    task, code, title = environ.get("LOCAL_RANK", "0") or "0", str(failure.code), failure.title
    with contextlib.suppress(OSError):
        run.node_exit_file(node).parent.mkdir(parents=True, exist_ok=True)
        if environ.get("JOBC_NODES", "1") != "1" or task != "0":
            unfinished = run.first_failure.with_name(f".first.{node}.{task}")
            write_small_file(unfinished, code, {"node": node, "time_ns": time.time_ns(), "reason": title})
            with contextlib.suppress(FileExistsError):
                os.link(unfinished, run.first_failure)
            unfinished.unlink()
        if task == "0":  # with launcher=srun, the node's files belong to task 0
            now = int(time.time())
            write_small_file(run.node_exit_file(node), code, {"reason": title})
            times = {"attempt": attempt, "started": now, "ended": now}
            keys = {"host": os.uname().nodename, **times, "exit": code, "reason": title}
            write_small_file(run.node_state_file(node), keys=keys)
