"""Rules on a JobSpec that hold for every backend. Each yields Diagnostics and never raises; all run, all report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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
                _instead(name),
                key=f"env.{name}",
            )
        if name in spec.secrets:
            because = "the rank would get one of the two, by chance"
            yield Diagnostic("JC2007", f"{name} is in env and in secrets", because, f"~env.{name}", key=f"env.{name}")


def _instead(name: str) -> str:
    by_key = {"OMP_NUM_THREADS": "threads=4", "MASTER_PORT": "rendezvous.port=29500", "WORLD_SIZE": "nodes=2 procs=4"}
    return by_key.get(name, f"~env.{name}")


def image_and_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2008 an image that nothing runs; JC2009 a runtime without an image."""
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "container=docker, apptainer, pyxis or pod; or image=null"
        yield Diagnostic("JC2008", "image is set, but no container runs it", because, hint, key="image")
    if spec.image is None and spec.container.kind != "none":
        because = f"{spec.container.kind} has nothing to run"
        yield Diagnostic(
            "JC2009",
            f"container={spec.container.kind} needs an image",
            because,
            "container=none, or image=NAME:TAG",
            key="image",
        )


def restarts_need_torchrun(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2010"""
    if spec.lifecycle.max_restarts and spec.launcher != "torchrun":
        because = "only torchrun restarts ranks in place"
        hint = "lifecycle.max_restarts=0; a requeue starts all ranks afresh"
        yield Diagnostic(
            "JC2010", f"launcher {spec.launcher} cannot restart ranks", because, hint, key="lifecycle.max_restarts"
        )


def python_needs_path(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2011"""
    if spec.python.kind in ("venv", "uv", "conda") and spec.python.path is None:
        because = f"env={spec.python.kind} activates a folder"
        yield Diagnostic("JC2011", "python.path is not set", because, "python.path=.venv", key="python.path")


def command_has_words(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2012 an empty command; JC2013 a NUL character, which no process can be given."""
    if spec.command == ():
        because = "there is no program to run"
        hint = "a program after --, such as -- train.py; with no -- at all the trainer runs"
        yield Diagnostic("JC2012", "command is empty", because, hint, key="command")
    words = [("command", word) for word in spec.command or ()] + [(f"env.{n}", v) for n, v in spec.env.items()]
    for key, word in words:
        if "\0" in word:
            because = "the operating system ends a word at NUL"
            yield Diagnostic("JC2013", f"{key} holds a NUL character", because, "remove it", key=key)


def check_training(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC2020: what the trainer itself would refuse at start, found now, by its own rules."""
    if not plan.uses_trainer:
        return
    try:
        config.parse(thaw(plan.train))
    except BrokenInput as error:
        for problem in error.details:
            path, _, words = problem.partition(": ")
            key = path.replace("[", ".").replace("]", "") if words else ""
            title = f"{path}: {words}" if words else problem
            hint = "task=digits or task=gpt_tiny: a model and its data" if ".kind" in path else f"set {path}"
            yield Diagnostic("JC2020", title, "the trainer refuses this at start", hint, key=key)


RULES: tuple[Rule, ...] = (
    more_processes_than_gpus,
    batch_divides,
    steps_or_epochs,
    enough_hosts,
    derived_variables,
    image_and_container,
    restarts_need_torchrun,
    python_needs_path,
    command_has_words,
)
