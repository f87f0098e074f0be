"""Commands on hosts: which program reaches them, what it prints, and that nothing is left when jobctl ends."""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobc.runtime.engines import hosts
from jobc.runtime.engines.host_copies import run_checksum
from jobc.runtime.engines.host_updates import _unpack_archive
from jobc.runtime.engines.hosts import (
    ClushClient,
    HostClient,
    HostEntry,
    LocalNodesClient,
    PdshClient,
    artifact_client,
)
from jobc.runtime.run_folder.run import Run

from .hosts_bed import Bed

if TYPE_CHECKING:
    from jobc.runtime.engines.hosts import Say


THREE = [HostEntry(node, name) for node, name in enumerate("abc")]


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, *reached: str) -> HostClient:
    Bed(folder, folder / "own", monkeypatch, *reached)
    return HostClient(["ssh", "-o", "x=y"], 2)


def test_each_line_has_the_host_before_it_and_the_worst_exit_code_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    words = ["sh", "-c", "echo \"it's $0\"; printf 'no \\033[31mcolour' >&2; exit 3", hosts.HOST]
    assert client(tmp_path, monkeypatch, "a", "b").run(THREE, words, said.append) == 255
    said.sort()
    assert said[:4] == ["a: it's a", "a: no [31mcolour", "b: it's b", "b: no [31mcolour"]
    assert said[4:] == ["c: ssh: Could not resolve hostname c"]


def test_no_more_hosts_than_fanout_are_reached_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def action(host: HostEntry, say: Say) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1
        return host.node

    many = [HostEntry(node, f"n{node}") for node in range(20)]
    assert client(tmp_path, monkeypatch).call_on_all_hosts(many, action) == 19 and most == 2


def test_what_start_up_files_print_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh, said = client(tmp_path, monkeypatch, "a"), list[str]()
    (tmp_path / "bed/greeting").write_text("Welcome\nto a")
    with ssh.open_process(THREE[0], ["sh", "-c", "echo yes; echo why >&2; exit 4"], said.append) as process:
        assert process.stdout is not None and process.stdout.read() == b"yes\n"
    assert process.returncode == 4 and said == ["why"]
    (tmp_path / "bed/greeting").write_text("")
    with ssh.open_process(THREE[2], ["echo", "yes"]) as process:
        assert process.stdout is not None and process.stdout.read() == b""


def test_a_client_that_is_missing_or_late_is_one_line() -> None:
    said = list[str]()
    assert HostClient(["/nowhere/ssh"], 2).run(THREE[:1], ["true"], said.append) == 127
    late = HostClient(["bash", "-c", "exec sleep 60"], 2)
    assert late.run(THREE[:1], ["true"], said.append, timeout_s=0.05) == 137
    assert said == [
        "a: cannot run /nowhere/ssh: No such file or directory",
        "a: bash did not respond within 0.05 s",
    ]


def test_what_ends_jobctl_ends_the_commands() -> None:
    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, end)
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(KeyboardInterrupt):
        HostClient(["bash", "-c", "exec sleep 60"], 2).run(THREE, ["true"])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert time.monotonic() - began < 10


def record(client: HostClient, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str, str]:
    """Return (words, stdin, pdsh's variable) of the only program that starts for `echo 5% 'x' HOST` on two hosts."""
    found: list[tuple[list[str], str, str]] = []

    def run(
        command: hosts.LocalCommand, say: Say, feed: hosts.Feed | None = None, timeout_s: float | None = None
    ) -> int:
        text = io.BytesIO()
        if feed is not None:
            feed(text)
        found.append(([*command.words], text.getvalue().decode(), command.environ.get("PDSH_SSH_ARGS_APPEND", "")))
        return 0

    monkeypatch.setattr(client._processes, "run", run)
    assert client.run(THREE[:2], ["sh", "-c", "echo 5% 'x'", hosts.HOST]) == 0
    (only,) = found
    return only


