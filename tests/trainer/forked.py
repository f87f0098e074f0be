"""Ranks that are forked from a process that has imported torch once: three seconds of CPU less for each of them.

A rank has a program, an environment and a log of its own, as a launcher gives it. What torch reads of the environment
when it is imported is that of the server (NOT_OURS): such a rank needs a start of its own.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

POLL_S = 0.01
NOT_OURS = ("TORCH", "MKL", "LD_")  # beginnings of variables that are read once
TORCH = ("numpy", "torch.distributed", "torch.utils.data", "torch._inductor.config")  # the last by the first optimizer
OURS = ("jobc.trainer.loop.loop", "jobc.trainer.build.build")


class ForkServer:
    """The process that forks.

    also: modules that it imports beside torch and the trainer
    """

    def __init__(self, *also: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jobc.tests.trainer.forked", *TORCH, *OURS, *also],
            env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, program: Sequence[str], env: Mapping[str, str], log: Path) -> Forked:
        """program: -m and a module, or -c and code, and its arguments"""
        log.touch()  # whoever waits for words reads it at once
        return Forked(self, int(self.ask("start", program=list(program), env=dict(env), log=str(log))))

    def ask(self, what: str, **said: object) -> str:
        assert self._process.stdin and self._process.stdout
        print(json.dumps({"what": what, **said}), file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """And with it all ranks."""
        self._process.communicate()


class Forked:
    """A rank, as subprocess.Popen has one."""

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


def _serve(modules: Sequence[str]) -> None:
    """Answers the lines of stdin: the process number of a start, the exit code of one that is polled, if it has one."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a module prints is no answer
    for name in modules:
        __import__(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the tests end the ranks
    running = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "start":
            pid = os.fork()
            if not pid:
                answers.close()
                _become(asked["program"], asked["env"], asked["log"])
            running.add(pid)
            print(pid, file=answers)
            continue
        pid, status = os.waitpid(asked["pid"], os.WNOHANG)
        running.discard(pid)
        print(os.waitstatus_to_exitcode(status) if pid else "", file=answers)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _become(program: Sequence[str], env: Mapping[str, str], log: str) -> NoReturn:
    """The rank, from here to its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name, how in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY)):
        opened = os.open(name, how)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env.get("PYTHONPATH", "").split(":") if env.get("PYTHONPATH") else []
    option, what, *arguments = program
    sys.argv = [what if option == "-m" else option, *arguments]
    code = 1
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(main))
        code = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
