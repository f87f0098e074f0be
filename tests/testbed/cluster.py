"""A cluster of real hosts on one machine: a login host, N nodes, a switch, OpenSSH and Slurm.

    with Cluster(folder, Shape(nodes=2)) as cluster:
        cluster.wait_idle()
        cluster.login.run("srun -N 2 hostname", check=True).stdout
        cluster.nodes[1].power_off()

All its processes are children of one process, the rack (rack.sh), which ends with its creator, even after SIGKILL.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from types import TracebackType

from . import settings
from .host import Host
from .install import PATH
from .process import Failed, Seen, only_child, wait_for
from .settings import HERE, Shape


class Cluster:
    """A running cluster; close() ends it.

    folder: must not exist yet; keeps logs and the hosts' own files after the end
    shared: accessible at this path from every host and from outside. root's home, with the keys, is shared/home.
            With Shape(shared=False), each host has its own folder at this path; Host.outside returns where it is
    """

    def __init__(self, folder: Path, shape: Shape | None = None) -> None:
        self.shape = shape or Shape()
        self.folder = folder.resolve()
        self.shared = self.folder / "shared"
        settings.write(self.folder, self.shape)
        self._rack = self._start_rack()
        try:
            self._wait_for_rack()
            rack_pid = only_child(self._rack.pid)
            self.login = Host(self.folder, self.shape, "login", rack_pid)
            self.login.wait_until_up()  # after slurmctld, or each slurmd waits for a retry
            self.nodes = tuple(Host(self.folder, self.shape, name, rack_pid) for name in self.shape.names[1:])
            for node in self.nodes:
                node.wait_until_up()
            self.wait_idle()
        except BaseException:
            self.close()
            raise

    def _start_rack(self) -> subprocess.Popen[bytes]:
        namespaces = ["--pid", "--mount", "--ipc", "--net", "--propagation", "private"]
        with (self.folder / "log" / "rack.log").open("wb") as log:
            return subprocess.Popen(
                ["unshare", "--fork", "--kill-child", *namespaces, "bash", HERE / "rack.sh", self.folder],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env={"PATH": PATH}, cwd="/", start_new_session=True,
            )  # fmt: skip

    def _wait_for_rack(self) -> None:
        ready = self.folder / "ready"
        wait_for(lambda: ready.exists() or self._rack.poll() is not None, "the rack")
        if not ready.exists():
            raise Failed("no rack\n" + (self.folder / "log" / "rack.log").read_text())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the cluster, and with them its mounts and its network. The folder stays."""
        assert self._rack.stdin is not None
        self._rack.stdin.close()
        self._rack.wait()

    @property
    def hosts(self) -> tuple[Host, ...]:
        return (self.login, *self.nodes)

    def processes(self, pattern: str = "") -> dict[str, list[Seen]]:
        """Map each host name to the processes whose command line matches; hosts without one are left out."""
        found = {host.hostname: host.processes(pattern) for host in self.hosts}
        return {name: seen for name, seen in found.items() if seen}

    # ---- Slurm ------------------------------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Map each node name to its state as sinfo prints it: idle, allocated, down*, …"""
        rows = self.login.run("sinfo --noheader --Node --format='%N %T'", check=True).stdout.splitlines()
        return dict(row.split() for row in rows)

    def jobs(self) -> list[str]:
        """Return the IDs of the jobs that have not ended."""
        return self.login.run("squeue --noheader --format=%i", check=True).stdout.split()

    def wait_idle(self, timeout_s: float = 180.0) -> None:
        """Wait until no job is left and every node that is on is idle."""

        def is_idle() -> bool:
            with contextlib.suppress(Failed):  # slurmctld may not respond yet
                states = self.states()
                return not self.jobs() and all(states[node.hostname] == "idle" for node in self.nodes if node.is_on)
            return False

        try:
            wait_for(is_idle, "idle nodes", timeout_s)
        except Failed as failed:
            seen = self.login.run("sinfo --Node --long; squeue")
            raise Failed(f"{failed}\n{seen.stdout}{seen.stderr}") from None

    def mend(self) -> None:
        """Restore the initial state: jobs cancelled, links repaired, every host on and idle."""
        for host in self.hosts:
            if host.is_on:
                host.delay(0)
                host.restore_link()
            else:
                host.power_on()
        if jobs := self.jobs():
            self.login.run(["scancel", *jobs])  # a job may have ended by now
        if self.states() != {node.hostname: "idle" for node in self.nodes}:
            self.login.run(["scontrol", "update", f"nodename=node[1-{len(self.nodes)}]", "state=resume"])
        self.wait_idle()
