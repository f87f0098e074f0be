"""An authentic jobctl beside a forged .jobc/job.json: one diagnostic, without control characters or files elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.run_folder.artifact_copies import JOB_FILE
from jobc.runtime.system.failure import Failure

from .users import SharedJob

PROGRAM = "print('trained')\n"
INVALID: list[dict[str, Any]] = [
    {"job": ""}, {"job": ".."}, {"job": "../../elsewhere"}, {"job": 5}, {"job": "a\x1b[2J"}, {"job": "a\x9b2J"},
    {"job": "a\u202eb"}, {"runs": "a\x1b[2J"}, {"runs": "a\x9b2J"}, {"runs": ["x"]},
    {"nodes": -1}, {"nodes": 0}, {"nodes": 10**40}, {"nodes": "x"}, {"nodes": True}, {"gpus": "x"}, {"grace_s": "x"},
    {"hosts": 5}, {"hosts": {"ssh_command": 5}}, {"hosts": {"ssh_command": [5]}}, {"hosts": {"fanout": "x"}},
    {"hosts": {"fanout": 0}}, {"kinds": 5}, {"companions": "x"}, {"saved_secrets": 5},
]  # fmt: skip
NOT_PACKED: list[dict[str, Any]] = [{"sweep": True}, {"nodes": 2}]


def forge(artifact: Path, changes: dict[str, Any]) -> None:
    file = artifact / JOB_FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("changes", INVALID, ids=str)
def test_a_forged_setting_is_refused(
    compiled: Path, tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(compiled / "artifacts/demo/local/.jobc", tmp_path / "moved/.jobc")
    forge(tmp_path / "moved", changes)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Failure, match=r"does not describe a job|has a control character") as refused:
        Place(tmp_path / "moved")
    assert refused.value.title.isprintable()


def test_a_missing_or_damaged_job_file_has_a_hint_that_works(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="is missing") as refused:
        Place(tmp_path)
    assert refused.value.hint == "move the folder elsewhere and compile the job again"  # --force replaces no folder
    (tmp_path / ".jobc").mkdir()
    (tmp_path / JOB_FILE).write_text("{}")
    with pytest.raises(Failure, match="does not describe a job") as refused:
        Place(tmp_path)
    assert refused.value.hint == "compile the job again with --force"


@pytest.mark.parametrize("changes", [*NOT_PACKED, INVALID[2], INVALID[5]], ids=str)
def test_each_verb_refuses_a_forged_setting_in_one_line(shared_job: SharedJob, changes: dict[str, Any]) -> None:
    moved = shared_job.folder / "moved"
    shutil.copytree(shared_job.artifact, moved)
    forge(moved, changes)
    for words in (["status"], ["clean", "--keep", "0"], ["submit"]):
        done = shared_job.call(str(moved / "jobctl"), *words)
        errors = [line for line in done.output.splitlines() if line.startswith("error: ")]
        assert done.code in (1, 2) and len(errors) == 1 and "Traceback" not in done.output, done.output
        assert done.output.replace("\n", "").isprintable()
    assert shared_job.names() == []
    assert not (shared_job.folder / "elsewhere").exists()
