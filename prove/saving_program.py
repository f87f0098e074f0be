"""Real training runs with one rank, whose saves are disturbed. For the campaigns killed_save, damaged_save, bad_disks.

    python -m jobc.prove.saving_program TRAIN_JSON FOLDER …
        kill SYSCALL        sends SIGKILL before the 1st, 2nd, … such call, until the training ends before that call
        damage SEED COUNT   damages files of the newer of two checkpoints COUNT times
        disk KIND SEED      trains on a bad disk; must run as root, in a mount namespace of its own

Out  one JSON value on the last line of stdout: the findings. torch is imported once; each training is a fork of this
     process, and so takes only milliseconds. strace makes the kernel kill the process at a system call, or fail the
     call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from jobc.tests.checkpoints import newest_verified
from jobc.trainer.build.build import Training, build
from jobc.trainer.checkpoint import store
from jobc.trainer.config.schema import TrainConfig
from jobc.trainer.config.train_json import load_train_json
from jobc.trainer.dist import env as environment
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import TrainerError
from jobc.trainer.loop.loop import run_training
from jobc.trainer.loop.metrics import last_step_lines

MOST_POINTS = 2000
FILES = ("weights.pt", "optimizer.pt", "rng.pt", "state.json", store.MANIFEST)  # files of a checkpoint
SAVED, NOT_SAVED = "saved checkpoints/", "warning: step "  # beginnings of the lines that report a save
STEPS, EVERY = 20, 2
FAULT = 7  # the step before which a disk goes bad
WELL = 15  # the step before which it recovers, if it does


class Requests:
    """Stub of stop signals, which each step polls. These runs are never stopped, but faults are injected here."""

    def __init__(self, happens: dict[int, Callable[[], object]] | None = None, step: int = 0) -> None:
        self.happens, self.step = happens or {}, step

    def is_stop_requested(self) -> bool:
        self.step += 1
        self.happens.get(self.step, lambda: None)()
        return False


def training(config: TrainConfig, folder: Path, **changes: Any) -> Training:
    """Build a training, resume it from the newest checkpoint in `folder`, and return it."""
    steps = dataclasses.replace(config.loop, epochs=None, steps=changes.pop("steps"))
    saves = dataclasses.replace(config.checkpoint, **changes)
    config = dataclasses.replace(config, loop=steps, checkpoint=saves)
    return build(
        config, environment.parse_environment({"JOBC_RUN_DIR": str(folder)}), RankGroup(0, 1, torch.device("cpu"))
    )


def train(made: Training, requests: Requests | None = None) -> int:
    return run_training(made, requests or Requests())  # type: ignore[arg-type]


def resume(config: TrainConfig, place: Path) -> int:
    return train(training(config, place, steps=STEPS))


def steps_of(folder: Path) -> list[int]:
    return [store.step_of_folder(path) for path in store.checkpoints_newest_first(folder / "checkpoints")]


class Child:
    """Runs `work` in a fork of this process, which does not begin before `go` is called.

    `wait` returns its exit status and output.
    """

    def __init__(self, work: Callable[[], int], log: Path) -> None:
        self.log = log
        gate, self._opener = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(1, 2)
            os.close(self._opener)
            os.read(gate, 1)
            code = 99
            try:
                code = work()
            except TrainerError as error:
                print(f"error: {error}")
                code = error.code
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        os.close(gate)

    def wait(self) -> tuple[int, str]:
        """Return the exit status (-N if killed by signal N) and the output."""
        os.close(self._opener)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return status, self.log.read_text()


@contextlib.contextmanager
def traced(pid: int, injection: str, paths: Sequence[Path] = ()) -> Iterator[None]:
    """Attach strace with that injection to all threads of `pid`.

    paths: if given, only calls that concern these paths are affected
    """
    only = [word for path in paths for word in ("-P", str(path))]
    words = ["strace", "-f", "-p", str(pid), "-o", "/dev/null", *only, "-e", f"inject={injection}"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        output = ""
        while "attached" not in output:  # before that, strace reports whether each path exists
            if not (line := tracer.stderr.readline()):
                raise RuntimeError(f"strace: {output}")
            output += line
        yield


# ---- killed


def kill(config: TrainConfig, folder: Path, syscall: str) -> dict[str, Any]:
    """Save two steps, then train and save two more, and then resume to step 5.

    The second training saves its first step in the background, and is killed before the N-th checkpoint call.
    """
    base, points, wrong = folder / "base", 0, []
    train(training(config, base, steps=2, every_steps=1))
    for number in range(1, MOST_POINTS):
        trial_folder = folder / str(number)
        shutil.copytree(base, trial_folder, symlinks=True)
        session = training(config, trial_folder, steps=4, every_steps=1, background=True)
        child = Child(partial(train, session), folder / "log")
        with traced(child.pid, f"{syscall}:signal=SIGKILL:when={number}", paths_of(trial_folder / "checkpoints")):
            status, output = child.wait()
        if status not in (0, -signal.SIGKILL):
            wrong.append(f"before {syscall} {number} it exited with {status}: {output[-300:]}")
        wrong += [f"{syscall} {number}: {problem}" for problem in what_is_wrong(config, trial_folder, output)]
        shutil.rmtree(trial_folder)
        if status == 0:
            break
        points += 1
    return {"points": points, "wrong": wrong[:5], "num_wrong": len(wrong)}


def paths_of(checkpoints: Path) -> list[Path]:
    """Return all paths that saves of four steps touch.

    strace counts calls per thread, and only calls for these paths belong to the saver.
    """
    names = [store.step_folder_name(step) for step in range(1, 5)]
    folders = [checkpoints / name for step_name in names for name in (step_name, f".{step_name}", f".{step_name}.old")]
    files = [folder / name for folder in folders for name in FILES]
    return [checkpoints, checkpoints / store.BEST, checkpoints / f"{store.TEMPORARY}{store.BEST}", *folders, *files]


def what_is_wrong(config: TrainConfig, place: Path, said: str) -> list[str]:
    """Yield what is wrong with the checkpoints of a killed training, and with its resume."""
    saved_steps = [int(line.rpartition("_")[2]) for line in said.splitlines() if line.startswith(SAVED)]
    newest, damaged = newest_verified(place / "checkpoints")
    step = -1 if newest is None else store.step_of_folder(newest)
    if damaged or step < max((2, *saved_steps)):
        return [f"the newest is {step}; saved: {saved_steps}; damaged: {damaged}"]
    again = Child(lambda: train(training(config, place, steps=5, every_steps=1)), place.parent / "log")
    code, said = again.wait()
    leftovers = sorted(path.name for path in (place / "checkpoints").glob(".*"))
    remaining = {path.name for path in (place / "checkpoints").glob("step_*")}
    if (
        code or leftovers or store.step_folder_name(5) not in remaining or len(remaining) > 3
    ):  # the newest two, and the best
        return [f"the resume exited with {code}, left {leftovers}, kept {sorted(remaining)}: {said[-300:]}"]
    return []


# ---- damaged


def damage(config: TrainConfig, folder: Path, seed: int, count: int) -> dict[str, Any]:
    """Repeatedly damage one bit, the length or all of a random file in the newer of two checkpoints.

    count: number of times
    """
    base, chance, corruptions = folder / "base", random.Random(seed), []
    train(training(config, base, steps=2, every_steps=1))
    for number in range(count):
        trial_folder = folder / str(number)
        shutil.copytree(base, trial_folder, symlinks=True)
        files = sorted(path for path in (trial_folder / "checkpoints" / store.step_folder_name(2)).iterdir())
        path = chance.choice(files)
        how = spoil(path, chance)
        with contextlib.redirect_stdout(io.StringIO()):
            start = training(config, trial_folder, steps=2).start
        named = f"skipped {store.step_folder_name(2)}: {path.name}" in start.words
        corruptions.append({"file": path.name, "how": how, "ok": start.step == 1 and named, "told": start.words})
        shutil.rmtree(trial_folder)
    return {"corruptions": corruptions}


def spoil(path: Path, chance: random.Random) -> str:
    """Damage a file, and return a description."""
    content = bytearray(path.read_bytes())
    match chance.choice(("flip", "truncate", "delete")):
        case "flip":
            offset, bit = chance.randrange(len(content)), chance.randrange(8)
            content[offset] ^= 1 << bit
            path.write_bytes(content)
            return f"bit {bit} of byte {offset} flipped"
        case "truncate":
            length = chance.randrange(len(content))
            path.write_bytes(content[:length])
            return f"cut to {length} bytes"
        case _:
            path.unlink()
            return "deleted"


# ---- bad disks

# kind: the commands that break and repair the disk, or the call that fails for the files of some saves
MOUNT = ("mount", "-t", "tmpfs", "-o", "size=400k,nr_inodes=40", "tmpfs")


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def crowd(disk: Path) -> None:
    with contextlib.suppress(OSError):
        for number in range(1000):
            (disk / f"filler{number}").touch()


def clear(disk: Path) -> None:
    for path in disk.glob("filler*"):
        path.unlink()


def settle(disk: Path) -> None:
    """Wait for a background save, because the files that it removes at its end would free space."""
    while not (disk / store.step_folder_name(FAULT - 1)).exists():
        time.sleep(0.01)
    time.sleep(0.3)


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


DISKS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "full": (fill, clear),
    "no inodes": (crowd, clear),
    "read-only": (lambda disk: remount(disk, "ro"), lambda disk: remount(disk, "rw")),
}
ERRORS = {"EIO at write": "write:error=EIO", "EIO at fsync": "fsync:error=EIO"}


def disk(config: TrainConfig, folder: Path, kind: str, seed: int) -> dict[str, Any]:
    """Train on a disk that is bad for a while, then on one that stays bad.

    The training survives the first. On the second, it exits with 1 and keeps an intact old checkpoint, from which it
    resumes once the disk is repaired.
    """
    quiet = folder / "quiet"
    train(training(config, quiet, steps=STEPS, every_steps=STEPS))
    background = bool(seed % 2)
    results: dict[str, Any] = {"kind": kind, "background": background}
    for name, lasts in (("passes", False), ("stays", True)):
        disk_folder = folder / name
        checkpoints = disk_folder / "checkpoints"
        checkpoints.mkdir(parents=True)
        subprocess.run([*MOUNT, checkpoints], check=True)
        saves = {"every_steps": EVERY, "background": background, "max_failures": 3 if lasts else 99}
        status, output = disturbed(config, disk_folder, kind, lasts, saves)
        newest, damaged = newest_verified(checkpoints)
        results[name] = {
            "code": status,
            "failed": output.count(NOT_SAVED),
            "newest": -1 if newest is None else store.step_of_folder(newest),
            "damaged": damaged,
            "last_words": output.splitlines()[-2:] if status else [],
        }
        if lasts:
            results["again"] = Child(partial(resume, config, disk_folder), folder / "log").wait()[0]
        results[name]["same"] = same(disk_folder, quiet)
        subprocess.run(["umount", checkpoints], check=True)
    return results


def disturbed(config: TrainConfig, place: Path, kind: str, lasts: bool, saves: dict[str, Any]) -> tuple[int, str]:
    """Run one training on the mounted disk. Return its exit code and output."""
    checkpoints, log = place / "checkpoints", place.parent / "log"
    if kind in DISKS:
        bad, well = (partial(act, checkpoints) for act in DISKS[kind])

        def go_bad() -> None:
            settle(checkpoints)
            bad()

        events: dict[int, Callable[[], object]] = {FAULT: go_bad}
        events |= {} if lasts else {WELL: well}
        status, output = Child(
            lambda: train(training(config, place, steps=STEPS, **saves), Requests(events)), log
        ).wait()
        if lasts:
            well()
        return status, output
    session = training(config, place, steps=STEPS, **saves)
    child = Child(lambda: train(session), log)
    bad_steps = range(FAULT + FAULT % EVERY, STEPS if lasts else WELL, EVERY)
    files = [checkpoints / f".{store.step_folder_name(step)}" / name for step in bad_steps for name in (*FILES, "")]
    with traced(child.pid, ERRORS[kind], files):
        return child.wait()


def same(place: Path, quiet: Path) -> bool:
    """Return whether all losses and the weights equal those of an undisturbed training."""
    losses = [
        [line["loss_hex"] for _, line in sorted(last_step_lines(root / "metrics" / "rank_00.jsonl").items())]
        for root in (place, quiet)
    ]
    weights = [(root / "final" / "weights.pt").read_bytes() for root in (place, quiet)]
    return losses[0] == losses[1] and weights[0] == weights[1]


def main(train_json: str, folder: str, what: str, *words: str) -> None:
    config, work_folder = load_train_json(train_json), Path(folder)
    if what == "kill":
        result = kill(config, work_folder, words[0])
    elif what == "damage":
        result = damage(config, work_folder, int(words[0]), int(words[1]))
    else:
        result = disk(config, work_folder, words[0], int(words[1]))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
