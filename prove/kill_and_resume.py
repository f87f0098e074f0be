"""SIGKILL in the middle of a training, again and again: the resumed run ends with the bits of an uninterrupted one."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect, k_of_n
from .job import MICRO, Job, descendants, is_running, kill, state_pid

STEPS = 30
OVERRIDES = [*MICRO, "launcher=spawn", f"loop.steps={STEPS}", "checkpoint.every_steps=4", "validation.every_steps=10"]
VICTIMS = ("rank 0", "rank 1", "supervisor", "all")
END_S = 20  # for what is left of a run after a kill


def run(number: int, folder: Path) -> dict[str, Any]:
    expected = uninterrupted(folder.parent / "uninterrupted")
    chance = random.Random(number)
    kills: list[dict[str, Any]] = []
    with Job(folder, OVERRIDES) as job:
        job.submit()
        for after in sorted(chance.sample(range(1, STEPS - 4), chance.randint(1, 3))):
            job.wait_for_step(after)
            time.sleep(chance.uniform(0, 0.03))  # anywhere in a step, or in the checkpoint after it
            if job.started[-1].poll() is not None:
                break  # it was done already
            kills.append(strike(job, VICTIMS[(number + len(kills)) % len(VICTIMS)], chance))
            job.resume()
        code = job.code()
        expect(code == 0, f"the last attempt ended with {code}: {job.output()[-500:]}", kills=kills)
        expect(any(each["struck"] for each in kills), "the training was over before it could be killed", kills=kills)
        got = job.result()
    expect(got["losses"] == expected["losses"], "losses differ from those of the uninterrupted run", kills=kills)
    expect(got["sha256"] == expected["sha256"], "the final weights differ", kills=kills)
    return {"kills": kills, "sha256": got["sha256"]}


def uninterrupted(folder: Path) -> dict[str, Any]:
    """What the same job gives when nobody disturbs it; made once per call of the campaign."""
    kept = folder.with_suffix(".json")
    if not kept.exists():
        with Job(folder, OVERRIDES) as job:
            kept.write_text(json.dumps(job.trained()))
    return dict(json.loads(kept.read_text()))


def strike(job: Job, victim: str, chance: random.Random) -> dict[str, Any]:
    """Kill `victim` and wait until nothing of the run is left; what was done up to then."""
    supervisor = job.started[-1].pid
    family = descendants(supervisor)
    wrappers = [state_pid(job.run_folder, f"rank_{rank:02}") for rank in (0, 1)]
    if victim == "all":
        targets = [supervisor, *family]
        chance.shuffle(targets)
    elif victim == "supervisor":
        targets = [supervisor]
    else:
        targets = descendants(wrappers[int(victim[-1])])[:1]
    struck = [kill(pid) for pid in targets]
    code, deadline = job.code(), time.monotonic() + END_S
    while any(map(is_running, family)):
        expect(time.monotonic() < deadline, f"processes outlive the death of {victim} by {END_S} s")
        time.sleep(0.01)
    return {"victim": victim, "struck": any(struck), "after_step": job.steps()[-1], "code": code}


def figure(lines: Sequence[Line]) -> str:
    kills = sum(each["struck"] for line in lines for each in line.get("kills", ()))
    return f"{k_of_n(lines)}, {kills} kills"


CAMPAIGN = Campaign(
    name="kill_and_resume",
    claim="A run that was killed at any moment and resumed ends with the losses and weights of an uninterrupted one.",
    trial=(
        f"trains a small GPT with dropout for {STEPS} steps on 2 ranks. One to three times, somewhere in or after a"
        " step drawn by the trial's number, SIGKILL strikes rank 0, rank 1, the supervisor, or all processes of the"
        " run in random order; no process may be left, and `submit.sh --resume` goes on. Both ranks' losses of all"
        " steps, bit for bit, and the sha256 of the final weights must equal those of a run without a kill."
    ),
    count=20,
    run=run,
    figure=figure,
)
