"""`jobc plan` for a user's own program: the bundled trainer's defaults do not apply."""

from __future__ import annotations

import json
import re

import pytest

from ..conftest import Plan


def test_the_defaults_of_the_trainer_are_no_facts_of_a_program_of_ones_own(plan: Plan) -> None:
    asked = ("gpus=8", "backend=slurm", "estimate.step_s=1", "estimate.prices.any=2", "--format", "json")
    program = ("--", "train.py")
    status, printed, said = plan(*asked, *program)
    (unsaid,) = json.loads(printed)
    assert status == 0 and said.count("note[JC2130 ") == 1 and said.count("[") == 1, said
    assert {key for key, value in unsaid["schedule"].items() if value is not None} == {"world_size"}
    assert unsaid["step_s"] == 1 and unsaid["total_s"] is unsaid["gpu_hours"] is unsaid["cost"] is None
    (by_words,) = json.loads(plan(*asked, "loop.steps=7200", *program)[1])
    (by_command,) = json.loads(plan(*asked, "loop.steps=7200", "command=[train.py,'${loop.steps}']")[1])
    assert by_words["total_s"] == by_command["total_s"] == 7200 and by_words["cost"] == 32
    assert by_words["schedule"]["global_batch"] is None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("estimate.step_s=1",), "loop.steps=1000"),
        (("estimate.samples=800",), "batch.micro=16"),
        (("estimate.step_s=1", "estimate.samples=800"), "loop.steps=1000 batch.micro=16"),
        (("estimate.step_s=1", "estimate.samples=800", "launcher=accelerate"), "loop.steps=1000"),  # gets the batch
        (("estimate.step_s=1", "task=digits"), "loop.steps=1000 loop.epochs=null"),
        (("estimate.step_s=1", "loop.epochs=3", "loop.steps=null"), ""),
        (("estimate.parameters=7e9", "estimate.write_rate=10GiB", "estimate.mtbf=60d", "estimate.restart=10m"), ""),
    ],
)
def test_what_is_unsaid_of_a_program_of_ones_own_is_noted_when_it_is_needed(
    plan: Plan, words: tuple[str, ...], hint: str
) -> None:
    words = ("gpus=8", "backend=slurm", *words)
    said = plan(*words, "--", "train.py")[2]
    assert re.findall(r"\[(JC\d+) ", said) == ["JC2130"] * bool(hint), said
    assert not hint or f"= hint: {hint}, with" in said
    assert not plan("--strict", *words, *hint.split(), "--", "train.py")[2]
    assert "JC2130" not in plan(*words)[2], "the trainer reads its own defaults"


def test_the_keys_to_add_are_printed_if_only_the_ranks_are_known(plan: Plan) -> None:
    words = ("gpus=8", "backend=slurm")
    status, printed, said = plan(*words, "--", "train.py")
    table, _, facts = printed.partition("jobc knows nothing else")
    assert status == 0 and "ranks" in table and not said, said
    examples = [line.partition(": ")[2].split() for line in facts.splitlines()[1:]]
    assert len(examples) == 3
    for example in examples:
        status, printed, said = plan(*words, *example, "--", "train.py")
        assert status == 0 and "jobc knows nothing else" not in printed and "error" not in said, said
    assert "jobc knows" not in plan(*words, "--format", "csv", "--", "train.py")[1]