def test_pdsh_puts_the_host_in_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    words, text, options = record(PdshClient(["ssh", "-o", "x=y"], 7), monkeypatch)
    assert words[:8] == ["pdsh", "-S", "-R", "ssh", "-f", "7", "-w", "-"] and text == "a\nb\n" and options == "-o x=y"
    assert words[8:] == [r"'sh' '-c' 'echo 5%% '\''x'\''' %h"]


def test_clush_runs_ssh_which_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, text, _ = record(ClushClient(["ssh", "-o", "x=y"], 7), monkeypatch)
    options = ["-S", "-n", "-f", "7", "--worker=exec", "--hostfile=/dev/stdin"]
    assert words[:7] == ["clush", *options] and text == "a\nb\n"
    command = words[7].replace("%host", "a").replace("%%", "%")  # as clush does
    Bed(tmp_path, tmp_path / "own", monkeypatch, "a")
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert said.stdout == "5% x\n"


@pytest.mark.parametrize("line", ["x;touch${IFS}MARK;", "-oProxyCommand=touch${IFS}MARK", "", "%host", "a b"])
def test_no_host_is_asked_when_a_line_is_an_option_or_a_command(tmp_path: Path, line: str) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text(f"node1\nu@10.0.0.2\n{line}\nnode2\n")
    assert hosts.read_hosts(file) == []
    file.write_text("node1\nu@10.0.0.2\nfe80::1\n")
    assert hosts.read_hosts(file) == [(0, "node1"), (1, "u@10.0.0.2"), (2, "fe80::1")]
    (tmp_path / "link").symlink_to(file)
    assert hosts.read_hosts(tmp_path / "link") == [] == hosts.read_hosts(tmp_path / "none")


@pytest.mark.parametrize(
    ("nodes", "gpus", "allowed", "seen"),
    [
        (2, 2, None, ["0,1", "2,3"]),
        (2, 2, "4,5,7,8", ["4,5", "7,8"]),
        (2, 2, "4,5,7", ["4,5", "7"]),
        (2, 1, "GPU-1", ["GPU-1", "-1"]),
        (2, 0, "3", ["3", "3"]),
        (1, 2, "3", ["3"]),
    ],
)
def test_nodes_of_one_machine_have_gpus_of_their_own(
    nodes: int, gpus: int, allowed: str | None, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    said, here = list[str](), artifact_client({"nodes": nodes, "gpus": gpus})
    assert isinstance(here, LocalNodesClient)
    here.fanout = 1
    here.run(THREE[:nodes], ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], said.append)
    assert said == [f"{name}: {text}" for name, text in zip("ab", seen, strict=False)]


def archive(*members: tuple[str, bytes, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname, member.mtime = kind, len(content), "/etc/passwd", 7
            made.addfile(member, io.BytesIO(content))
    file.seek(0)
    return file


def test_a_host_sends_small_files_of_expected_names_or_nothing() -> None:
    good = ("head", tarfile.REGTYPE, b"x")
    assert _unpack_archive(archive(good), {"head"}) == {"head": (b"x", 7)}
    for bad in (
        ("head", tarfile.SYMTYPE, b""),
        ("head", tarfile.LNKTYPE, b""),
        ("head", tarfile.FIFOTYPE, b""),
        ("../head", tarfile.REGTYPE, b"x"),
        ("head", tarfile.REGTYPE, b"x" * (2 << 20)),
    ):
        assert _unpack_archive(archive(good, bad), {"head"}) == {}, bad[:2]
    cut = io.BytesIO(archive(("head", tarfile.REGTYPE, b"x" * 5000)).getvalue()[:2000])
    assert _unpack_archive(cut, {"head"}) == {} == _unpack_archive(io.BytesIO(b"Welcome\n" * 100), {"head"})
    assert _unpack_archive(io.BytesIO(b""), {"head"}) == {}


@pytest.mark.parametrize("content", [b"", b"job=x\ncreated=1\n", bytes(range(256)) * 20])
def test_the_checksum_is_that_of_cksum(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/run").write_bytes(content)
    said = subprocess.run(["cksum"], input=content, capture_output=True, check=True)
    assert run_checksum(Run(tmp_path)) == said.stdout.decode().strip()
