"""The mutation campaign: what its operators make of a line, and that each of its witnesses can speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.prove import mutations

LINES = ["# a 1", "#SBATCH --nodes=2", 'run=$run "$nodes" 7', "  --wait=0", "key: 3"]


@pytest.mark.parametrize(
    ("operator", "made"),
    [
        ("drop_flag", ["# a 1", 'run=$run "$nodes" 7', "  --wait=0", "key: 3"]),
        ("swap_scope", ["# a 1", "#SBATCH --nodes=2", 'run=$run "$procs" 7', "  --wait=0", "key: 3"]),
        ("change_number", ["# a 1", "#SBATCH --nodes=3", 'run=$run "$nodes" 7', "  --wait=0", "key: 3"]),
        ("unquote", ["# a 1", "#SBATCH --nodes=2", "run=$run $nodes 7", "  --wait=0", "key: 3"]),
        ("reorder", ["# a 1", 'run=$run "$nodes" 7', "#SBATCH --nodes=2", "  --wait=0", "key: 3"]),
        ("rename", ["# a 1", "#SBATCH --nodes=2", 'runx=$run "$nodes" 7', "  --wait=0", "key: 3"]),
    ],
)
def test_an_operator_changes_one_place_and_no_comment(operator: str, made: list[str]) -> None:
    assert next(mutations.OPERATORS[operator](LINES)) == made
    assert all("# a 1" in lines for lines in mutations.OPERATORS[operator](LINES))


@pytest.mark.parametrize(
    ("case", "path", "before", "after", "witness"),
    [
        ("ssh/two_hosts", "node.sh", "esac", "esacx", "bash"),
        ("ssh/two_hosts", "node.sh", "nodes=2", "nodes=3", "equivalence"),
        ("ssh/two_hosts", "status.sh", '"$run"', "$run", "shellcheck"),
        ("kubernetes/two_nodes", "job.yaml", "completions:", "completionz:", "schema"),
        ("skypilot/setup_and_secret", "task.sky.yaml", "num_nodes:", "num_nodez:", "schema"),
        ("ssh/two_hosts", "node.sh", "# ---- this node", "# ---- that node", ""),
    ],
)
def test_each_witness_speaks(case: str, path: str, before: str, after: str, witness: str, tmp_path: Path) -> None:
    files = mutations.files_of(mutations.GOLDEN / case)
    changed = {**files, path: files[path].replace(before, after)}
    assert changed != files
    assert mutations.noticed_by(changed, path, tmp_path) == witness


def test_a_branch_that_a_job_does_not_take_is_not_reached(tmp_path: Path) -> None:
    files = mutations.files_of(mutations.GOLDEN / "ssh/experiment_aorta")  # launcher=torchrun
    reached = mutations.reached(files, tmp_path)
    lines = files["node.sh"].split("\n")
    torchrun = next(n for n, line in enumerate(lines, 1) if "--master-port=" in line)
    mpirun = next(n for n, line in enumerate(lines, 1) if "--map-by slot" in line)
    assert ("node.sh", torchrun) in reached and ("node.sh", mpirun) not in reached
