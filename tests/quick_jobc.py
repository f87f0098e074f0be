"""A jobc that responds in 50 ms: a process that has imported everything forks itself for each call.

The child has the caller's files, folder, environment and arguments, and exits with the exit code of `main`. The server
has already done what jobc does at import, so tests of start-up use the real command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit import templating
from jobc.compiler.frontend import compose_cache
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plugins import registry
from jobc.compiler.plugins.registry import PACKAGE

TIMEOUT_S = 120  # timeout of a call, which takes at most a second on an idle machine
# A request consists of parts that end with NUL: folder, limits such as AS=1024, number of words, words, environment.
# The command imports only modules written in C, because its imports take most of its time.
CLIENT = r"""#!{python} -IS
import _socket, posix, sys
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([b"3"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
words = [word.encode("utf-8", "surrogateescape") for word in sys.argv[1:]]
variables = [name + b"=" + value for name, value in posix.environ.items()]
parts = [posix.getcwdb(), b"", b"%d" % len(words), *words, *variables]
request = memoryview(b"".join(part + b"\0" for part in parts))
while request:
    request = request[server.send(request) :]
server.shutdown(_socket.SHUT_WR)
sys.exit(int(server.recv(8)) & 0xFF)
"""


class QuickJobc:
    """A running server. folder: contains a command `jobc` for a shell, and the server's socket."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._address = folder, str(folder / "socket")
        command = folder / "jobc"
        command.write_text(CLIENT.format(python=sys.executable, address=self._address))
        command.chmod(0o755)

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], limits: Mapping[str, int] = {}
    ) -> subprocess.CompletedProcess[str]:
        """Return the result that a separate jobc process would have had.

        limits: name without RLIMIT_ -> value
        """
        bounds = " ".join(f"{name}={value}" for name, value in limits.items())
        variables = [f"{name}={value}" for name, value in environment.items()]
        parts = [str(folder), bounds, str(len(words)), *words, *variables]
        with (
            socket.socket(socket.AF_UNIX) as server,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            open(os.devnull, "rb") as nothing,
        ):
            server.settimeout(TIMEOUT_S)
            server.connect(self._address)
            socket.send_fds(server, [b"3"], [nothing.fileno(), out.fileno(), err.fileno()])
            server.sendall(b"".join(os.fsencode(part) + b"\0" for part in parts))
            server.shutdown(socket.SHUT_WR)
            status = int(server.recv(8))
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(["jobc", *words], status, out.read().decode(), err.read().decode())


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[QuickJobc]:
    """Run a server until the context ends."""
    jobc = QuickJobc(folder)
    server = subprocess.Popen([sys.executable, "-m", __name__, str(folder / "socket")], stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    try:
        yield jobc
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def serve(address: str) -> None:
    prepare()
    ended, ending = socket.socketpair()
    for end in (ended, ending):
        end.setblocking(False)
    signal.set_wakeup_fd(ending.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    taught, teaching = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    taught.setblocking(False)
    callers: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening, ended], [], [])
            if ended in ready:
                ended.recv(1 << 10)
                report(callers)
                continue
            caller, _ = listening.accept()
            learn(taught)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(caller, teaching)
            callers[pid] = caller


def report(callers: dict[int, socket.socket]) -> None:
    """Report the exit codes of ended children to their callers."""
    for pid in list(callers):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with callers.pop(pid) as caller, contextlib.suppress(OSError):  # the caller may have been killed
                caller.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def learn(merged: socket.socket) -> None:
    """Store the trees that children have merged. jobc compares them with the file system whenever it uses one."""
    with contextlib.suppress(BlockingIOError):
        while True:
            compose_cache._kept.update(pickle.loads(merged.recv(1 << 20)))


def teach(merged: socket.socket, known: set[tuple[object, ...]]) -> None:
    """In the child, send the trees that it has merged and the server lacks, for our own files only."""
    for choice, tree in compose_cache._kept.items():
        folders = cast("tuple[str, ...]", choice[0])
        if choice not in known and all(Path(folder).is_relative_to(PACKAGE) for folder in folders):
            with contextlib.suppress(OSError):  # too long, or no space: the next child merges it again
                merged.send(pickle.dumps({choice: tree}), socket.MSG_DONTWAIT)


def prepare() -> None:
    """Do once what each compile would do: import, read the templates, pack the library, merge files of each backend.

    The available plugins depend on the caller, so they are forgotten, except for those in folders on everyone's path.
    """
    sys.path.remove(os.getcwd())  # `-m` adds it, but the command jobc does not
    for part in ("cli", "estimate", "estimate/rules"):
        for file in sorted((PACKAGE / "compiler" / part).glob("[a-z]*.py")):
            importlib.import_module(f"jobc.compiler.{part.replace('/', '.')}.{file.stem}")
    for folder in PACKAGE.glob("backends/*/templates"):  # otherwise, each child would read them
        environment = templating.template_environment((str(folder), str(PACKAGE / "compiler" / "templates")))
        for name in environment.list_templates():
            environment.get_template(name)
    for folder in PACKAGE.glob("backends/*/conf"):
        with contextlib.suppress(CompileError):  # some need an option without a default
            compile_job(CompileRequest(("name=x", f"backend={folder.parent.name}", "nodes=2"), None, ()))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["check", "mem=64G"])
    for found in (registry.find_plugins, registry.find_policies, registry.codes_by_name):
        found.cache_clear()
    gc.collect()
    gc.freeze()  # otherwise, a child's first garbage collection would copy every page


def answer(caller: socket.socket, teaching: socket.socket) -> NoReturn:
    """In the child, run jobc as the caller would have."""
    _, files, _, _ = socket.recv_fds(caller, 1, 3)
    with caller.makefile("rb") as sent:
        folder, limits, count, *others = map(os.fsdecode, sent.read().split(b"\0")[:-1])
    words, variables = others[: int(count)], others[int(count) :]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in variables)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.argv = ["jobc", *words]
    known = set(compose_cache._kept)
    for name, value in (limit.split("=") for limit in limits.split()):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (int(value), int(value)))
    status = 1
    try:
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        teach(teaching, known)
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
