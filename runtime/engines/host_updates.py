"""Copy a run's state, last steps and logs from its hosts to the local folder (storage.run=node).

In:  untrusted data from the hosts: archives of small files, and new parts of logs.
Out: the local run folder, as if all nodes wrote to it, with times converted to this machine's clock.
"""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, NamedTuple

from ..exit_codes import CRASHED
from ..run_folder.run import NodeState, Run
from ..run_folder.run_folder import replace_file
from ..system.values import read_keys
from . import host_commands
from .host_copies import HostCopies, was_sent_from_here
from .hosts import HostClient, HostEntry, hosts_of
from .log_files import regular_file_size

if TYPE_CHECKING:
    from .hosts import Say

MOST_BYTES = 1 << 20  # size limit of an archive with three small files
BLOCK = 1 << 16
LOOK_S = 0.3  # pause between checks of whether node 0 has reported its rendezvous endpoint
ALL_NODES = "node_*.log"  # represents all nodes' logs
_LOG = re.compile(r"(node|rank)_([0-9]{1,9})[.]log")


class HostStateCopier:
    """Copies a run's state and logs from its hosts. nodes: number of the job's nodes; procs: ranks per node"""

    def __init__(self, client: HostClient, run: Run, nodes: int, procs: int) -> None:
        self.client, self.run, self.nodes, self.procs = client, Run(run.path), nodes, procs
        self.hosts = hosts_of(self.run) if was_sent_from_here(run) else []
        self.attempt = self.run.attempt

    # ---- states

    def copy_liveness(self) -> None:
        """Copy the states that show whether the run is live. The other nodes' states are copied only if node 0 has
        ended or does not respond. Once all nodes have ended, their states are copied again, because nodes record more
        while they wait for each other.
        """
        if not self.hosts or self._all_have_ended():
            return
        self._copy_states(self.hosts[:1])
        if self._is_node_0_live():
            return
        self._copy_states(self.hosts[1:])
        # a node that lingers has ended, but waits to learn how the others ended
        if self._all_have_ended() and any(node.keys.get("lingers") == "yes" for node in self._read_nodes()):
            time.sleep(1)
            self._copy_states(self.hosts)

    def copy_states_and_metrics(self) -> None:
        """Copy all nodes' states, and the metrics of each node's first rank."""
        self._copy_states(self.hosts)
        self._call_for_hosts(
            self.hosts, lambda host: self._copy_appended(host, f"metrics/rank_{host.node * self.procs:02}.jsonl")
        )

    def has_reported_rendezvous(self) -> bool:
        """Return whether this attempt's node 0 has reported its rendezvous endpoint."""
        wanted = str(self.attempt)
        return all(read_keys(self.run.path / "state" / name).get("attempt") == wanted for name in ("head", "link"))

    def copy_rendezvous(self) -> bool:
        """Copy node 0's rendezvous endpoint, and return whether it is known."""
        words = ["sh", "-c", host_commands.MEETING, str(self.run.path), str(self.attempt)]
        found = self._request_files(self.hosts[0], words, ("head", "link"))
        for name, file in found.items():
            replace_file(self.run.path / "state" / name, file.content, file.changed)
        return self.has_reported_rendezvous()

    def run_after_rendezvous(self, words: Sequence[str], say: Say) -> int:
        """Run a command on node 0, and on the other hosts once node 0 has reported its rendezvous endpoint. Return the
        worst exit code.
        """
        client, others = self.client, self.hosts[1:]
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.run, self.hosts[:1], words, say)
            try:
                has_ended = False
                while not (self.has_reported_rendezvous() or self.copy_rendezvous()):
                    if has_ended:
                        return first.result() or CRASHED
                    has_ended = first.done()
                    time.sleep(LOOK_S)
                code = HostCopies(client, self.run).send_paths(["state/head", "state/link"], others)
                code = code or client.run(others, words, say)
                return first.result() or code
            except BaseException:
                client.end_programs()
                raise

    def _copy_states(self, hosts: Sequence[HostEntry]) -> None:
        self._call_for_hosts(hosts, self._copy_state)

    def _copy_state(self, host: HostEntry) -> None:
        name = f"node_{host.node:02}"
        state, ends = f"state/{name}", [f"exit/{self.attempt}/{name}", f"exit/{self.attempt}/first"]
        keys = read_keys(self.run.path / state)
        if keys.get("ended") and not keys.get("lingers") and os.path.lexists(self.run.path / ends[0]):
            return
        words = ["sh", "-c", host_commands.STATE, str(self.run.path), name, str(self.attempt)]
        found = self._request_files(host, words, ("state/.now", state, *ends))
        if state not in found or "state/.now" not in found:
            return
        for end in ends:
            if end in found:
                replace_file(self.run.path / end, found[end].content, found[end].changed)
        age_s = found["state/.now"].changed - found[state].changed  # on the host's clock
        replace_file(self.run.path / state, found[state].content, time.time() - age_s)

    def _request_files(self, host: HostEntry, words: Sequence[str], names: Collection[str]) -> dict[str, _HostFile]:
        with self.client.open_process(host, words) as process:
            assert process.stdout is not None
            return _unpack_archive(process.stdout, names)

    def _read_nodes(self) -> list[NodeState]:
        """Return the states of nodes that have started in this attempt; any other state is from an earlier attempt."""
        return [node for node in Run(self.run.path).nodes() if node.attempt == self.attempt]

    def _all_have_ended(self) -> bool:
        return {node.number for node in self._read_nodes() if node.ended is not None} >= set(range(self.nodes))

    def _is_node_0_live(self) -> bool:
        nodes = [node for node in self._read_nodes() if node.number == 0]
        return any(self.run.status_of(node) in ("up", "elsewhere") for node in nodes)

    # ---- logs

    def copy_logs(self, name: str) -> None:
        """Copy a log's new lines. With ALL_NODES, copy the new lines of all node logs, and their times."""
        match = _LOG.fullmatch(name)
        if name == ALL_NODES:
            self._call_for_hosts(self.hosts, self._copy_console)
        elif match:
            node = int(match.group(2)) // (self.procs if match.group(1) == "rank" else 1)
            self._call_for_hosts(self.hosts[node : node + 1], lambda host: self._copy_appended(host, f"logs/{name}"))

    def copy_smoke_logs(self, has_one_gpu: bool) -> None:
        """Copy all logs of a smoke test, which has its own number of ranks (node_settings.py)."""
        self.procs = 1 if self.nodes > 1 and has_one_gpu else 2
        names = [f"node_{node:02}.log" for node in range(self.nodes)]
        for name in (*names, *(f"rank_{rank:02}.log" for rank in range(self.nodes * self.procs))):
            self.copy_logs(name)

    def _copy_console(self, host: HostEntry) -> None:
        self._copy_appended(host, f"logs/node_{host.node:02}.log")
        self._copy_appended(host, f"logs/.node_{host.node:02}.times")

    def _copy_appended(self, host: HostEntry, name: str) -> None:
        """Copy what has been appended to a file since the last call. Concurrent callers write the same bytes."""
        path = self.run.path / name
        size = regular_file_size(path) or 0
        words = ["sh", "-c", host_commands.REST_OF_FILE, str(self.run.path), name, str(size + 1)]
        with self.client.open_process(host, words) as process:
            assert process.stdout is not None
            block = process.stdout.read(BLOCK)
            if block:
                path.parent.mkdir(exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                with open(os.open(path, flags, 0o666), "wb") as file:
                    file.seek(size)
                    while block:
                        file.write(block)
                        block = process.stdout.read(BLOCK)

    def _call_for_hosts(self, hosts: Sequence[HostEntry], action: Callable[[HostEntry], None]) -> None:
        """Call the action for each host. Hosts that do not respond, or whose response cannot be stored, are skipped."""

        def run_quietly(host: HostEntry, _: object) -> int:
            with contextlib.suppress(OSError, OverflowError, ValueError):  # the last two: invalid digits in a time
                action(host)
            return 0

        self.client.call_on_all_hosts(hosts, run_quietly)


class _HostFile(NamedTuple):
    """A small file from a host. changed: its modification time, in seconds since the epoch"""

    content: bytes
    changed: float


class _BoundedStream:
    """The first bytes of a stream, as a file for tarfile."""

    def __init__(self, stream: IO[bytes], max_bytes: int) -> None:
        self._stream, self._left = stream, max_bytes

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


def _unpack_archive(stream: IO[bytes], names: Collection[str]) -> dict[str, _HostFile]:
    """Return a tar archive's files by name, or {} if it contains anything other than files with these names.

    A host could send a link, which would make this machine read or write elsewhere.
    """
    files = {}
    try:
        with tarfile.open(fileobj=_BoundedStream(stream, MOST_BYTES), mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                opened = archive.extractfile(member) if member.isreg() and member.name in names else None
                if opened is None:
                    return {}
                files[member.name] = _HostFile(opened.read(), member.mtime)
    except (tarfile.TarError, OSError, EOFError, ValueError):
        return {}
    return files
