"""Start a node's ranks with the launch line from launch.sh and supervise them, or run another payload.

Usage: jobctl launch N WORD1 … WORDN RANK PAYLOAD [COMMAND…]     the N words are the launch line
In:    the environment that launch.sh has prepared, and the folder of the user's code as the working directory.
Out:   the node's exit code. For payload shell, this program execs the command instead.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ..exit_codes import CRASHED, DATA_BROKEN
from ..network import head_port
from ..node.node_environment import (
    missing_module_failures,
    require_mpirun,
    require_python_version,
    safe_cache_variables,
)
from ..node.node_failure import NodeFailure, print_failed_check, record_and_print_failure
from ..node.node_settings import NodeSettings
from ..node.node_start import exec_program
from ..ranks import launchers
from ..ranks.separate_stderr import name_own_stderr
from ..run_folder.run_folder import RunFolder
from ..run_folder.submitted_values import SubmittedValues
from ..system.failure import Failure
from ..system.private_folder import private_folder
from ..system.values import number_or_none
from . import supervise

SMOKE = ("python3", "-m", "jobc_trainer.smoke")
_OF_LAUNCHERS = ("PET_", "TORCHELASTIC_")  # variables that an outer torchrun may have set
SHELL = ("bash", "--norc", "-i")
NOT_FOUND = 127  # a shell's exit code for a command that cannot be run


def main(argv: list[str]) -> int:
    """Return the node's exit code, unless this process execs another program."""
    most = int(argv[0])
    line, words = argv[1 : most + 1], argv[most + 1 :]
    payload = words[1] if len(words) > 1 else "train"
    for name in [name for name in os.environ if name.startswith(_OF_LAUNCHERS)]:
        del os.environ[name]
    try:
        read = NodeSettings.read(Path(sys.argv[0]).resolve().parent).settings_for_payload(payload)
        return _NodeLaunch(read, payload).run(line, words[2:])
    except Failure as failure:
        code = record_and_print_failure(os.environ, payload, failure)
        return CRASHED if payload == "preflight" else code


class _NodeLaunch:
    def __init__(self, read: NodeSettings, payload: str) -> None:
        self.read, self.payload = read, payload
        self.lacks = os.environ.pop("JOBC_LACKS", "0") != "0"
        # unset, so that a job started by a rank enters its own container
        if os.environ.pop("JOBC_INSIDE", None) is None:
            os.environ.pop("JOBC_STARTER", None)  # left over in the user's environment

    def run(self, line: Sequence[str], words: Sequence[str]) -> int:
        read, payload = self.read, self.payload
        launcher, command = launchers.split_launch_line(line)
        values = SubmittedValues.take(os.environ, is_training=payload == "train")
        values.set_variables(os.environ)
        command += values.arguments if payload == "train" else ()
        steps, entries = _step_command_and_then_count(payload, read.rendezvous_timeout_s)
        if payload == "smoke":
            launcher, command = ["spawn"], list(SMOKE)
        self._check_environment()
        if payload == "smoke" or (payload == "train" and read.code_kind == "lib"):
            os.environ["PYTHONSAFEPATH"] = "1"  # commands without user code import nothing from this folder
        if read.nodes > 1 and payload != "preflight":
            self._set_network()
        if payload == "shell":
            _become_shell([*(words or SHELL)])
        wanted = os.environ.get("JOBC_GPU_TYPE", "")
        if wanted and payload in ("train", "check"):
            from ..system import gpus  # packed only in jobs with GPUs

            is_good, message = gpus.compare_gpu_types(gpus.list_gpus(os.environ), wanted)
            if not is_good:
                raise NodeFailure(DATA_BROKEN, message, "use other hosts, or gpu_type=null for any type")
        if payload == "preflight":
            return self._run_preflight(command)
        name_own_stderr()
        task = number_or_none(os.environ.get("LOCAL_RANK", "")) if read.launcher == "srun" else None
        if task:
            os.environ.pop("JOBC_AFTER", None)
            spawn = ["spawn", "--task", str(task), str(read.rendezvous_timeout_s), "--"]
            exec_program(
                launchers.command_of_this_program(*spawn, *launchers.wrapped_rank_command(command)), os.environ
            )
        os.environ.update(safe_cache_variables(os.environ))
        os.environ["JOBC_HEAD_PORT"] = str(_agree_on_head_port(read))
        if payload == "check":
            return 0
        start = launchers.launcher_command(launcher, command, read, os.environ)
        options = [f"--max-restarts={read.max_restarts}", *([f"--steps={entries}"] if steps else [])]
        return supervise.main([*options, "--", *steps, *start])

    def _check_environment(self) -> None:
        require_python_version()
        for failure in missing_module_failures(self.read):
            self._handle_missing(failure)
        if self.read.launcher == "mpirun":
            try:
                require_mpirun()
            except NodeFailure as failure:
                self._handle_missing(failure)

    def _handle_missing(self, failure: NodeFailure) -> None:
        """Raise the failure or, in preflight, print it as a failed check and continue."""
        if self.payload != "preflight":
            raise failure
        print_failed_check(failure)
        self.lacks = True

    def _set_network(self) -> None:
        """Set this node's variables for NCCL and Gloo. Raises Failure if the node lacks the network."""
        from ..network import network  # packed only in jobs with several nodes

        read, head = self.read, os.environ["JOBC_HEAD_ADDR"]
        asked = read.network_profile, read.interface, read.gpus
        try:
            os.environ.update(network.nccl_and_gloo_variables(*asked, head, read.rendezvous_timeout_s))
        except Failure as lacking:
            title = lacking.title.replace("this node", os.uname().nodename)
            if self.payload != "shell":
                raise Failure(title, lacking.hint, lacking.code) from None
            print(f"warning: {title}", file=sys.stderr)  # the shell may have been opened to find out why

    def _run_preflight(self, command: Sequence[str]) -> int:
        from ..preflight.node_checks import check_lines  # other payloads do not need it

        python = [sys.executable] if command[0] == "python3" else [command[0]]
        failed = self.lacks
        for line in check_lines(self.read, [*python, *command[1:]]):
            print(line, flush=True)
            failed = failed or line.startswith("FAIL")
        return int(failed)


