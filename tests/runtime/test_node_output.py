"""Lines of jobc among the output of a node's ranks."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest

from jobc.runtime.supervisor.node_output import NodeOutput


class Log:
    """Stand-in for the log."""

    name = "node_00.log"

    def __init__(self) -> None:
        self.text = b""

    def write(self, text: bytes) -> str:
        self.text += text
        return ""


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"", b"jobc: done\n"),
        (b"loss 0.1\n", b"loss 0.1\njobc: done\n"),
        (b"loss 0.1", b"loss 0.1\njobc: done\n"),
        (b"\r50%", b"\r50%\njobc: done\n"),
    ],
)
def test_a_line_of_jobc_begins_a_line(printed: bytes, shown: bytes) -> None:
    log, (read_end, write_end) = Log(), os.pipe()
    output = NodeOutput(cast("Any", log), write_end)
    if printed:
        output.print(printed)
    output.print_jobc_line("done")
    os.close(write_end)
    with os.fdopen(read_end, "rb") as console:
        assert log.text == console.read() == shown
