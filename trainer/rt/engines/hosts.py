"""Run a command on the hosts of a run: with ssh, pdsh, or clush (ClusterShell).

In   settings of the artifact (.jobc/job.json, key hosts): client, ssh_command, fanout; hosts.txt of the run (untrusted)
Out  lines `HOST: line` with what the command prints there; no exit codes: the caller watches the run
Source ssh(1) of OpenSSH 9.2, pdsh(1) 2.34, clush(1) of ClusterShell 1.9
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..untrusted_files import Unreadable, open_regular
from ..verbs.text import one_line
from .run import Run

HOST = "%h"  # in a command: the host's name, as in hosts.txt
MOST_BYTES = 1 << 24  # of a hosts.txt
HOST_S = 120  # timeout of a command on one host, or of a client that runs it on all hosts
# some clients hand a host's name to a shell
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@:-]*[A-Za-z0-9])?")


class Client(NamedTuple):
    """How this machine reaches the hosts. ssh_command: ssh with its options; fanout: simultaneous connections"""

    name: str
    ssh_command: list[str]
    fanout: int

    def run(self, run: Run, words: Sequence[str]) -> None:
        """Run a command on every host of the run, and print what it prints there."""
        file = run.path / f"artifact/{run.attempt}/hosts.txt"
        hosts = read_hosts(file)
        if not hosts:
            return
        if self.name == "pdsh":
            self._pdsh(hosts, words)
        elif self.name == "clush":
            self._clush(file, words)
        else:
            self._ssh(hosts, words)

    def _ssh(self, hosts: Sequence[str], words: Sequence[str]) -> None:
        def on_host(host: str) -> str:
            command = quoted([host if word == HOST else word for word in words])
            output = _output([*self.ssh_command, "--", host, command])
            return "".join(f"{host}: {one_line(line)}\n" for line in output.splitlines())

        with ThreadPoolExecutor(self.fanout) as pool:
            for text in pool.map(on_host, hosts):
                sys.stdout.write(text)
        sys.stdout.flush()

    def _pdsh(self, hosts: Sequence[str], words: Sequence[str]) -> None:
        """pdsh reads the hosts from its input. It replaces %h itself; any other % is doubled."""
        options = ["-S", "-R", "ssh", "-f", str(self.fanout), "-w", "-"]
        environment = {"PDSH_SSH_ARGS_APPEND": " ".join(self.ssh_command[1:])}
        _print(_output(["pdsh", *options, _with_host(words, HOST)], "\n".join([*hosts, ""]), environment))

    def _clush(self, file: Path, words: Sequence[str]) -> None:
        """The worker exec of clush runs a shell command here, and replaces %host in it; any other % is doubled."""
        options = ["-S", "-f", str(self.fanout), "--worker=exec", f"--hostfile={file}"]
        remote = quoted([_with_host(words, "%host")])
        _print(_output(["clush", *options, f"{quoted(self.ssh_command)} -n -- %host {remote}"]))


def client_of(settings: Mapping[str, Any]) -> Client | None:
    """Return the client that an artifact names; None if its nodes run on this machine."""
    hosts = settings.get("hosts")
    if not isinstance(hosts, dict):
        return None
    return Client(str(hosts.get("client")), list(map(str, hosts.get("ssh_command", ()))), int(hosts.get("fanout", 1)))


def read_hosts(file: Path) -> list[str]:
    """Return the hosts in a hosts.txt; [] if a line cannot be a host's name."""
    try:
        with open_regular(file, follow=False) as opened:
            hosts = opened.read(MOST_BYTES).decode(errors="replace").splitlines()
    except (Unreadable, OSError):
        return []
    return hosts if all(map(_NAME.fullmatch, hosts)) else []


def quoted(words: Sequence[str]) -> str:
    """Return the words for a shell on the other side, whichever it is."""
    escape = "'\\''"
    return " ".join(f"'{word.replace(chr(39), escape)}'" for word in words)


def _with_host(words: Sequence[str], placeholder: str) -> str:
    return " ".join(placeholder if word == HOST else quoted([word.replace("%", "%%")]) for word in words)


def _output(words: Sequence[str], text: str = "", environment: Mapping[str, str] | None = None) -> str:
    """Return what a client prints, also to stderr; why it could not be run, otherwise."""
    environ = {**os.environ, **(environment or {})}
    pipe = subprocess.PIPE
    try:
        done = subprocess.run(
            list(words), input=text.encode(), stdout=pipe, stderr=subprocess.STDOUT, timeout=HOST_S, check=False,
            env=environ,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{Path(words[0]).name} has not answered within {HOST_S} s\n"
    except OSError as error:
        return f"cannot run {words[0]}: {error.strerror}\n"
    return done.stdout.decode(errors="replace")


def _print(text: str) -> None:
    for line in text.splitlines():
        print(one_line(line), flush=True)
