"""What engines' clients print: streamed, merged line by line, and with the node's number as prefix."""

from __future__ import annotations

import sys

import pytest

from jobc.backends.kubernetes.engine.line_merger import LineMerger
from jobc.backends.kubernetes.engine.storage_reading import _shorten_prefix
from jobc.backends.skypilot.engine.parse_output import strip_colors_from_bytes
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.streams import print_client_output

CapBytes = pytest.CaptureFixture[bytes]


def test_what_a_client_prints_is_streamed_and_its_exit_code_returned(capfdbinary: CapBytes) -> None:
    code = [sys.executable, "-c", r"import sys; sys.stdout.write('a\nb\n' + 'c' * 70000); sys.exit(7)"]
    assert print_client_output(code) == 7 and capfdbinary.readouterr().out == b"a\nb\n" + b"c" * 70_000
    assert print_client_output(code, change=lambda line: None if line == b"a\n" else b"> " + line) == 7
    assert capfdbinary.readouterr().out == b"> b\n> " + b"c" * 70_000
    assert print_client_output(["sh", "-c", "printf 'a\nb\nc'; echo no >&2"], tail=2, errors="dropped") == 0
    assert capfdbinary.readouterr() == (b"b\nc", b"")
    with pytest.raises(Failure, match="cannot run no-such-client"):
        print_client_output(["no-such-client"])


def test_the_lines_of_several_clients_are_not_mixed(capfdbinary: CapBytes) -> None:
    with LineMerger() as merger:
        for node in range(3):
            merger.start_client(["sh", "-c", "echo one; printf two"], lambda line, node=node: b"%d: " % node + line)
        merger.wait_for_clients()
    lines = sorted(capfdbinary.readouterr().out.decode().splitlines())
    assert lines == [f"{node}: {word}" for node in range(3) for word in ("one", "two")]


def test_the_prefix_of_a_pod_becomes_the_number_of_its_node() -> None:
    assert _shorten_prefix(b"[pod/job-1a2b-10-x7/node] [pod/a-1-b/node] x\n") == b"10: [pod/a-1-b/node] x\n"
    assert _shorten_prefix(b"x [pod/a-1-b/node] \n") == b"x [pod/a-1-b/node] \n"


def test_lines_of_skypilot_are_those_of_the_node() -> None:
    line = b"\x1b[36m(worker1, rank=1, pid=7, ip=10.0.0.2) \x1b[0mup \xff (a, pid=2) \n"
    assert strip_colors_from_bytes(None, line) == b"1: up \xff (a, pid=2) \n" == strip_colors_from_bytes("1: ", line)
    assert (
        strip_colors_from_bytes("0: ", line) is None
        and strip_colors_from_bytes("0: ", b"(task, pid=2) x\n") == b"0: x\n"
    )
