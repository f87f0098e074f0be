"""The records in job.json that a resume compares: identity and spec of the artifact and of the run's last attempt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobc.runtime.engines.run_to_continue import describe_differences
from jobc.runtime.exit_codes import DATA_BROKEN
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.failure import Failure

NOW = {"identity": ['model.kind = "gpt = x"', "seed = 1"], "spec": []}


def differences(folder: Path, before: object, now: object = NOW) -> str:
    for path, tree in (("runs/demo/a/artifact/0", before), ("artifacts/demo/local", now)):
        (folder / path / ".jobc").mkdir(parents=True)
        (folder / path / ".jobc/job.json").write_text(json.dumps(tree))
    return describe_differences(Run(folder / "runs/demo/a"), 0, folder / "artifacts/demo/local", "identity")


def test_equal_records_have_no_differences(tmp_path: Path) -> None:
    assert differences(tmp_path, {**NOW, "spec": ["name = 1"], "plan": 5}) == ""


def test_each_changed_added_and_removed_key_is_a_line(tmp_path: Path) -> None:
    assert differences(tmp_path, {"identity": ["batch = 4", "seed = 0"]}).split("\n") == [
        "  batch: 4 -> (not set)",
        '  model.kind: (not set) -> "gpt = x"',
        "  seed: 0 -> 1",
    ]


def test_control_characters_of_a_forged_record_are_not_printed(tmp_path: Path) -> None:
    assert "\x1b" not in differences(tmp_path, {"identity": ["seed = \x1b[2J"]})


@pytest.mark.parametrize("before", [{}, [], {"identity": None}, {"identity": "seed = 1"}, {"identity": [1]}])
def test_a_run_of_an_earlier_jobc_is_one_message(tmp_path: Path, before: object) -> None:
    with pytest.raises(Failure) as failure:
        differences(tmp_path, before)
    assert failure.value.code == DATA_BROKEN and "was compiled by an earlier jobc" in str(failure.value)
