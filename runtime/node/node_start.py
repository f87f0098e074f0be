"""Start an artifact's launch.sh, which execs a node's supervisor: as a check, in the foreground or in the background.

In:  the copy of the artifact, and the environment with the node's JOBC_ variables.
Out: if the node fails to start, its exit code, and its messages on stderr.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from ..exit_codes import CRASHED
from ..run_folder.run_folder import open_for_append
from ..system.streams import terminate_at_exit
from ..system.values import number_or_none, read_keys

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # an ignored signal survives exec
LOOK_S = 0.1  # pause between checks of whether the node is running
LOG_LINES = 20  # how many lines of the log are printed if a background start fails


def exit_if_node_unfit(artifact: Path, environ: Mapping[str, str]) -> None:
    """Exit with the node's exit code and messages if it lacks secrets, the environment, the port or the code."""
    words = launch_command_of_node(artifact, "check")
    done = subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.stderr.buffer.write(done.stderr)
        sys.exit(done.returncode)


def run_node(artifact: Path, payload: str, environ: Mapping[str, str]) -> int:
    """Run launch.sh until it ends, and return its exit code. If this program is terminated, so is launch.sh."""
    return run_program(launch_command_of_node(artifact, payload), environ)


def run_program(words: list[str], environ: Mapping[str, str]) -> int:
    """Run a program until it ends, and return its exit code. If this program is terminated, so is the other one."""
    with terminate_at_exit(subprocess.Popen(words, env=environ)) as process:
        return process.wait()


def exec_node(
    artifact: Path, environ: Mapping[str, str], payload: str = "train", *words: str, node: int = 0
) -> NoReturn:
    """Exec that node's launch.sh. words: the command for payload shell. Raises OSError."""
    exec_program([*launch_command_of_node(artifact, payload, node), *words], environ)


def exec_program(words: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Exec another program. Raises OSError."""
    sys.stdout.flush()
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in IGNORED_BY_PYTHON}
    try:
        os.execvpe(words[0], words, environ)
    finally:  # the other program could not be started
        for number, handler in handlers.items():
            signal.signal(number, handler)


def start_in_background(artifact: Path, run: Path, attempt: int, environ: Mapping[str, str], node: int = 0) -> int:
    """Start the node in its own session. Return 0 once it is running, or print its log and return its exit code."""
    log, state = run / f"logs/node_{node:02}.log", run / f"state/node_{node:02}"
    with open(open_for_append(log), "ab") as errors:
        process = subprocess.Popen(
            launch_command_of_node(artifact, "train", node),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    while number_or_none((keys := read_keys(state)).get("attempt", "")) != attempt:
        if process.poll() is not None:
            _print_log_end(log)
            return process.returncode
        time.sleep(LOOK_S)
    if number_or_none(keys.get("pid", "")) is not None:
        return 0
    _print_log_end(log)
    code = number_or_none(keys.get("exit", ""))
    return CRASHED if code is None else code


def launch_command_of_node(artifact: Path, payload: str, node: int = 0) -> list[str]:
    return ["bash", str(artifact / "launch.sh"), str(node), payload]


def _print_log_end(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    sys.stderr.buffer.write(b"".join(lines[-LOG_LINES:]))
