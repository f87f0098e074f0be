"""What the plan makes of keys that stand for one another."""

from __future__ import annotations

import json

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Request


@pytest.mark.parametrize(
    ("words", "seconds"),
    [((), 300), (("rendezvous.timeout=30m",), 1800), (("rendezvous.timeout=30m", "process_group.init_timeout_s=7"), 7)],
)
def test_ranks_wait_as_long_as_nodes_unless_told(words: tuple[str, ...], seconds: int) -> None:
    made = {file.path: file.text for file in compile_job(Request(words)).artifacts}
    assert json.loads(made["train.json"])["process_group"]["init_timeout_s"] == seconds
