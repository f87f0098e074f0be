"""A `jobc` command that starts in 20 ms: a process that has imported everything forks itself for each call.

The child has the caller's files, folder, environment and arguments, and ends with the exit status of `main`. What jobc
does at import it has done already, in the server; tests of starting up use the real command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit import templating
from jobc.compiler.frontend import compose_cache
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plugins import registry
from jobc.compiler.plugins.registry import PACKAGE

CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"3"], [0, 1, 2])
server.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(8)))
"""


@contextlib.contextmanager
def quick_jobc(folder: Path) -> Iterator[Path]:
    """The command, in `folder`, as long as the context lasts."""
    address = folder / "socket"
    command = folder / "jobc"
    command.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    command.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-m", __name__, str(address)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    try:
        yield command
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def serve(address: str) -> None:
    prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children of the server are nobody's to wait for
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        taught, teaching = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        taught.setblocking(False)
        while True:
            caller, _ = listening.accept()
            learn(taught)
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(caller, teaching)
            caller.close()


class _Everything(set[tuple[object, ...]]):
    """Choices of files that are worth keeping from the first time on: some later child makes the same one."""

    def __contains__(self, choice: object) -> bool:
        return True


def learn(merged: socket.socket) -> None:
    """Take the trees that children have merged. jobc compares them with the file system whenever it uses one."""
    with contextlib.suppress(BlockingIOError):
        while True:
            compose_cache._kept.update(pickle.loads(merged.recv(1 << 20)))


def teach(merged: socket.socket, known: set[tuple[object, ...]]) -> None:
    """In the child: what it has merged that the server had not, of our own files alone."""
    for choice, tree in compose_cache._kept.items():
        folders = cast("tuple[str, ...]", choice[0])
        if choice not in known and all(Path(folder).is_relative_to(PACKAGE) for folder in folders):
            with contextlib.suppress(OSError):  # too long, or no room: the next child merges it again
                merged.send(pickle.dumps({choice: tree}), socket.MSG_DONTWAIT)


def prepare() -> None:
    """Do once what each compile would do: import, read the templates, pack the library, merge files of each backend.

    What plugins there are depends on the caller: it is forgotten.
    """
    for part in ("cli", "estimate", "estimate/rules"):
        for file in sorted((PACKAGE / "compiler" / part).glob("[a-z]*.py")):
            importlib.import_module(f"jobc.compiler.{part.replace('/', '.')}.{file.stem}")
    for folder in PACKAGE.glob("backends/*/templates"):  # a wheel has them compiled; here each child would do it
        environment = templating.template_environment((str(folder), str(PACKAGE / "compiler" / "templates")))
        for name in environment.list_templates():
            environment.get_template(name)
    compose_cache._once = _Everything()
    for folder in PACKAGE.glob("backends/*/conf"):
        with contextlib.suppress(CompileError):  # some need an option that has no default
            compile_job(CompileRequest(("name=x", f"backend={folder.parent.name}", "nodes=2"), None, ()))
    for found in (registry.find_plugins, registry.find_policies, registry.codes_by_name, registry._groups):
        found.cache_clear()
    gc.collect()
    gc.freeze()  # else the first collection of a child copies every page


def answer(caller: socket.socket, teaching: socket.socket) -> None:
    """In the child: run jobc as the caller would have."""
    _, files, _, _ = socket.recv_fds(caller, 1, 3)
    with caller.makefile("rb") as sent:
        folder, environment, arguments = json.load(sent)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["jobc", *arguments]
    known = set(compose_cache._kept)
    try:
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        teach(teaching, known)
        caller.sendall(str(status).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
