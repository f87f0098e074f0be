"""Forged run folders, artifacts, checkpoints, metrics and specs: no command executes them, reads outside the folder, or
hangs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from . import fair_time, forgeries
from .campaign import Campaign, Failed, Line, expect, k_of_n_by
from .hostile_specs import draw_spec
from .job import MICRO

KINDS = ("run", "artifact", "checkpoint", "spec", "metrics")
LIMIT_S = 5.0  # seconds of CPU time and waiting, beyond three times what a command takes on unforged input
CANARY = "canary-5f1c0a7e"
MEMORY_BYTES = 3 << 30
ARTIFACT = Path("artifacts/proof/local")
OVERRIDES = ("name=proof", "launcher=spawn", "procs=1", "loop.steps=4", "checkpoint.every_steps=2", *MICRO)
LONGER = ("loop.steps=6",)
WRONG = re.compile(
    r"Traceback \(most recent call last\)|JC900\d|syntax error|unbound variable|: line \d+: |MemoryError|RecursionError"
)
# stop waits for a node on another machine to read the stop mark, for as long as the spec allows, and names that node
WAITS = re.compile(r"^node \d+ is (on|in another container on) .*: run jobctl stop there, or wait", re.MULTILINE)
# C0 and C1 control characters except newline and tab, and those that change the direction of text
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Bench:
    """Paths that the trials use.

    project: a trained job, restored before each trial
    outside: must not be read
    mark: must not be created
    """

    project: Path
    pristine: Path
    outside: Path
    mark: Path
    home: Path

    @property
    def run(self) -> Path:
        (run,) = (path for path in (self.project / "runs/proof").iterdir() if not path.name.startswith("."))
        return run

    def reset(self) -> None:
        remove(self.project)
        shutil.copytree(self.pristine, self.project, symlinks=True)
        self.mark.unlink(missing_ok=True)

    def environment(self) -> dict[str, str]:
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "PET_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{outer['PATH']}"
        return {
            **outer,
            "PATH": path,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home),
            "SECRET_TOKEN": CANARY,
        }


def remove(folder: Path) -> None:
    """Remove a folder, even if it contains a run's copies of the artifact, which are read-only."""
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
        shutil.rmtree(folder)


