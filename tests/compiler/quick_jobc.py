"""A `jobc` command that starts in 20 ms: a process that has imported everything forks itself for each call.

The child has the caller's files, folder, environment and arguments, and ends with the exit status of `main`. What jobc
does at import it has done already, in the server; tests of starting up use the real command.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children of the server are nobody's to wait for
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(caller)
            caller.close()


def import_all() -> None:
    """What a compile imports: a child finds it out, and leaves no state here. And the templates, ready to be filled."""
    from jobc.compiler.emit import templating
    from jobc.compiler.plugins.registry import PACKAGE

    reading, writing = os.pipe()
    if os.fork() == 0:
        from jobc.compiler.pipeline.compile import compile_job
        from jobc.compiler.pipeline.types import Request

        compile_job(Request(("name=x", "backend=slurm", "nodes=2"), None, ()))
        with open(writing, "w") as out:
            json.dump(sorted(sys.modules), out)
        os._exit(0)
    os.close(writing)
    with open(reading) as answered:
        for name in json.load(answered):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    os.wait()
    for folder in PACKAGE.glob("backends/*/templates"):  # a wheel has them compiled; here each child would do it
        environment = templating.environment((str(folder), str(PACKAGE / "compiler" / "templates")))
        for name in environment.list_templates():
            environment.get_template(name)


def answer(caller: socket.socket) -> None:
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
    from jobc.compiler.cli import main

    try:
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        caller.sendall(str(status).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
