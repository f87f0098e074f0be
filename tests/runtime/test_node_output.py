"""Lines of jobc among the output of a node's ranks."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jobc.runtime.supervisor.node_output import NodeOutput


class Sink:
    """Stand-in for the log and for the console."""

    name, has_pending_output = "node_00.log", False

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
    log, console = Sink(), Sink()
    output = NodeOutput(cast("Any", log), cast("Any", console))
    if printed:
        output.print(printed)
    output.say("done")
    assert log.text == console.text == shown