def _step_command_and_then_count(payload: str, timeout_s: int) -> tuple[list[str], int]:
    """Return the command that starts steps.py, and the number of `then` entries.

    The command is [] if there is no `before`, `per_node` or `then`.
    The variables are removed from the ranks' environment. The variables for `after` stay, for the supervisor.
    """
    before, per_node = (os.environ.pop(name, "") for name in ("JOBC_BEFORE", "JOBC_PER_NODE"))
    if payload != "train":
        os.environ.pop("JOBC_AFTER", None)
    names = (f"JOBC_THEN_{number}" for number in itertools.count(1))
    entries = [os.environ.pop(name) for name in itertools.takewhile(os.environ.__contains__, names)]
    has_steps = payload == "train" and (before or per_node or entries)
    words = (
        launchers.command_of_this_program("steps", before, per_node, str(timeout_s), *entries, "--")
        if has_steps
        else []
    )
    return words, len(entries)


def _become_shell(words: list[str]) -> NoReturn:
    try:
        exec_program(words, os.environ)
    except OSError as error:
        raise NodeFailure(NOT_FOUND, f"cannot run {words[0]}: {error.strerror}") from None


def _agree_on_head_port(read: NodeSettings) -> int:
    """Return the port for the ranks' rendezvous. Raises Failure.

    The lock on a chosen port lasts as long as this process, which execs the supervisor.
    """
    try:
        lock = os.open(private_folder("ports") / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        title = f"cannot write to {os.environ.get('TMPDIR') or '/tmp'}"
        raise NodeFailure(CRASHED, title, "set TMPDIR to a folder that can be written") from None
    try:
        run, wanted = RunFolder.from_environment(), number_or_none(os.environ["JOBC_HEAD_PORT"]) or 0
        return head_port.agree_on_rendezvous_port(run, wanted, lock, read.rendezvous_timeout_s)
    except OSError as error:
        title = f"no rendezvous port on {os.uname().nodename}: {error.strerror}"
        raise NodeFailure(CRASHED, title, "set rendezvous.port to a free port") from None
