"""Rules on a JobSpec that hold for every backend. Each yields Diagnostics and never raises; all run, all report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..trainer import config
from ..trainer.env import TABLE
from ..trainer.errors import BrokenInput
from .diagnostics import Diagnostic
from .lower import procs, thaw, world_size
from .plan import LaunchPlan
from .spec import JobSpec

Rule = Callable[[JobSpec], Iterable[Diagnostic]]

_RESERVED = {row.name for row in TABLE} | {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED"}


def check(spec: JobSpec) -> list[Diagnostic]:
    """Every finding of every rule."""
    return [finding for rule in RULES for finding in rule(spec)]


def more_processes_than_gpus(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2001"""
    if spec.gpus and procs(spec) > spec.gpus:
        yield Diagnostic(
            "JC2001",
            f"{procs(spec)} processes on {spec.gpus} GPU{'s' * (spec.gpus > 1)} per node",
            "two ranks on one GPU hang in NCCL (Duplicate GPU detected)",
            f"procs={spec.gpus}, or gpus={procs(spec)}, or gpus=0 for the CPU",
            key="procs",
        )


def batch_divides(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2002 two settings that contradict, JC2003 a global batch that cannot be split."""
    micro, accumulation, total, world = spec.batch.micro, spec.batch.accumulation, spec.batch.global_, world_size(spec)
    if total is None:
        return
    if accumulation is not None and micro * accumulation * world != total:
        yield Diagnostic(
            "JC2002",
            f"batch.global={total} contradicts batch.accumulation={accumulation}",
            f"micro {micro} x accumulation {accumulation} x {world} ranks = {micro * accumulation * world}",
            "batch.accumulation=null, then it is computed",
            key="batch.global",
        )
    elif accumulation is None and total % (micro * world):
        unit = micro * world
        below, above = total // unit * unit, (total // unit + 1) * unit
        nearest = f"batch.global={below} or {above}" if below else f"batch.global={above}"
        yield Diagnostic(
            "JC2003",
            f"batch.global={total} cannot be split over {world} rank{'s' * (world > 1)}",
            f"it must be a multiple of micro {micro} x {world} ranks = {unit}",
            nearest,
            key="batch.global",
        )


def steps_or_epochs(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2004"""
    if (spec.loop.steps is None) == (spec.loop.epochs is None):
        both = spec.loop.steps is not None
        because = "both are set, and they disagree about the end" if both else "neither is set, so it would never end"
        hint = f"loop.epochs=null, to run {spec.loop.steps} steps" if both else "loop.steps=400"
        yield Diagnostic("JC2004", "set exactly one of loop.steps and loop.epochs", because, hint, key="loop.epochs")


def enough_hosts(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2005"""
    if spec.hosts is not None and len(spec.hosts) < spec.nodes:
        yield Diagnostic(
            "JC2005",
            f"{len(spec.hosts)} host{'s' * (len(spec.hosts) > 1)} for {spec.nodes} nodes",
            "each node needs a host of its own",
            f"nodes={len(spec.hosts)}, or name more hosts",
            key="hosts",
        )


def derived_variables(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2006 a variable that the launcher sets; JC2007 one name in env and secrets."""
    for name in spec.env:
        if name in _RESERVED or name.startswith("JOBC_"):
            yield Diagnostic(
                "JC2006",
                f"env.{name} is derived, never typed",
                "a value by hand would contradict the launcher's",
                _instead(name, spec.env[name]),
                key=f"env.{name}",
            )
        if name in spec.secrets:
            because = "the rank would get one of the two, by chance"
            yield Diagnostic("JC2007", f"{name} is in env and in secrets", because, f"~env.{name}", key=f"env.{name}")


def _instead(name: str, value: str) -> str:
    keys = {"OMP_NUM_THREADS": "threads", "MASTER_PORT": "rendezvous.port"}
    if name in keys and value.isdigit():
        return f"{keys[name]}={value}"
    return "nodes=2 procs=4" if name == "WORLD_SIZE" else f"~env.{name}"


def image_and_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2008 an image that nothing runs; JC2009 a runtime without an image."""
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "image=null; or a backend that has one of container=docker, apptainer, pyxis and pod"
        yield Diagnostic("JC2008", "image is set, but no container runs it", because, hint, key="image")
    if spec.image is None and spec.container.kind != "none":
        because = f"{spec.container.kind} has nothing to run"
        yield Diagnostic(
            "JC2009",
            f"container={spec.container.kind} needs an image",
            because,
            "container=none; or image=NAME:TAG with a backend that runs containers",
            key="image",
        )


def python_needs_path(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2011"""
    if spec.python.kind in ("venv", "uv", "conda") and spec.python.path is None:
        because = f"env={spec.python.kind} activates a folder"
        yield Diagnostic("JC2011", "python.path is not set", because, "python.path=.venv", key="python.path")


def command_has_words(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2012 a command without a program; JC2013 a NUL character, which no process can be given."""
    if spec.command == ():
        because = "there is no program to run"
        hint = "a program after --, such as -- train.py; with no -- at all the trainer runs"
        yield Diagnostic("JC2012", "command is empty", because, hint, key="command")
    elif spec.command and spec.command[0].startswith("-") and spec.command[0] != "-m":  # -m MODULE is for Python
        title, because = f"command begins with {spec.command[0]}", "the first word after -- is the program"
        hint = f"-- train.py {shlex.join(spec.command)}"
        yield Diagnostic("JC2012", title, because, hint, key="command")
    words = [("command", word) for word in spec.command or ()] + [(f"env.{n}", v) for n, v in spec.env.items()]
    for key, word in words:
        if "\0" in word:
            because = "the operating system ends a word at NUL"
            yield Diagnostic("JC2013", f"{key} holds a NUL character", because, "remove it", key=key)


def check_training(plan: LaunchPlan, is_set: Callable[[str], bool]) -> Iterator[Diagnostic]:
    """JC2020: what the trainer itself would refuse at start, found now, by its own rules.

    is_set: whether somebody set a key, beside jobc's own files; that one is to blame
    """
    if not plan.uses_trainer:
        return
    for problem in _refused(plan.train):
        keys = re.findall(r"[a-z_]+\.[a-z_]+", problem)
        key = next(filter(is_set, keys), keys[0] if keys else "")
        hint = _mended(plan.train, key) or f"give {key or 'the key'} another value"
        if key.endswith(".kind"):
            hint = "task=digits or task=gpt_tiny: a model and its data"
        yield Diagnostic("JC2020", problem, "the trainer refuses this at start", hint, key=key)


def _refused(train: Any) -> tuple[str, ...]:
    """What the trainer says against a train.json, `path: what is wrong` each."""
    try:
        config.parse(thaw(train))
    except BrokenInput as error:
        return tuple(error.details)
    return ()


def _mended(train: Any, key: str) -> str:
    """`key=value` with the nearest number, or list of two, of which the trainer refuses less; "" when none is near."""
    tree = thaw(train)
    section, _, name = key.partition(".")
    value = tree.get(section, {}).get(name)
    near: list[Any] = [0.1, 1, 0.0]
    if isinstance(value, list):
        near = [[0.1 if i in wrong else v for i, v in enumerate(value)] for wrong in ({0}, {1}, {0, 1})]
    elif isinstance(value, int):
        near = [value + sign * n for n in range(1, 65) for sign in (1, -1)] + [1]
    elif not isinstance(value, float):
        return ""
    before = len(_refused(tree))
    for candidate in near:
        tree[section][name] = candidate
        if len(_refused(tree)) < before:
            return f"{key}={candidate}".replace(" ", "")
    return ""


RULES: tuple[Rule, ...] = (
    more_processes_than_gpus,
    batch_divides,
    steps_or_epochs,
    enough_hosts,
    derived_variables,
    image_and_container,
    python_needs_path,
    command_has_words,
)
