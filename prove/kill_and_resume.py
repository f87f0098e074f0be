"""Repeated SIGKILL in the middle of a training: the resumed run's result is bit-identical to an uninterrupted run's."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .campaign import Campaign, Line, expect, k_of_n_by
from .job import MICRO, Job, descendants, is_running, kill, state_pid

ANY = 20  # trials in which any process is killed, up to three times; in later trials, one rank is killed once
WORLDS = (2, 4)  # world sizes of the later trials, in turns
ONE = 50  # trials with each world size
STEPS = 30
OVERRIDES = [*MICRO, "launcher=spawn", f"loop.steps={STEPS}", "checkpoint.every_steps=4", "validation.every_steps=10"]
VICTIMS = ("rank 0", "rank 1", "supervisor", "all")
END_S = 20  # timeout for the run's remaining processes to exit after a kill


def world_size_of(number: int) -> int:
    return 2 if number < ANY else WORLDS[number % len(WORLDS)]


def kind_of(number: int) -> str:
    return "any process of 2 ranks" if number < ANY else f"one of {world_size_of(number)} ranks"


def run(number: int, folder: Path) -> dict[str, Any]:
    chance, world_size = random.Random(number), world_size_of(number)
    if number < ANY:
        num_kills = chance.randint(1, 3)
        victims = [VICTIMS[(number + index) % len(VICTIMS)] for index in range(num_kills)]
        steps = sorted(chance.sample(range(1, STEPS - 4), num_kills))
    else:
        victims, steps = [f"rank {chance.randrange(world_size)}"], [chance.randrange(1, STEPS - 1)]
    expected = uninterrupted(folder.parent / f"uninterrupted_{world_size}", world_size)
    kills: list[dict[str, Any]] = []
    measured: dict[str, Any] = {"kills": kills}
    with Job(folder, OVERRIDES, procs=world_size) as job:
        job.submit()
        for victim, after in zip(victims, steps, strict=True):
            job.wait_for_step(after)
            time.sleep(chance.uniform(0, 0.03))  # anywhere in a step, or in the checkpoint after it
            if job.started[-1].poll() is not None:
                break  # the training has already ended
            kills.append(strike(job, victim, chance))
            job.resume()
        code = job.code()
        expect(code == 0, f"the last attempt exited with {code}: {job.output()[-500:]}", **measured)
        expect(any(kill["struck"] for kill in kills), "the training ended before it could be killed", **measured)
        got = job.result()
    measured["sha256"] = got["sha256"]
    expect(got["losses"] == expected["losses"], "losses differ from those of the uninterrupted run", **measured)
    expect(got["sha256"] == expected["sha256"], "the final weights differ", **measured)
    return measured


def uninterrupted(folder: Path, world_size: int) -> dict[str, Any]:
    """Return the result of the same job without disturbance, computed once per campaign call."""
    cache = folder.with_suffix(".json")
    if not cache.exists():
        with Job(folder, OVERRIDES, procs=world_size) as job:
            cache.write_text(json.dumps(job.trained()))
    return dict(json.loads(cache.read_text()))


def strike(job: Job, victim: str, chance: random.Random) -> dict[str, Any]:
    """Kill `victim`, and wait until all of the run's processes have ended.

    Return the steps done, and how long the other processes took to end.
    """
    supervisor = job.started[-1].pid
    family = descendants(supervisor)
    if victim == "all":
        targets = [supervisor, *family]
        chance.shuffle(targets)
    elif victim == "supervisor":
        targets = [supervisor]
    else:
        targets = descendants(state_pid(job.run_folder, f"rank_{int(victim.split()[1]):02}"))[:1]
    struck, began = [kill(pid) for pid in targets], time.monotonic()
    code, deadline = job.code(), time.monotonic() + END_S
    while any(map(is_running, family)):
        expect(time.monotonic() < deadline, f"processes still exist {END_S} s after {victim} was killed")
        time.sleep(0.01)
    ended_s = round(time.monotonic() - began, 2)
    return {"victim": victim, "struck": any(struck), "after_step": job.steps()[-1], "code": code, "ended_s": ended_s}


def figure(lines: Sequence[Line]) -> str:
    kills = [kill for line in lines for kill in line.get("kills", ()) if kill["struck"]]
    of_kind = k_of_n_by("kind")([{**line, "kind": kind_of(line["trial"])} for line in lines])
    ended_s = [kill["ended_s"] for line in lines if line["trial"] >= ANY for kill in line.get("kills", ())]
    suffix = f"; the others exited {median(ended_s):.1f} s after the one rank (median)" if ended_s else ""
    return f"{of_kind}; {len(kills)} kills{suffix}"


CAMPAIGN = Campaign(
    name="kill_and_resume",
    claim=("A run that is killed at any moment and resumed ends with the losses and weights of an uninterrupted run."),
    trial=(
        f"trains a small GPT with dropout for {STEPS} steps. In {ANY} trials, with 2 ranks, SIGKILL hits rank 0,"
        " rank 1, the supervisor, or all processes of the run in random order, one to three times. In the other"
        " trials, with 2 or 4 ranks, it hits one rank, once. Each kill comes at a random moment during or after a"
        " random step. No process may be left, and `jobctl submit --resume` must continue the run. All ranks'"
        " losses of all steps must be bit-identical to those of an uninterrupted run, and the sha256 of the final"
        " weights must be equal."
    ),
    count=ANY + ONE * len(WORLDS),
    run=run,
    figure=figure,
)
