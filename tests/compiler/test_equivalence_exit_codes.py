"""The equivalence check: what a script says by the code that it ends with, wherever it does so."""

from __future__ import annotations

import re

import pytest

from jobc.compiler.backend import VERBS
from jobc.compiler.equivalence.exit_codes import wrong_codes
from jobc.compiler.equivalence.scripts import ON_NODES

from .edited_jobs import files_of

ENDS = re.compile(r"\b(?:die|fail|leave) (\d+) |\bexit ([1-9]\d*)$|\bcode == (\d+)")
NOT_SEEN = ("leave 0 ",)  # done or crashed: only a run of job.sbatch tells


@pytest.mark.parametrize("job", ["ssh", "slurm", "kubernetes", "trainjob", "sky_shared", "local"])
def test_another_code_than_the_one_that_is_meant_is_noticed_wherever_a_script_ends(job: str) -> None:
    ends = 0
    for path, text in files_of(job).items():
        if not path.endswith((".sh", ".sbatch")) or "/" in path:
            continue
        lines, is_program = text.split("\n"), path in (*VERBS, *ON_NODES)
        assert not [*wrong_codes(lines, is_program)]
        for at, line in enumerate(lines):
            found = ENDS.search(line)
            if found and not line.lstrip().startswith("#") and not any(word in line for word in NOT_SEEN):
                number = found.lastindex or 1
                other = line[: found.start(number)] + str(int(found[number]) + 1) + line[found.end(number) :]
                said = [*wrong_codes([*lines[:at], other, *lines[at + 1 :]], is_program)]
                assert [number for number, _ in said] == [at + 1], f"{path}: {other}"
                ends += 1
    assert ends > 8


@pytest.mark.parametrize(
    "line",
    [
        '[[ -f data.tar ]] || die 1 "there is no data.tar"',
        "if ! module load cuda; then exit 1; fi",
        'case ${1:-} in --fast) fast=yes ;; *) die 2 "there is no option $1" ;; esac',
        '[[ -n ${SITE:-} ]] || die 2 "SITE is not set"',
        "code=$?; exit 75",
    ],
)
def test_a_line_that_a_user_adds_is_left_alone(line: str) -> None:
    assert not [*wrong_codes(["set -euo pipefail", line], is_program=True)]
