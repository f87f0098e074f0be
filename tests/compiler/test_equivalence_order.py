"""The equivalence check: a variable of a script is set above the lines that read it."""

from __future__ import annotations

import re

import pytest

from jobc.compiler.equivalence.order import read_too_early
from jobc.compiler.equivalence.scripts import ON_NODES, VERBS, library

from .edited_jobs import files_of


def early(files: dict[str, str], path: str) -> list[str]:
    texts = {
        name: re.sub(r"(?m)^\s*#.*$", "", text) for name, text in files.items() if name.endswith((".sh", ".sbatch"))
    }
    sourced = "\n".join(text for name, text in texts.items() if name not in (*VERBS, *ON_NODES, path))
    return [
        what for _, what in read_too_early(texts[path].split("\n"), "\n".join((library()[2], *texts.values())), sourced)
    ]


@pytest.mark.parametrize(
    "job", ["ssh", "docker", "accelerate", "slurm", "kubernetes", "trainjob", "sky_shared", "local"]
)
def test_no_script_reads_what_it_sets_later(job: str) -> None:
    files = files_of(job)
    for path in files:
        if path.endswith((".sh", ".sbatch")) and "/" not in path:
            assert early(files, path) == [], path


@pytest.mark.parametrize(
    ("job", "path", "sets", "reads", "name"),
    [
        ("ssh", "engine.sh", '  part=$(mktemp "$run/state/.hosts.XXXXXX")', '  head -n 1 -- "$hosts" >"$part"', "part"),
        ("ssh", "engine.sh", '  first=$1/exit/$(last_attempt "$1")/first', "  if [[ -f $first ]]; then", "first"),
        (
            "slurm",
            "submit.sh",
            "copy=$run/artifact/$attempt",
            "printf '  follow: %q --follow\\n  stop:   %q\\n' \"$copy/",
            "copy",
        ),
        ("skypilot", "task.sh", "run=$JOBC_RUN_DIR", 'try "create the folder $run" mkdir -p -- "$run"', "run"),
        (
            "local",
            "clean.sh",
            "  read -r -p 'remove this for good? [y/N] ' answer",
            "  if [[ $answer == [yY]* ]]",
            "answer",
        ),
        ("local", "submit.sh", "head_port=0", "export JOBC_HEAD_PORT=$head_port", "head_port"),
    ],
)
def test_a_line_that_sets_one_after_it_was_read_is_noticed(
    job: str, path: str, sets: str, reads: str, name: str
) -> None:
    files = files_of(job)
    lines = files[path].split("\n")
    at = lines.index(sets)
    below = next(n for n in range(at, len(lines)) if lines[n].startswith(reads))
    moved = "\n".join([*lines[:at], *lines[at + 1 : below + 1], sets, *lines[below + 1 :]])
    assert early({**files, path: moved}, path)[:1] == [f"{name} is read before anything sets it"], moved


@pytest.mark.parametrize(
    "line",
    [
        "echo $day",
        "day=$(date +%a)\necho $day",
        'for day in a b; do echo "$day"; done',
        "read -r day <x\necho ${day:-}",
    ],
)
def test_what_a_user_adds_is_left_alone(line: str) -> None:
    files = {**files_of("local")}
    files["submit.sh"] = files["submit.sh"].replace("\ncheck_start", f"\n{line}\ncheck_start")
    assert early(files, "submit.sh") == []
