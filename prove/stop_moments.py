"""SIGTERM at the worst moments: the job exits within its grace period, never hangs, and loses no saved work."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store

from .campaign import Campaign, expect, k_of_n_by
from .job import Job, descendants, state_pid

KINDS = ("during a save", "twice, in a slow save", "during rendezvous", "during compile")
GRACE_S = 30
SECOND_AFTER_S = 6.0  # repeats within 5 s count as one
ENDS_WITHIN_S = 5  # after the second signal, which ends all waiting
SMALL = (
    "task=digits", "launcher=spawn", "model.hidden=16", "model.layers=1", "validation.max_samples=32",
    f"lifecycle.grace={GRACE_S}s", "metrics.flush_s=0",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    trial = {
        KINDS[0]: during_a_save, KINDS[1]: twice, KINDS[2]: during_rendezvous, KINDS[3]: during_compile,
    }[kind]  # fmt: skip
    return {"kind": kind, **trial(random.Random(number), folder)}


def overrides(steps: int, every: int) -> list[str]:
    return [*SMALL, "loop.epochs=null", f"loop.steps={steps}", f"checkpoint.every_steps={every}"]


def during_a_save(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Stop during a background save with slow flushes: the job waits for that save and for one of the newest step."""
    with Job(folder, overrides(10**6, 50)) as job:
        job.submit()
        job.wait_for_step(chance.randint(1, 40))
        with slow_flushes(job, chance.uniform(0.1, 0.3)):
            job.wait_for(lambda: any((job.run_folder / "checkpoints").glob(".step_*")), "a save", pause_s=0.001)
            measured = end(job)
        checkpoints = store.checkpoints_newest_first(job.run_folder / "checkpoints")
        saved = [store.step_of_folder(path) for path in checkpoints if store.find_checkpoint_problem(path) is None]
        measured |= {"last_step": job.steps()[-1], "saved": saved}
    expect(measured["code"] == 75, f"jobctl submit exited with {measured['code']}", **measured)
    expect(
        saved[:1] == [measured["last_step"]],
        f"step {measured['last_step']} was the last, saved are {saved}",
        **measured,
    )
    expect(
        len(saved) == len(checkpoints) == 2, f"of {len(checkpoints)} checkpoints {len(saved)} are intact", **measured
    )
    return measured


