"""One rank receives SIGSTOP: the others name it, log their threads' stacks, and exit soon after the timeout."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect, k_of_n_by
from .job import MICRO, Job, descendants, is_running, state_pid

WORLDS = (2, 4)
TIMEOUT_S, MORE_S = 10, 5
GRACE_S = 2  # for the frozen rank, which cannot respond to the request to end
OVERRIDES = [
    *MICRO, "launcher=spawn", "loop.steps=100000", "checkpoint.every_steps=1000", "validation.every_steps=100000",
    f"process_group.step_timeout_s={TIMEOUT_S}", f"lifecycle.grace={GRACE_S}s",
]  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    chance, world_size = random.Random(number), WORLDS[number % len(WORLDS)]
    frozen = chance.randrange(world_size)
    with Job(folder, OVERRIDES, procs=world_size) as job:
        job.submit()
        job.wait_for_step(chance.randint(1, 50))
        ranks = [descendants(state_pid(job.run_folder, f"rank_{rank:02}"))[0] for rank in range(world_size)]
        time.sleep(chance.uniform(0, 0.03))  # anywhere in a step
        os.kill(ranks[frozen], signal.SIGSTOP)
        began = time.monotonic()
        others = [pid for pid in ranks if pid != ranks[frozen]]
        while any(map(is_running, others)) and time.monotonic() < began + 3 * TIMEOUT_S:
            time.sleep(0.01)
        measured: dict[str, Any] = {"kind": f"one of {world_size} ranks", "frozen": frozen}
        measured["ended_s"] = round(time.monotonic() - began, 2)
        measured["code"] = job.code()
        logs = [
            (job.run_folder / "logs" / f"rank_{rank:02}.log").read_text(errors="replace") for rank in range(world_size)
        ]
        remaining = [pid for pid in ranks if is_running(pid)]
    del logs[frozen]
    says = re.compile(rf"rank {frozen} on \S+ is not responding")
    named = sum(says.search(log) is not None for log in logs)
    in_loop = re.compile(r'jobc_trainer/loop/loop\.py", line \d+ in (train_step|run_remaining_steps)\b')
    measured |= {"named_by": named, "stacks_of": sum(in_loop.search(log) is not None for log in logs)}
    excerpt = f"{logs[0][-800:]}"
    expect(measured["ended_s"] <= TIMEOUT_S + MORE_S, f"the others ended after {measured['ended_s']} s", **measured)
    expect(named == len(logs), f"{named} of {len(logs)} ranks name it: {excerpt}", **measured)
    expect(
        measured["stacks_of"] == len(logs), f"stacks of {measured['stacks_of']} of {len(logs)}: {excerpt}", **measured
    )
    expect(not remaining, "the frozen rank still exists", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    slowest = max(line.get("ended_s", 0) for line in lines)
    return f"{k_of_n_by('kind')(lines)}; the others exited within {slowest:.1f} s, with a timeout of {TIMEOUT_S} s"


CAMPAIGN = Campaign(
    name="frozen_rank",
    claim=(f"When one rank freezes, all others name it within the timeout plus {MORE_S} s, and log their stacks."),
    trial=(
        f"trains a small GPT on 2 or 4 ranks of one machine, with process_group.step_timeout_s={TIMEOUT_S}. At a"
        " random moment after a random step, SIGSTOP freezes one rank. This may be rank 0, whose store the other"
        f" ranks use. Each other rank must exit within {TIMEOUT_S + MORE_S} s, and its log must name the frozen rank"
        " and contain the stacks of its own threads. The frozen rank's process must be gone."
    ),
    count=20,
    run=run,
    figure=figure,
)
