"""docs/pains.yaml: every pain is made impossible or refused, and what it names exists and holds.

What one would have written by hand has the mistake; what jobc emits, in every golden of that kind, has not. Both are
run as well: `fails` and `holds` here, `fails_in` and `tests` on the test bed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.compiler.plugins.registry import PACKAGE, code_pages

ROOT = PACKAGE
PAINS: dict[int, dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "pains.yaml").read_text(encoding="utf-8"))
KEYS = {"pain", "symptom", "threads", "answer", "because"}
EVIDENCE = {"by_hand", "mistake", "emitted", "instead", "fails", "fails_in", "not_run", "holds", "codes", "tests"}
each_pain = pytest.mark.parametrize("pain", PAINS.values(), ids=map(str, PAINS))


def goldens(pain: dict[str, Any]) -> list[Path]:
    """Return what jobc emits: files of goldens, or a module of jobctl."""
    folder = ROOT if pain["emitted"].startswith("backends/") else ROOT / "tests" / "golden"
    found = sorted(folder.glob(pain["emitted"]))
    return [file for file in found if file.is_file() and not _is_of_a_sweep(file)]


def _is_of_a_sweep(file: Path) -> bool:
    """Return whether the file belongs to a sweep, whose points have their own version of it."""
    overrides = file.parents[1] / "overrides.txt"
    return overrides.is_file() and overrides.read_text().startswith("-m\n")


def test_all_are_there_and_at_most_five_are_out_of_reach() -> None:
    assert list(PAINS) == list(range(1, 52))
    assert sum(pain["answer"] == "out" for pain in PAINS.values()) <= 5


@each_pain
def test_a_pain_has_an_answer_with_evidence(pain: dict[str, Any]) -> None:
    assert KEYS <= set(pain) <= KEYS | EVIDENCE
    assert pain["answer"] in ("construction", "rule", "out")
    assert pain["answer"] != "rule" or pain["codes"]
    assert pain["answer"] != "construction" or ("by_hand" in pain and pain["tests"])
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in pain["threads"])


@each_pain
def test_the_failure_is_run_and_so_is_what_is_there_instead(pain: dict[str, Any]) -> None:
    if pain["answer"] != "out":
        assert ("fails" in pain or "fails_in" in pain) != ("not_run" in pain)
        assert "holds" in pain or pain.get("tests") or pain["answer"] == "rule"  # whose pages are run by test_codes.py


def test_two_need_machines_that_are_not_there() -> None:
    assert [number for number, pain in PAINS.items() if "not_run" in pain] == [25, 38]


@each_pain
def test_its_codes_and_tests_exist(pain: dict[str, Any]) -> None:
    assert set(pain.get("codes", ())) <= set(code_pages())
    for name in (*pain.get("tests", ()), *pain.get("fails_in", ())):
        file, _, test = name.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *def {test}\(", text, re.MULTILINE), name


@each_pain
def test_what_was_written_by_hand_has_the_mistake_and_no_golden_has(pain: dict[str, Any]) -> None:
    if "mistake" not in pain:
        assert "fails" in pain or pain["answer"] == "out"
        return
    assert re.search(pain["mistake"], pain["by_hand"]), "the pattern does not find it"
    files = goldens(pain)
    assert files, pain["emitted"]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(pain["mistake"], text), file
        assert re.search(pain.get("instead", ""), text), file


Demonstrations = dict[str, str]
SHOWN = [(n, part, how) for n, pain in PAINS.items() for part in ("fails", "holds") for how in pain.get(part, ())]


@pytest.fixture(scope="module")
def in_python(tmp_path_factory: pytest.TempPathFactory) -> Demonstrations:
    """Map `NUMBER part` to what went wrong; one process runs all of them."""
    code = {f"{n} {part}": PAINS[n][part][how] for n, part, how in SHOWN if how == "python"}
    command = [sys.executable, str(Path(__file__).parents[1] / "demonstrate.py")]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    folder = tmp_path_factory.mktemp("shown")
    done = subprocess.run(
        command, input=json.dumps(code), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: Demonstrations = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize(("number", "part", "how"), SHOWN, ids=[f"{n}-{part}" for n, part, _ in SHOWN])
def test_it_fails_by_hand_and_holds_as_emitted(
    number: int, part: str, how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if how == "python":
        assert request.getfixturevalue("in_python")[f"{number} {part}"] == ""
        return
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command, environment = ["bash", "-c", PAINS[number][part]["bash"]], {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
