"""Run the same job through every backend and every way to reach several hosts, with bit-identical results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import WAYS, BedJob, cluster, losses, weights
from .campaign import Campaign, Line, expect, k_of_n
from .engines import HAS_SKYPILOT, NO_SKYPILOT, VISIBLE, on_pods, on_skypilot

SHAPE = Shape(nodes=4, gpus_per_node=0, visible=VISIBLE)
STEPS = 20
# one thread everywhere, because backends know different numbers of cores, and results depend on the number of threads
OVERRIDES = ("task=digits", "loop.epochs=null", f"loop.steps={STEPS}", "validation.max_samples=64", "threads=1")

# name -> how to start it, and words of the spec. All others are compared with the first one.
LAUNCHES = {
    "local": ("local", "launcher=torchrun"),
    **{way: (way, "launcher=torchrun") for way in WAYS},
    "srun": ("slurm", "launcher=srun"),
    "accelerate": ("accelerate", "launcher=accelerate"),
    "kubernetes": ("kubernetes", "launcher=torchrun"),
    "skypilot": ("skypilot", "launcher=torchrun"),
}


def run(
    number: int, folder: Path, nodes: int = 4, procs: int = 2, names: Collection[str] = tuple(LAUNCHES)
) -> dict[str, Any]:
    """Run a trial.

    names: the keys of LAUNCHES to try
    """
    bed = cluster(SHAPE, folder)
    left_out = [] if HAS_SKYPILOT or "skypilot" not in names else [NO_SKYPILOT]
    tried = [name for name in LAUNCHES if name in names and not (left_out and name == "skypilot")]
    results: dict[str, tuple[list[object], str]] = {}
    for name in tried:
        way, launcher = LAUNCHES[name]
        sizes = ("nodes=1", f"procs={procs * nodes}") if way == "local" else (f"nodes={nodes}", f"procs={procs}")
        words = (*OVERRIDES, *sizes, f"seed={number}", launcher)
        if way in ENGINES:
            ended = ENGINES[way](bed, folder / name, *words)
        else:
            job = BedJob.make(bed, folder / name, way, *words)
            job("submit", *(["--wait"] if way == "slurm" else []), check=True, timeout_s=600)
            ended = job.run
        results[name] = (losses(ended), weights(ended))
    first = results[tried[0]]
    expect(len(first[0]) == STEPS, f"{len(first[0])} losses of {STEPS} steps")
    for name, got in results.items():
        expect(got == first, f"{name} and {tried[0]} differ")
    return {"seed": number, "ways": tried, "left_out": left_out, "sha256": first[1], "last_loss_hex": first[0][-1]}


ENGINES = {"kubernetes": on_pods, "skypilot": on_skypilot}


def figure(lines: Sequence[Line]) -> str:
    """Describe how many trials held, through how many backends, and what was excluded."""
    ways = dict.fromkeys(way for line in lines for way in line.get("ways", ()))
    left_out = dict.fromkeys(why for line in lines for why in line.get("left_out", ()))
    return "; ".join([f"{k_of_n(lines)} through {len(ways)} ways", *(f"left out {why}" for why in left_out)])


CAMPAIGN = Campaign(
    name="equal_ways",
    claim=(
        "4 hosts with 2 ranks each produce bit-identical losses and weights through each of the seven backends, and"
        " so do 8 ranks on one machine."
    ),
    trial=(
        f"trains a classifier for {STEPS} steps on the test bed, with the trial's number as seed, once in each of"
        f" these ways: with launcher=torchrun through local, {', '.join(WAYS)}, kubernetes (on the tests' pod"
        " runner) and skypilot (`sky launch` on the test bed's Slurm, with the environment in JOBC_SKY); through"
        " accelerate with its own launcher; and through slurm with launcher=srun. All losses and the sha256 of the"
        " final weights must be equal."
    ),
    count=3,
    run=run,
    figure=figure,
)
