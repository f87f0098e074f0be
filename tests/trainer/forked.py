"""Ranks that are forked from a process that has imported torch once, which saves three seconds of CPU time per rank.

A rank has its own program, environment and log, as with a launcher. The variables that torch reads at its import are
those of the server (NOT_OURS), so a rank that needs other values must be started separately.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar, NoReturn

POLL_S = 0.01
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
NOT_OURS = ("TORCH", "MKL", "LD_")  # prefixes of variables that are read once
# the last one is imported by the first optimizer
TORCH = ("numpy", "torch.distributed", "torch.utils.data", "torch._inductor.config")
OURS = ("jobc.trainer.loop.loop", "jobc.trainer.build.build")


class ForkServer:
    """The process that forks.

    also: modules that it imports in addition to torch and the trainer
    """

    started: ClassVar[list[ForkServer]] = []

    def __init__(self, *also: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jobc.tests.trainer.forked", *TORCH, *OURS, *also],
            env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(self)

    def start(
        self,
        program: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        errors: Path | None = None,
        folder: Path | None = None,
    ) -> Forked:
        """Start a rank.

        program: -m and a module, or -c and code, and its arguments
        errors:  file for its stderr; default: log
        folder:  its working directory; default: the tests' own
        """
        log.touch()  # so that callers that wait for words read them immediately
        said = {"log": str(log), "errors": str(errors or log), "folder": str(folder or Path.cwd())}
        return Forked(self, int(self.ask("start", program=list(program), env=dict(env), **said)))

    def ask(self, what: str, **said: object) -> str:
        assert self._process.stdin and self._process.stdout
        print(json.dumps({"what": what, **said}), file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """End the server, and with it all ranks."""
        self._process.communicate()


class Forked:
    """A rank, with the interface of subprocess.Popen."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and (said := self._server.ask("poll", pid=self.pid)):
            self.returncode = int(said)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        began = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - began > timeout:
                raise subprocess.TimeoutExpired(f"rank of process {self.pid}", timeout)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def fork_server(*also: str) -> ForkServer:
    """Return the server for all ranks of this process; it ends, and its ranks with it, when its stdin is closed."""
    return ForkServer(*also)


def run_forked(program: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `python -c program` in a folder, as a forked process with pipes as stdout and stderr."""
    reads, writes = zip(os.pipe(), os.pipe(), strict=True)
    output, errors = (Path(f"/proc/{os.getpid()}/fd/{write}") for write in writes)
    rank = fork_server().start(("-c", program), {"OMP_NUM_THREADS": "1", **env}, output, errors, folder)
    try:
        code = rank.wait(180)
    finally:
        rank.kill()
        for write in writes:
            os.close(write)
        texts = [os.fdopen(read).read() for read in reads]
    return subprocess.CompletedProcess(program, code, *texts)


def _serve(modules: Sequence[str]) -> NoReturn:
    """Answer each line of stdin: with the process ID of a started rank, or the exit code, if any, of a polled one."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a module's output must not be taken for an answer
    for name in modules:
        __import__(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal: the tests end the ranks
    running = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "start":
            pid = os.fork()
            if not pid:
                answers.close()
                _become(asked["env"], asked["log"], asked["errors"], asked["folder"])
                _end(_run(asked["program"]))
            running.add(pid)
            print(pid, file=answers)
            continue
        pid, status = os.waitpid(asked["pid"], os.WNOHANG)
        running.discard(pid)
        print(os.waitstatus_to_exitcode(status) if pid else "", file=answers)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _become(env: Mapping[str, str], log: str, errors: str, folder: str) -> None:
    """Make this process the rank: its files, environment and working directory."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name, how in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY), (2, errors, APPEND)):
        opened = os.open(name, how, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    if errors == log:
        os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path[:0] = env.get("PYTHONPATH", "").split(":") if env.get("PYTHONPATH") else []


def _run(program: Sequence[str]) -> int:
    """Run the program. Return the exit code with which Python would end."""
    option, what, *arguments = program
    sys.argv = [what if option == "-m" else option, *arguments]
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(main))
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """Exit as Python does, but skip the destruction of modules, which takes two seconds in a forked process."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
