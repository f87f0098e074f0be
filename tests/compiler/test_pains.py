"""docs/pains.yaml: every pain is made impossible or refused, and what it names exists and holds.

What one would have written by hand has the mistake; what jobc emits, in every golden of that kind, has not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.compiler.registry import PACKAGE, code_pages

ROOT = PACKAGE
PAINS: dict[int, dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "pains.yaml").read_text(encoding="utf-8"))
KEYS = {"pain", "symptom", "threads", "answer", "because"}
EVIDENCE = {"by_hand", "mistake", "emitted", "instead", "fails", "codes", "tests"}
each_pain = pytest.mark.parametrize("pain", PAINS.values(), ids=map(str, PAINS))


def goldens(pain: dict[str, Any]) -> list[Path]:
    found = sorted((ROOT / "tests" / "golden").glob(pain["emitted"]))
    return [file for file in found if file.is_file()]


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
def test_its_codes_and_tests_exist(pain: dict[str, Any]) -> None:
    assert set(pain.get("codes", ())) <= set(code_pages())
    for name in pain.get("tests", ()):
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


@pytest.mark.parametrize(
    "pain", [p for p in PAINS.values() if "fails" in p], ids=[str(n) for n, p in PAINS.items() if "fails" in p]
)
def test_it_fails_by_hand(pain: dict[str, Any], tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-c", pain["fails"]]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
