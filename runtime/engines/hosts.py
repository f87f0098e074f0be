"""Run commands on a run's hosts, with ssh, pdsh or clush (ClusterShell), or on this machine, once for each node.

In:  the artifact's settings `client`, `ssh_command` and `fanout` (.jobc/job.json, key `hosts`); and the run's
     hosts.txt, which is untrusted.
Out: the commands' output as lines `HOST: line`, and their worst exit code.
Source: ssh(1) of OpenSSH 9.2, pdsh(1) 2.34, clush(1) of ClusterShell 1.9.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..run_folder.run import Run
from ..system.text import printable
from ..system.untrusted_files import Unreadable, open_regular

HOST = "%h"  # in a command: the host's name, as in hosts.txt
MOST_BYTES = 1 << 24  # size limit of a hosts.txt
PIECE = 1 << 16  # maximum bytes of a line to read at a time
HOST_S = 120  # timeout of a short command on hosts
BEGINS = "jobc: the output begins"  # printed after the output of a host's start-up files
_AFTER_BEGINS = ("sh", "-c", 'echo "$0" && exec "$@"', BEGINS)
# some clients pass a host's name to a shell
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@:-]*[A-Za-z0-9])?")

if TYPE_CHECKING:
    Say = Callable[[str], None]  # prints one line
    Feed = Callable[[BinaryIO], object]  # writes a command's input


class HostEntry(NamedTuple):
    """One line of hosts.txt. node: its rank"""

    node: int
    name: str


class LocalCommand(NamedTuple):
    """A program on this machine. environ: variables that differ from this program's"""

    words: Sequence[str]
    environ: Mapping[str, str] = {}


