"""Send two SIGTERMs in a row, as Slurm and Kubernetes do: the job saves once and asks to be requeued."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

from jobc.trainer.checkpoint import store

from .campaign import Campaign, expect, k_of_n_by
from .job import MICRO, STAND_IN, Job

KINDS = ("with spawn", "with torchrun", "with torchrun and the trainer")
STEPS = 60


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(number)
    if kind == KINDS[2]:
        return {"kind": kind, **stop_trainer(chance, folder)}
    return {"kind": kind, **stop_stand_in(chance, folder, launcher=kind.split()[-1])}


def stop_stand_in(chance: random.Random, folder: Path, launcher: str) -> dict[str, Any]:
    with Job(folder, [f"launcher={launcher}"], ["python3", str(STAND_IN), "save"]) as job:
        job.submit()
        job.wait_for_marks("up.0", "up.1")
        time.sleep(chance.uniform(0, 0.2))
        gap_ms = two_sigterms(job, chance)
        code = job.code()
        signals = [(job.marks / f"saved.{rank}").exists() for rank in (0, 1)]
        expect(code == 75, f"jobctl submit exited with {code} instead of 75", gap_ms=gap_ms, code=code)
        expect(all(signals), f"ranks that saved: {signals}", gap_ms=gap_ms, code=code)
        saved = [(job.marks / f"saved.{rank}").read_text() for rank in (0, 1)]
        expect(saved == ["1", "1"], f"SIGTERMs that the ranks got: {saved}", gap_ms=gap_ms, code=code)
    return {"gap_ms": gap_ms, "code": code}


def stop_trainer(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Stop the trainer, whose only checkpoint is the one that the signal requested."""
    overrides = [*MICRO, "launcher=torchrun", f"loop.steps={STEPS}", f"checkpoint.every_steps={STEPS}"]
    with Job(folder, overrides) as job:
        job.submit()
        job.wait_for_step(chance.randint(1, STEPS // 3))
        gap_ms = two_sigterms(job, chance)
        code = job.code()
        done = job.steps()[-1]
        checkpoints = store.checkpoints_newest_first(job.run_folder / "checkpoints")
        saved = [store.step_of_folder(path) for path in checkpoints if store.find_checkpoint_problem(path) is None]
        measured = {"gap_ms": gap_ms, "code": code, "stopped_after_step": done, "saved_steps": saved}
        expect(code == 75, f"jobctl submit exited with {code} instead of 75", **measured)
        expect(saved == [done], f"step {done} was the last, checkpoints are of {saved}", **measured)
        job.resume()
        expect(job.code() == 0, f"the resumed run exited with {job.code()}", **measured)
        expect(job.steps() == list(range(1, STEPS + 1)), f"steps made: {job.steps()}", **measured)
    return measured


def two_sigterms(job: Job, chance: random.Random) -> float:
    """Send two SIGTERMs to jobctl submit within 100 ms, and return the measured interval in ms."""
    gap_s = chance.uniform(0, 0.09)
    job.started[-1].send_signal(signal.SIGTERM)
    first = time.monotonic()
    time.sleep(gap_s)
    gap_ms = round(1000 * (time.monotonic() - first), 1)
    job.started[-1].send_signal(signal.SIGTERM)
    return gap_ms


CAMPAIGN = Campaign(
    name="double_sigterm",
    claim=(
        "Two SIGTERMs within 100 ms count as one: every rank saves, and submit exits with 75 (saved and stopped early)."
    ),
    trial=(
        "sends two SIGTERMs, 0 to 90 ms apart, to a running submit with 2 ranks. A program without torch, started"
        " by spawn or torchrun, must receive one SIGTERM and have time to save. The trainer must leave a checkpoint"
        f" of exactly the step after which it stopped, and the resumed run must complete each of its {STEPS} steps"
        " exactly once."
    ),
    count=60,
    run=run,
    figure=k_of_n_by("kind"),
)