@cache
def bench(work: Path) -> Bench:
    """Return the training job that all trials of a call share."""
    setup = Bench(work / "project", work / "pristine", work / "outside.txt", work / "project" / "MARK", work / "home")
    setup.home.mkdir()
    setup.outside.write_text(f"{CANARY}\n")
    (setup.home / "token").write_text(f"{CANARY}\n")
    setup.project.mkdir()
    for words in (["jobc", *OVERRIDES], [str(ARTIFACT / "jobctl"), "submit"], ["jobc", *OVERRIDES, *LONGER]):
        done = subprocess.run(
            words, cwd=setup.project, env=setup.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{words[0]} exited with {done.returncode}: {done.stderr[-1000:]}")
    shutil.copytree(setup.project, setup.pristine, symlinks=True)
    return setup


def readers(kind: str, run_id: str) -> list[list[str]]:
    """Return the commands that read what the attacker forged."""
    verb = {name: [str(ARTIFACT / "jobctl"), name] for name in ("status", "clean", "logs", "stop", "submit")}
    artifact = str(ARTIFACT)
    looks = [verb["status"], [*verb["status"], "--all"], [*verb["clean"], "--keep", "0"]]
    ends = [verb["stop"], [*verb["submit"], "--resume", run_id], [*verb["clean"], "--keep", "0", "--yes"]]
    thins = [[*verb["clean"], "--keep", "0", "--keep-checkpoints"]]
    return {
        "run": [*looks, [*verb["logs"], "--run", run_id], *ends],
        "metrics": [*looks, ["jobc", "status", artifact]],
        "checkpoint": [*looks, *thins, *ends[1:2], [*thins[0], "--yes"]],
        "artifact": [
            ["jobc", "verify", artifact], ["jobc", "verify", "--format", "json", artifact],
            ["jobc", "why", artifact, "loop.steps"], ["jobc", "why", f"{artifact}/spec.yaml:3"],
            ["jobc", "diff", artifact, "vs", "name=proof"], ["jobc", *OVERRIDES],
        ],
    }[kind]  # fmt: skip


def execute(command: Sequence[str], place: Bench, limit_s: float) -> tuple[int, str, float]:
    """Run a command and return its exit code, its output and the seconds it took.

    If it exceeds the limit, it is killed together with all its descendants.
    """
    limited = ["prlimit", f"--data={MEMORY_BYTES}", *command]
    log = place.home.with_name("output.log")
    try:
        return fair_time.run(limited, limit_s, log, cwd=place.project, env=place.environment())
    except fair_time.TookTooLong as late:
        words = " ".join(command)[:200]
        waits = "stop" in command and WAITS.search(late.output) is not None
        expect(waits, f"{words} took longer than {limit_s:.1f} s: {late.output[-300:]}")
        return 0, late.output, limit_s


def judge(command: Sequence[str], place: Bench, limit_s: float) -> None:
    """Raise Failed if the forged input had an effect through this command."""
    _, output, _ = execute(command, place, limit_s)
    words = " ".join(command)[:200]
    expect(not place.mark.exists(), f"{words}: the forged text was executed")
    expect(CANARY not in output, f"{words}: printed text that it may not read")
    wrong = WRONG.search(output)
    expect(wrong is None, f"{words}: {output[max(0, wrong.start() - 200) : wrong.end() + 300] if wrong else ''}")
    control = None if "logs" in words or "submit" in words else CONTROL.search(output)
    expect(control is None, f"{words}: printed the control character {control[0]!r}" if control else "")


@cache
def usual_s(work: Path, kind: str) -> dict[str, float]:
    """Return the seconds that each reading command takes on unforged input."""
    setup = bench(work)
    setup.reset()
    return {" ".join(words): execute(words, setup, 120)[2] for words in readers(kind, setup.run.name)}


FORGERS: dict[str, Callable[[Path, Random, Path, Path], list[str]]] = {
    "run": forgeries.forge_run,
    "metrics": forgeries.forge_metrics,
    "checkpoint": forgeries.forge_checkpoint,
    "artifact": forgeries.forge_artifact,
}


def run(number: int, folder: Path) -> dict[str, Any]:
    chance, kind, setup = Random(number), KINDS[number % len(KINDS)], bench(folder.parent)
    if kind == "spec":
        setup.reset()
        words = draw_spec(setup.project, setup.outside, setup.mark, setup.home, chance)
        judge(["jobc", *words], setup, LIMIT_S + 2)
        leaks = subprocess.run(
            ["grep", "-rlF", CANARY, str(setup.project)], capture_output=True, text=True, check=False
        )
        expect(not leaks.stdout, f"jobc {' '.join(words)[:300]}: wrote the canary to {leaks.stdout}")
        return {"kind": kind, "forged": [word.replace(str(folder.parent), "WORK")[:80] for word in words]}
    usual = usual_s(folder.parent, kind)
    setup.reset()
    run_folder = setup.run
    forged = FORGERS[kind](
        setup.project / ARTIFACT if kind == "artifact" else run_folder, chance, setup.mark, setup.outside
    )
    for command in readers(kind, run_folder.name):
        try:
            judge(command, setup, LIMIT_S + 3 * usual[" ".join(command)])
        except Failed as failure:
            raise Failed(f"{kind} {forged}: {failure}", kind=kind) from failure
    expect(setup.outside.exists(), f"{kind} {forged}: a file outside was removed")
    return {"kind": kind, "forged": [ascii(name)[:80] for name in forged]}


def figure(lines: Sequence[Line]) -> str:
    through = sum(not line["ok"] for line in lines)
    return f"{through} of {len(lines)} got through; held: {k_of_n_by('kind')(lines)}"


CAMPAIGN = Campaign(
    name="hostile",
    claim=(
        "Forged input from an attacker is rejected or harmless: nothing is executed or leaked, and no command hangs"
        " or prints a traceback."
    ),
    trial=(
        "forges one thing at random: the state, names or metrics of a run folder, the files of an artifact, a"
        " checkpoint with valid hashes, or a spec with its files. Then `status`, `logs`, `clean`, `stop`, `submit"
        " --resume`, `jobc verify`, `why`, `diff` and a compile read it. The file that the forged text would create"
        " must not exist. A value from the environment, and one from a file outside the project, must not be"
        " printed or written. No command may print a traceback, a shell error or a control character. Each command"
        f" may take at most {LIMIT_S:.0f} s of CPU time and waiting beyond three times its usual time. Only `stop` may"
        " take longer, if it reports that it is waiting for a node that a state file places on another machine."
    ),
    count=350,
    run=run,
    figure=figure,
)
