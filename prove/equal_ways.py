"""The same job through every way to reach several hosts: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import WAYS, BedJob, cluster
from .campaign import Campaign, expect

SHAPE = Shape(nodes=4, gpus_per_node=0)
STEPS = 20
OVERRIDES = (
    "nodes=4", "procs=2", "task=digits", "loop.epochs=null", f"loop.steps={STEPS}", "validation.max_samples=64",
)  # fmt: skip

LAUNCHES = {**{way: (way, "launcher=torchrun") for way in WAYS}, "srun": ("slurm", "launcher=srun")}


def run(number: int, folder: Path, nodes: int = 4) -> dict[str, Any]:
    bed = cluster(SHAPE, folder)
    found: dict[str, tuple[list[object], str]] = {}
    for name, (way, launcher) in LAUNCHES.items():
        job = BedJob.make(bed, folder / name, way, *OVERRIDES, f"nodes={nodes}", f"seed={number}", launcher)
        job("submit.sh", *(["--wait"] if way == "slurm" else []), check=True, timeout_s=600)
        found[name] = (job.losses(), job.weights())
    losses, weights = found["ssh"]
    expect(len(losses) == STEPS, f"{len(losses)} losses of {STEPS} steps")
    for way, got in found.items():
        expect(got == (losses, weights), f"{way} and ssh differ")
    return {"seed": number, "ways": list(found), "sha256": weights, "last_loss_hex": losses[-1]}


CAMPAIGN = Campaign(
    name="equal_ways",
    claim="4 hosts with 2 ranks each give the same losses and weights, bit for bit.",
    trial=(
        f"trains a classifier for {STEPS} steps on the test bed, with the trial's number as seed, once through each of"
        f" {', '.join(WAYS)} with launcher=torchrun, and slurm with launcher=srun."
        " All losses and the sha256 of the final weights must be equal."
    ),
    count=3,
    run=run,
)