def twice(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Send two signals.

    The save that the first one requests would exceed the grace period, and the second one interrupts it.
    """
    with Job(folder, overrides(10**6, 50)) as job:
        job.submit()
        job.wait_for_step(50 + chance.randint(5, 40))
        job.wait_for(lambda: newest_verified(job.run_folder / "checkpoints")[0] is not None, "a checkpoint")
        with slow_flushes(job, 2 * GRACE_S):
            job.started[-1].send_signal(signal.SIGTERM)
            time.sleep(SECOND_AFTER_S + chance.uniform(0, 2))
            still = job.started[-1].poll() is None
            measured = end(job)
        newest, damaged = newest_verified(job.run_folder / "checkpoints")
        measured |= {"saved": 0 if newest is None else store.step_of_folder(newest), "damaged": damaged}
    expect(still, "it ended before the second signal", **measured)
    expect(measured["seconds"] <= ENDS_WITHIN_S, f"it took {measured['seconds']} s after the second signal", **measured)
    expect(measured["saved"] >= 50 and not damaged, "an earlier checkpoint is not intact", **measured)
    return measured


def during_rendezvous(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Stop during the rendezvous: rank 1 is frozen before it joins, and resumes a second after the signal."""
    with Job(folder, overrides(10, 10)) as job:
        job.submit()
        job.wait_for(lambda: len(trainers(job)) == 2, "both ranks", pause_s=0.005)
        first, frozen = trainers(job)
        Path(f"/proc/{frozen}/stat").read_text()
        subprocess.run(["kill", "-STOP", str(frozen)], check=True)
        job.wait_for(lambda: listens(first), "rank 0 at the rendezvous")
        time.sleep(chance.uniform(0, 1))
        awake = subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {frozen} 2>/dev/null"])
        measured = end(job)
        awake.wait()
        measured |= {"steps": len(job.steps())}
    expect(measured["code"] == 75, f"jobctl submit exited with {measured['code']}: {job.output()[-800:]}", **measured)
    expect(measured["seconds"] <= 1 + ENDS_WITHIN_S, f"it took {measured['seconds']} s", **measured)
    expect(measured["steps"] == 0, "it had already started to train", **measured)
    return measured


def during_compile(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Stop while torch.compile is writing, when there is nothing to save or to wait for."""
    cache = folder / "inductor"
    words = [f"env.TORCHINDUCTOR_CACHE_DIR={cache}", "loop.compile=model"]
    with Job(folder, [*overrides(10**6, 10**6), *words]) as job:
        job.submit()
        job.wait_for(lambda: any(cache.rglob("*.cpp")) or any(cache.rglob("*.py")), "torch.compile")
        time.sleep(chance.uniform(0, 1))
        had_begun = bool(job.steps())
        measured = end(job)
        measured |= {"steps": len(job.steps())}
    expect(not had_begun, "it was compiled before the signal", **measured)
    expect(measured["code"] == 75, f"jobctl submit exited with {measured['code']}: {job.output()[-800:]}", **measured)
    expect(measured["seconds"] <= ENDS_WITHIN_S, f"it took {measured['seconds']} s", **measured)
    return measured


def end(job: Job) -> dict[str, Any]:
    """Send SIGTERM to jobctl submit, and return its exit code and how many seconds it took.

    It must exit within the grace period.
    """
    stop_time = time.monotonic()
    job.started[-1].send_signal(signal.SIGTERM)
    code, seconds = job.code(), round(time.monotonic() - stop_time, 2)
    expect(seconds <= GRACE_S, f"it took {seconds} s", code=code, seconds=seconds)
    return {"code": code, "seconds": seconds}


def trainers(job: Job) -> list[int]:
    """Return both ranks' processes, which are children of their wrappers, if they have started."""
    try:
        return [descendants(state_pid(job.run_folder, f"rank_{rank:02}"))[0] for rank in (0, 1)]
    except (OSError, IndexError, KeyError, ValueError):  # not there yet
        return []


def listens(pid: int) -> bool:
    """Return whether the process has a listening TCP socket."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(link.readlink()))
    tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    listening = "0A"  # TCP_LISTEN, see the kernel's net/tcp_states.h
    rows = [line.split() for table in tables for line in table]
    return any(row[3] == listening and f"socket:[{row[9]}]" in sockets for row in rows)


@contextmanager
def slow_flushes(job: Job, seconds: float) -> Iterator[None]:
    """Slow down each fsync of rank 0 from now on, with strace."""
    delay = f"inject=fsync:delay_enter={int(seconds * 1e6)}"
    words = ["strace", "-f", "-p", str(trainers(job)[0]), "-o", "/dev/null", "-e", delay]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        if "attached" not in (first_line := tracer.stderr.readline()):
            raise RuntimeError(f"strace: {first_line}")
        yield
        tracer.kill()  # otherwise, it would wait out the delay of a call whose process is gone


CAMPAIGN = Campaign(
    name="stop_moments",
    claim=(
        "SIGTERM during a save (once or twice), during rendezvous or during compilation ends a job within its grace"
        " period, with 75."
    ),
    trial=(
        "trains a classifier on 2 ranks. SIGTERM arrives during a background save whose flushes strace slows down:"
        " that save and the one of the newest step must be intact. Or it arrives twice, during a save that would"
        f" exceed the grace period of {GRACE_S} s: the second must end everything within {ENDS_WITHIN_S} s and leave"
        " the previous save intact. Or it arrives while rank 0 waits for a frozen rank 1, or in the middle of"
        " torch.compile."
    ),
    count=40,
    run=run,
    figure=k_of_n_by("kind"),
)
