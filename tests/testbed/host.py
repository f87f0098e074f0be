"""One host of a cluster: run commands on it, pull its cable, cut its power."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .install import PATH
from .process import TIMEOUT_S, Failed, Process, Seen, entering, in_namespace, only_child, wait_for
from .settings import HERE, PRIVATE, USER, Shape, home_of, visible

NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")

Command = str | Sequence[str | Path]  # text is run by bash


class Host:
    """A host that is powered on. hostname, address: as used by the other hosts. Created by Cluster."""

    def __init__(self, folder: Path, shape: Shape, hostname: str, rack_pid: int) -> None:
        self.hostname = hostname
        self.address = shape.address(hostname)
        self.gpus = shape.gpus_per_node if hostname != "login" else 0
        self.is_on = False
        self._folder = folder
        self._shape = shape
        self._rack_pid = rack_pid
        self._relay: subprocess.Popen[bytes] | None = None
        self._boot()

    def __repr__(self) -> str:
        return f"Host({self.hostname})"

    @property
    def entry(self) -> list[str]:
        """Return the words to put before a command to run it here, for programs that start a command themselves."""
        return [str(word) for word in entering(self._pid, *NAMESPACES)]

    # ---- commands ---------------------------------------------------------------------------------------------------

    def popen(
        self,
        command: Command,
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> Process:
        """Start a command as a user at this host's console, without the test's environment, but with the variables in
        `env`.

        cwd: default: home; options: as for subprocess.Popen, but stdin is empty by default
        The command leads its own session, so that a `kill 0` on the host does not reach this test.
        """
        assert self.is_on, f"{self.hostname} is off"
        words = ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        place = str(cwd or home_of(self._folder, user))
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        enter = [*entering(self._pid, *NAMESPACES), "setsid", "env", f"--chdir={place}", *become, *words]
        options = {"stdin": subprocess.DEVNULL, **options}
        return Process(enter, env={**self._environment(user), **(env or {})}, text=True, **options)

    def run(
        self, command: Command, *, check: bool = False, timeout_s: float = TIMEOUT_S, stdin: str = "", **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command like popen(), and wait for it. Its output is returned as text, with stdout and stderr separate.

        check: raise Failed, with the output, if the exit code is not 0
        """
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
        with self.popen(command, **{**pipes, **options}) as process:
            try:
                output, error = process.communicate(stdin, timeout=timeout_s)
            except BaseException:
                process.kill_all()
                raise
        if check and process.returncode != 0:
            raise Failed(f"{self.hostname}: {command} ended with {process.returncode}\n{output or ''}{error or ''}")
        return subprocess.CompletedProcess(process.args, process.returncode, output, error)

    @property
    def home(self) -> Path:
        """Return root's home on this host; see Cluster.shared."""
        return home_of(self._folder)

    @property
    def home_of_user(self) -> Path:
        """Return the home of USER, who is not root."""
        return home_of(self._folder, USER)

    @property
    def environment(self) -> dict[str, str]:
        return self._environment("root")

    def _environment(self, user: str) -> dict[str, str]:
        names = {"HOME": str(home_of(self._folder, user)), "USER": user, "LOGNAME": user, "SHELL": "/bin/bash"}
        return {**names, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb"}

    def outside(self, path: str | Path) -> Path:
        """Return where this test finds a host's file from /tmp, /var/spool, or a `shared` that is not shared."""
        path, mine, shared = Path(path), self._folder / "hosts" / self.hostname, self._folder / "shared"
        if not self._shape.shared and path.is_relative_to(shared):
            return mine / "shared" / path.relative_to(shared)
        if any(path.is_relative_to(place) for place in visible(self._folder, self._shape)):
            return path
        for place, kept in PRIVATE.items():
            if path.is_relative_to(place):
                assert kept, f"{place} of a host is not to be seen from outside"
                return mine / kept / path.relative_to(place)
        return path

    def processes(self, pattern: str = "") -> list[Seen]:
        """Return the processes here, including daemons, whose command line matches the pattern."""
        if not self.is_on:
            return []
        return [seen for seen in in_namespace(self._pid) if re.search(pattern, seen.command)]

    # ---- cable ------------------------------------------------------------------------------------------------------

    def cut_link(self) -> None:
        """Pull the cable: no packet arrives or leaves, and no program is notified. Packets in transit are lost."""
        self._in_rack("ip", "link", "set", self._port, "down")

    def restore_link(self) -> None:
        self._in_rack("ip", "link", "set", self._port, "up")

    def delay(self, ms: float, loss: float = 0.0) -> None:
        """Delay each packet to or from this host by ms (a round trip: twice that), and drop the fraction `loss`.

        delay(0) ends both. Done in user space (link.py), because many kernels lack tc's netem.
        """
        self._remove_relay()
        if ms == 0 and loss == 0:
            return
        far, near = f"far-{self.hostname}", f"near-{self.hostname}"
        self._in_rack("ip", "link", "add", far, "type", "veth", "peer", "name", near)
        self._in_rack("ip", "link", "set", self._port, "nomaster")
        self._in_rack("ip", "link", "set", near, "up")
        self._in_rack("ip", "link", "set", far, "master", "switch", "up")
        words = [sys.executable, "-I", "-S", HERE / "link.py", self._port, near, ms / 1000, loss]
        command = [*entering(self._rack_pid, "--net", "--pid"), *map(str, words)]
        self._relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._relay.stdout is not None and self._relay.stdout.readline() == b"ready\n"

    def _remove_relay(self) -> None:
        if self._relay is None:
            return
        with self._relay:  # ends when its stdin is closed
            self._relay = None
        self._in_rack("ip", "link", "del", f"far-{self.hostname}")
        if self.is_on:
            self._in_rack("ip", "link", "set", self._port, "master", "switch")

    # ---- power ------------------------------------------------------------------------------------------------------

    def power_off(self) -> None:
        """Cut the power: first the link, so that no packet reports the loss, then every process."""
        assert self.is_on, f"{self.hostname} is off"
        self.cut_link()
        os.kill(self._pid, signal.SIGKILL)
        self._boot_process.wait()
        self.is_on = False
        self._remove_relay()
        self._in_rack("ip", "link", "del", self._port, check=False)  # the kernel does this too, a little later

    def power_on(self) -> None:
        """Boot with a working link and the previous /tmp, /var/spool and `shared`. Return when its daemons are up."""
        assert not self.is_on, f"{self.hostname} is on"
        self._boot()
        self.wait_until_up()

    def _boot(self) -> None:
        self._ready.unlink(missing_ok=True)
        unshare = ["unshare", "--fork", "--kill-child", *NAMESPACES, "--propagation", "private"]
        script = ["setsid", "bash", HERE / "host.sh", self._folder, self.hostname, str(self.gpus)]
        with (self._folder / "log" / f"{self.hostname}.boot.log").open("ab") as log:
            self._boot_process = subprocess.Popen(
                [*entering(self._rack_pid, "--mount", "--ipc", "--net", "--pid"), *map(str, [*unshare, *script])],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env=self.environment, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        try:
            self._pid = only_child(only_child(self._boot_process.pid))
            self._plug_in()
        except (Failed, OSError, subprocess.CalledProcessError) as error:
            raise self._no_boot() from error
        self.is_on = True

    def _plug_in(self) -> None:
        """Connect the switch to eth0, and let the boot continue."""
        cable = ["type", "veth", "peer", "name", "eth0", "netns", str(self._pid)]
        self._in_rack("ip", "link", "add", self._port, *cable)
        self._in_rack("ip", "link", "set", self._port, "master", "switch", "up")
        lines = f"link set lo up\naddress add {self.address}/24 dev eth0\nlink set eth0 up\n"
        enter = [*entering(self._pid, "--net"), "ip", "-batch", "-"]
        subprocess.run(enter, input=lines, text=True, check=True)
        assert self._boot_process.stdin is not None
        with self._boot_process.stdin as stdin:
            stdin.write(b"eth0 is there\n")

    def wait_until_up(self) -> None:
        """Wait until sshd and the host's Slurm daemon are running."""
        wait_for(lambda: self.is_up or self._boot_process.poll() is not None, f"{self.hostname} to boot")
        if not self.is_up:
            raise self._no_boot()

    @property
    def is_up(self) -> bool:
        """Return whether the host is on with all folders and daemons. Earlier, a program may start there and not find
        its file.
        """
        return self.is_on and self._ready.exists()

    @property
    def _ready(self) -> Path:
        return self._folder / "log" / f"{self.hostname}.ready"

    def _no_boot(self) -> Failed:
        log = self._folder / "log" / f"{self.hostname}.boot.log"
        return Failed(f"{self.hostname} did not boot\n{log.read_text(errors='replace')}")

    @property
    def _port(self) -> str:
        return f"port-{self.hostname}"

    def _in_rack(self, *words: str, check: bool = True) -> None:
        command = [*entering(self._rack_pid, "--net"), *words]
        result = subprocess.run(command, check=False, env=self.environment, capture_output=True, text=True)
        if check and result.returncode != 0:
            raise Failed(f"{words}: {result.stderr}")
