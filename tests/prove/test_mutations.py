"""The mutation campaign: what its operators change in a line, and that each of its detectors can detect a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.prove import mutated_goldens, mutations
from jobc.prove.__main__ import main
from jobc.prove.execution import executed
from jobc.prove.reach import Reach
from jobc.prove.results import read
from jobc.prove.sameness import open_quote

LINES = ["# a 1", "#SBATCH --nodes=2", 'run=$run "$rank" 7', "  --wait=0", "key: 3"]


@pytest.mark.parametrize(
    ("operator", "made"),
    [
        ("drop_flag", ["# a 1", 'run=$run "$rank" 7', "  --wait=0", "key: 3"]),
        ("swap_scope", ["# a 1", "#SBATCH --nodes=2", 'run=$run "$payload" 7', "  --wait=0", "key: 3"]),
        ("change_number", ["# a 1", "#SBATCH --nodes=3", 'run=$run "$rank" 7', "  --wait=0", "key: 3"]),
        ("unquote", ["# a 1", "#SBATCH --nodes=2", "run=$run $rank 7", "  --wait=0", "key: 3"]),
        ("reorder", ["# a 1", 'run=$run "$rank" 7', "#SBATCH --nodes=2", "  --wait=0", "key: 3"]),
        ("rename", ["# a 1", "#SBATCH --nodes=2", 'runx=$run "$rank" 7', "  --wait=0", "key: 3"]),
    ],
)
def test_an_operator_changes_one_place_and_no_comment(operator: str, made: list[str]) -> None:
    assert next(mutations.OPERATORS[operator](LINES)) == made
    assert all("# a 1" in lines for lines in mutations.OPERATORS[operator](LINES))


@pytest.mark.parametrize(
    ("case", "path", "before", "after", "witness"),
    [
        ("ssh/two_hosts", "launch.sh", "failed() {", "failed() (", "bash"),
        ("local/two_processes", "launch.sh", "--nnodes=1", "--nnodes=2", ""),  # execution notices it
        ("ssh/two_hosts", "launch.sh", 'cd -- "$here"', "cd -- $here", "shellcheck"),
        ("ssh/two_hosts", "launch.sh", "# ---- the ranks", "# ---- some ranks", ""),
        ("ssh/two_hosts", "hosts.txt", "node2", "node3", ""),
        ("slurm/one_task_per_rank", "job.sbatch", '"$artifact/jobctl"', "$artifact/jobctl", "shellcheck"),
        ("kubernetes/two_nodes", "job.yaml", "completions:", "completionz:", "schema"),
        ("skypilot/setup_and_secret", "task.sky.yaml", "num_nodes:", "num_nodez:", "schema"),
    ],
)
def test_each_witness_speaks(case: str, path: str, before: str, after: str, witness: str, tmp_path: Path) -> None:
    files = mutations.files_of(mutations.GOLDEN / case)
    changed = {**files, path: files[path].replace(before, after)}
    assert changed != files
    assert mutations.noticed_by(changed, path, tmp_path) == witness


@pytest.mark.parametrize(
    ("case", "path", "before", "after", "rule"),
    [
        ("local/two_processes", "launch.sh", "'s/^project=//p'", "s/^project=//p", "same words"),
        ("local/spawn_launcher", "launch.sh", "# jobctl itself starts", "# jobctl starts", "same statements"),
        ("local/two_processes", "launch.sh", "'$JOBC_HEAD_ADDR'", "$JOBC_HEAD_ADDR", ""),
        ("slurm/one_task_per_rank", "job.sbatch", "#SBATCH --nodes=", "#SBATCH --nodes=1", ""),
    ],
)
def test_what_means_the_same_is_said_by_rule(case: str, path: str, before: str, after: str, rule: str) -> None:
    files = mutations.files_of(mutations.GOLDEN / case)
    assert before in files[path]
    lines = files[path].replace(before, after, 1).split("\n")
    assert mutations.same_meaning(path, files[path].split("\n"), lines) == rule


@pytest.mark.parametrize(
    ("case", "path", "first", "rule"),
    [
        ("local/two_processes", "launch.sh", "  --nnodes=", "same order"),  # options of one command
        ("slurm/one_task_per_rank", "job.sbatch", "  --ntasks=", "same order"),
        ("ssh/two_hosts", "launch.sh", "export PYTHONUNBUFFERED=", "same order"),  # values
        ("ssh/two_hosts", "launch.sh", "variables=", ""),
    ],
)
def test_an_order_that_means_nothing_is_said_by_rule(case: str, path: str, first: str, rule: str) -> None:
    lines = mutations.files_of(mutations.GOLDEN / case)[path].split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith(first))
    other = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
    assert mutations.same_meaning(path, lines, other) == rule


@pytest.mark.parametrize(
    ("before", "after", "test"),
    [
        ("--help)", "--halp)", "test_every_verb_has_help_and_refuses_unknown_options"),
        ("then sed", "then  sed", ""),
    ],
)
def test_a_test_that_runs_the_line_notices_what_is_wrong_with_it(before: str, after: str, test: str) -> None:
    case = mutations.GOLDEN / "local/two_processes"
    lines = mutations.files_of(case)["launch.sh"].split("\n")
    at = next(n for n, line in enumerate(lines) if before in line)
    wrong = [*lines[:at], lines[at].replace(before, after), *lines[at + 1 :]]
    name = "tests/runtime/test_runs.py::test_every_verb_has_help_and_refuses_unknown_options[launch.sh]"
    known = Reach(name, 1.0, {f"launch.sh:{line.strip()}": 1 for line in lines})
    assert executed(case, "launch.sh", lines, wrong, lambda: [known]).rpartition("::")[2].partition("[")[0] == test


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("x='a'", ""), ("x='a", "'"), ('x="a', '"'), ('x="it\'s"', ""), ("x=it\\'s", ""), ("# it's", ""),
        ("x=a # it's", ""),
        ("x=${#a[@]} y='", "'"), ("awk '\n  { print \"x\" }", "'"), ("awk '\n  { print \"x\" }'", ""), ('x="a\\"', '"'),
    ],
)  # fmt: skip
def test_which_quote_is_open_behind_some_lines(text: str, quote: str) -> None:
    assert open_quote(text.split("\n")) == quote


def test_each_golden_is_mutated_without_a_start_and_each_survivor_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["mutated_goldens", "--count", "1", "--into", str(tmp_path)])
    (line,) = read(tmp_path / "mutated_goldens.jsonl")
    judged = [line[f"{part}_noticed_by"] for part in mutations.PARTS]
    assert line["ok"] and sum(sum(by.values()) for by in judged) >= 5 and not any("execution" in by for by in judged)
    assert mutated_goldens.CAMPAIGN.count == len(mutations.cases()) > 90
    capsys.readouterr()
    main(["mutated_goldens", "--count", "0", "--into", str(tmp_path)])
    first, *named = capsys.readouterr().out.splitlines()
    assert first.startswith("mutated_goldens: ") and len(named) == sum(by.get("nothing", 0) for by in judged) > 0