class HostClient:
    """Opens an ssh connection for each command and host. Other clients override run() or build_command()."""

    def __init__(self, ssh_command: Sequence[str], fanout: int) -> None:
        """ssh_command: ssh with its options; fanout: simultaneous connections"""
        self.ssh_command, self.fanout = list(ssh_command), fanout
        self._processes = _RunningPrograms()

    def build_command(self, host: HostEntry, words: Sequence[str], options: Sequence[str] = ()) -> LocalCommand:
        return LocalCommand([*self.ssh_command, *options, "--", host.name, quote_for_remote_shell(words)])

    def run(
        self, hosts: Sequence[HostEntry], words: Sequence[str], say: Say | None = None, timeout_s: float | None = None
    ) -> int:
        """Run a command on every host, print its output, and return the worst exit code.

        words: the command, in which HOST is replaced by the host's name.
        say: called with each line of output; by default, prints it to stdout.
        """

        def run_on_one_host(host: HostEntry, say_of: Say) -> int:
            command = self.build_command(host, [host.name if word == HOST else word for word in words])
            return self._processes.run(command, say_of, timeout_s=timeout_s)

        return self.call_on_all_hosts(hosts, run_on_one_host, say)

    def call_on_all_hosts(
        self, hosts: Sequence[HostEntry], action: Callable[[HostEntry, Say], int], say: Say | None = None
    ) -> int:
        """Call the action for every host, several at a time. Print `HOST: line`, and return the worst exit code.

        The commands are terminated before this program ends.
        """
        attempt, lock = self._processes.attempt, threading.Lock()

        def make_line_printer(host: HostEntry) -> Say:
            def print_host_line(line: str) -> None:
                with lock:
                    (say or print_to_stdout)(f"{host.name}: {line}")

            return print_host_line

        def call_unless_ended(host: HostEntry) -> int:
            if self._processes.attempt != attempt:
                return 1
            return action(host, make_line_printer(host))

        with ThreadPoolExecutor(self.fanout) as pool:
            futures = [pool.submit(call_unless_ended, host) for host in hosts]
            try:
                return max((future.result() for future in futures), default=0)
            except BaseException:
                self.end_programs()  # otherwise, the pool would wait for them
                raise

    def run_on(self, host: HostEntry, words: Sequence[str], say: Say, feed: Feed | None = None) -> int:
        """Run a command on one host, and return its exit code. feed: writes the command's input"""
        return self._processes.run(self.build_command(host, words), say, feed)

    def run_here(self, words: Sequence[str], say: Say) -> int:
        return self._processes.run(LocalCommand(words), say)

    @contextlib.contextmanager
    def open_process(
        self, host: HostEntry, words: Sequence[str], say: Say | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a process that runs the command on the host. Output of the host's start-up files is skipped. The
        process is terminated on exit. Raises OSError.

        say: called with each line of its stderr, which is dropped by default.
        """
        command = self.build_command(host, [*_AFTER_BEGINS, *words])
        with tempfile.TemporaryFile() as errors:
            with self._processes.start_program(command, errors=errors) as process:
                assert process.stdout is not None
                _skip_to_begin(process.stdout)
                yield process
            if say is not None:
                errors.seek(0)
                for line in errors:
                    say(_decode_line(line))

    def end_programs(self) -> None:
        self._processes.end_programs()


class PdshClient(HostClient):
    """Client that runs pdsh, which reads the hosts from its input. It replaces %h itself, so any other % is doubled."""

    def run(
        self, hosts: Sequence[HostEntry], words: Sequence[str], say: Say | None = None, timeout_s: float | None = None
    ) -> int:
        if not hosts:
            return 0
        names = "".join(f"{host.name}\n" for host in hosts).encode()
        return self._processes.run(
            self.fan_out_command(words), say or print_to_stdout, lambda file: file.write(names), timeout_s
        )

    def fan_out_command(self, words: Sequence[str]) -> LocalCommand:
        """Return the command that runs the words on every host in its input."""
        options = ["-S", "-R", "ssh", "-f", str(self.fanout), "-w", "-"]  # -S: otherwise, a host's failure is lost
        environ = {"PDSH_SSH_ARGS_APPEND": " ".join(self.ssh_command[1:])}
        return LocalCommand(["pdsh", *options, _remote_command_text(words, HOST)], environ)


class ClushClient(PdshClient):
    """Client that runs clush, which also reads the hosts from its input. With -n, clush does not pass this input on.

    The `exec` worker runs a shell command on this machine and replaces %host in it, so every other % must be doubled.
    """

    def fan_out_command(self, words: Sequence[str]) -> LocalCommand:
        remote = quote_for_remote_shell([_remote_command_text(words, "%host")])
        options = ["-S", "-n", "-f", str(self.fanout), "--worker=exec", "--hostfile=/dev/stdin"]
        return LocalCommand(["clush", *options, f"{quote_for_remote_shell(self.ssh_command)} -n -- %host {remote}"])


class LocalNodesClient(HostClient):
    """Client for nodes on this machine, each of which has its own address and GPUs."""

    def __init__(self, nodes: int, gpus: int) -> None:
        """gpus: number of GPUs per node"""
        super().__init__((), nodes)
        self.nodes, self.gpus = nodes, gpus

    def build_command(self, host: HostEntry, words: Sequence[str], options: Sequence[str] = ()) -> LocalCommand:
        """Return the command, with the variable that selects the node's GPUs from those available to this program."""
        if self.nodes == 1 or not self.gpus:
            return LocalCommand(words)
        first = host.node * self.gpus
        allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        numbers = allowed.split(",") if allowed else list(map(str, range(first + self.gpus)))
        return LocalCommand(words, {"CUDA_VISIBLE_DEVICES": ",".join(numbers[first : first + self.gpus]) or "-1"})


class _RunningPrograms:
    """The programs that a client is running. end_programs() terminates all of them, and increments `attempt`."""

    def __init__(self) -> None:
        self.attempt = 0
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def start_program(
        self, command: LocalCommand, has_input: bool = False, errors: int | IO[bytes] = subprocess.STDOUT
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a program, yield it so that its output can be read, and wait until it ends. Raises OSError."""
        process = subprocess.Popen(
            list(command.words),
            env={**os.environ, **command.environ},
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        with self._lock:
            self._running.add(process)
        try:
            with process:
                try:
                    yield process
                except BaseException:
                    process.terminate()
                    raise
        finally:
            with self._lock:
                self._running.discard(process)

    def run(self, command: LocalCommand, say: Say, feed: Feed | None = None, timeout_s: float | None = None) -> int:
        """Run a program, print its stdout and stderr, and return its exit code as a shell would."""
        try:
            with self.start_program(command, has_input=feed is not None) as process:
                timer = threading.Timer(timeout_s or 0, process.kill)
                timer.daemon = True
                writer = threading.Thread(target=_feed_stdin, args=(process.stdin, feed))
                if timeout_s is not None:
                    timer.start()
                if feed is not None:
                    writer.start()
                assert process.stdout is not None
                for line in _read_lines(process.stdout):
                    say(_decode_line(line))
                code = process.wait()
                if timer.finished.is_set():
                    say(f"{Path(command.words[0]).name} did not respond within {timeout_s:g} s")
                timer.cancel()
                if feed is not None:
                    writer.join()
        except OSError as error:
            say(f"cannot run {command.words[0]}: {error.strerror}")
            return 127
        return code if code >= 0 else 128 - code

    def end_programs(self) -> None:
        self.attempt += 1
        with self._lock:
            for process in self._running:
                process.terminate()


def _read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a pipe's lines. Long lines are split into pieces."""
    return iter(lambda: file.readline(PIECE), b"")


def _feed_stdin(stdin: BinaryIO, feed: Feed) -> None:
    with contextlib.suppress(BrokenPipeError), contextlib.closing(stdin):  # the program may exit first
        feed(stdin)


def _skip_to_begin(output: IO[bytes]) -> None:
    mark = f"{BEGINS}\n".encode()
    next((line for line in _read_lines(output) if line.endswith(mark)), None)


def _decode_line(line: bytes) -> str:
    return printable(line.rstrip(b"\n").decode(errors="replace"))


def print_to_stdout(line: str) -> None:
    print(line, flush=True)


def print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def artifact_client(settings: Mapping[str, Any]) -> HostClient:
    """Return the client that an artifact specifies, or LocalNodesClient if its nodes are on this machine."""
    hosts = settings.get("hosts")
    if not isinstance(hosts, dict):
        return LocalNodesClient(int(settings.get("nodes", 1)), int(settings.get("gpus", 0)))
    kind = {"pdsh": PdshClient, "clush": ClushClient}.get(str(hosts.get("client")), HostClient)
    return kind(list(map(str, hosts.get("ssh_command", ()))), int(hosts.get("fanout", 1)))


def hosts_of(run: Run) -> list[HostEntry]:
    """Return the hosts of a run's newest attempt, or [] if hosts.txt cannot be read."""
    return read_hosts(run.path / f"artifact/{run.attempt}/hosts.txt")


def read_hosts(file: Path) -> list[HostEntry]:
    """Return the hosts in a hosts.txt, or [] if a line is not a valid host name."""
    try:
        with open_regular(file, follow=False) as opened:
            names = opened.read(MOST_BYTES).decode(errors="replace").splitlines()
    except (Unreadable, OSError):
        return []
    return [HostEntry(node, name) for node, name in enumerate(names)] if all(map(_NAME.fullmatch, names)) else []


def quote_for_remote_shell(words: Sequence[str]) -> str:
    """Quote the words for the remote shell, whichever shell it is."""
    escape = "'\\''"
    return " ".join(f"'{word.replace(chr(39), escape)}'" for word in words)


def _remote_command_text(words: Sequence[str], placeholder: str) -> str:
    return " ".join(
        placeholder if word == HOST else quote_for_remote_shell([word.replace("%", "%%")]) for word in words
    )
