"""What the plan makes of keys that stand for one another."""

from __future__ import annotations

import json

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest


@pytest.mark.parametrize(
    ("words", "seconds"),
    [((), 300), (("rendezvous.timeout=30m",), 1800), (("rendezvous.timeout=30m", "process_group.init_timeout_s=7"), 7)],
)
def test_ranks_wait_as_long_as_nodes_unless_told(words: tuple[str, ...], seconds: int) -> None:
    made = {file.path: file.text for file in compile_job(CompileRequest(words)).artifacts}
    assert json.loads(made["train.json"])["process_group"]["init_timeout_s"] == seconds


def test_modules_are_loaded_after_commands_that_prepare_it() -> None:
    words = ("python.modules=[purge, use /apps/a b, swap gcc/12 gcc/13, user/tools]",)
    text = next(
        file.text for file in compile_job(CompileRequest(words, ("train.py",))).artifacts if file.path == "launch.sh"
    )
    lines = [line.strip().partition(" || ")[0] for line in text.split("\n")]
    assert [line for line in lines if line.startswith("module ")] == [
        "module purge", "module use /apps/a b", "module swap gcc/12 gcc/13", "module load user/tools",
    ]  # fmt: skip
