"""bench/gpu on this CPU with a tiny model: three loops with the same training, a table and a chart; and whole jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.tests.trainer.conftest import clean_environment

ROOT = Path(__file__).parents[2]
LOOPS = ["jobc", "bare loop", "accelerate"]
TINY = (
    "task=gpt_tiny", "data=random_tokens", "data.vocabulary=64", "model.layers=1", "model.width=32", "model.context=16",
    "batch.micro=2", "batch.accumulation=2",
)  # fmt: skip


@pytest.mark.slow
def test_the_loops_of_bench_gpu_train_the_same_and_are_told_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="accelerate is an extra")
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    words = [str(ROOT / "bench" / "gpu"), "--blocks", "3", "--steps", "2", "--loops", *LOOPS, "--out", str(tmp_path)]
    environment = {**clean_environment(), "CUDA_VISIBLE_DEVICES": "", "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words, "--", *TINY], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "bench.json").read_text())["loops"]
    assert list(found) == LOOPS
    for one in found.values():
        assert len(one["step_s"]) == len(one["cpu_s"]) == 3
        assert one["losses"] == pytest.approx(found["jobc"]["losses"], rel=1e-4)
        assert len(one["losses"]) == 11, "one to begin with, two blocks that warm up and three that count"
    table = (tmp_path / "table.md").read_text()
    first_cells = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert first_cells == ["loop", *LOOPS, "goal", "G1", "G2", "G3"]
    assert table.strip() in done.stdout
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_whole_jobs_print_their_goals_and_a_killed_one_has_the_same_losses() -> None:
    words = [str(ROOT / "bench" / "gpu" / "runs.py"), "--saves", "2", "--every", "5", "--", "launcher=spawn", *TINY]
    done = subprocess.run(
        [sys.executable, *words], env={**clean_environment(), "CUDA_VISIBLE_DEVICES": ""}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["G5", "G5", "G6", "G7", "G8", "G8"]
    for row in rows[-2:]:
        assert row[3:5] == ["0.000 (0.000 to 0.000)", "0.000"] and row[-1] == "held", "bit-identical on a CPU"
