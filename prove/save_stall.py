"""Measure how long a background save blocks training, compared with a synchronous save."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

from .campaign import Campaign, Line, expect

PAIRS = 20
MOST_RATIO = 0.6
# 7.9 million parameters: 95 MB of weights and moments
OVERRIDES = (
    "name=proof", "model.layers=6", "model.width=320", "model.heads=8", "model.context=64", "batch.micro=2",
    "data.max_bytes=200000", "validation.max_samples=8",
)  # fmt: skip


def run(number: int, folder: Path, pairs: int = PAIRS) -> dict[str, Any]:
    figures = measured(folder, pairs)
    ratio = figures["ratio_median"]
    expect(ratio <= MOST_RATIO, f"{ratio} of the time of a synchronous save", **figures)
    return figures


def measured(folder: Path, pairs: int) -> dict[str, Any]:
    """Return the result of measure(), run in its own process."""
    folder.mkdir(parents=True, exist_ok=True)
    artifact = write_compiled_job(compile_job(CompileRequest(OVERRIDES)), folder / "artifacts")
    words = [sys.executable, "-m", "jobc.prove.save_stall", str(artifact / "train.json"), str(folder), str(pairs)]
    path = str(Path(__file__).resolve().parents[1] / ".dev")  # the jobc of this checkout, whichever is installed
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=1200)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(train_json: str, folder: str, pairs: int) -> dict[str, Any]:
    """Measure pairs of saves in a separate process: one synchronous, one in the background, in alternating order."""
    import torch

    from jobc.trainer.build.build import build
    from jobc.trainer.checkpoint import save_and_resume as checkpoint
    from jobc.trainer.checkpoint.background_save import BackgroundSaver
    from jobc.trainer.config.train_json import load_train_json
    from jobc.trainer.dist import env as environment
    from jobc.trainer.dist.process_group import RankGroup
    from jobc.trainer.loop.loop import train_step
    from jobc.trainer.loop.step_sums import StopAndSaveRequests

    config, root = load_train_json(train_json), Path(folder)
    training = build(
        config, environment.parse_environment({"JOBC_RUN_DIR": folder}), RankGroup(0, 1, torch.device("cpu"))
    )
    savers = {}
    for background in (False, True):
        saves = dataclasses.replace(config.checkpoint, background=background)
        savers[background] = BackgroundSaver(root / str(background), saves, training.group)
    held: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs + 1):
        train_step(training, number, StopAndSaveRequests())
        for background in (False, True) if number % 2 else (True, False):
            started = time.perf_counter()
            parts = {"data": training.proof.counts_to_json_object(number + 1)}
            contents = partial(
                checkpoint.checkpoint_files, number + 1, training.parallel, config, training.group, parts
            )
            savers[background].save(number + 1, contents, None, wait=False)
            seconds = time.perf_counter() - started
            savers[background].wait_on_all_ranks()
            if number:  # memory is allocated in the first pair
                held[background].append(seconds)
    ratios = [b / w for b, w in zip(held[True], held[False], strict=True)]
    return {
        "pairs": pairs,
        "waited_ms": round(1000 * statistics.median(held[False]), 1),
        "held_up_ms": round(1000 * statistics.median(held[True]), 1),
        "ratio_median": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "megabytes": round(sum(path.stat().st_size for path in (root / "True").glob("step_*1/*")) / 1e6),
    }


def figure(lines: Sequence[Line]) -> str:
    return ", ".join(
        f"{line['ratio_median']:.2f} (median of {line['pairs']} pairs): {line['held_up_ms']:.0f} ms against"
        f" {line['waited_ms']:.0f} ms for {line['megabytes']} MB"
        for line in lines
        if "ratio_median" in line
    )


CAMPAIGN = Campaign(
    name="save_stall",
    claim=(f"On a CPU, a background save blocks training for at most {MOST_RATIO} of the time of a synchronous save."),
    trial=(
        f"saves a GPT and its optimizer twice after each of {PAIRS} steps, once synchronously and once in the"
        " background, in alternating order, and compares how long training is blocked. The floor is a copy in"
        " memory."
    ),
    count=1,
    run=run,
    figure=figure,
)

if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))), flush=True)
