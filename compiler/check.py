"""Rules on a JobSpec that hold for every backend. Each yields Diagnostics and never raises; all run, all report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..trainer import train_json
from ..trainer.env import TABLE
from ..trainer.errors import BrokenInput
from .diagnostics import Diagnostic, Severity
from .lower import brings_code, inventory, thaw, world_size
from .parallel_rules import PARALLEL_RULES
from .plan import LaunchPlan
from .private import PRIVATE_RULES
from .site import SITE_RULES
from .spec import JobSpec
from .values import show_bytes

Rule = Callable[[JobSpec], Iterable[Diagnostic]]

_RESERVED = {row.name for row in TABLE} | {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED"}


def check(spec: JobSpec) -> list[Diagnostic]:
    """Every finding of every rule."""
    return [finding for rule in RULES for finding in rule(spec)]


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


def shared_memory_is_memory(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2017; a pod is refused, by JC4508."""
    if spec.shm and spec.mem and spec.shm >= spec.mem and spec.container.kind != "pod":
        because = "/dev/shm counts into the memory of the job, which is killed when it is full"
        hint = f"mem={show_bytes(2 * spec.shm)}"
        title, level = f"shm={show_bytes(spec.shm)} is not less than mem={show_bytes(spec.mem)}", Severity.WARNING
        yield Diagnostic("JC2017", title, because, hint, key="shm", severity=level)


def steps_or_epochs(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2004"""
    if (spec.loop.steps is None) == (spec.loop.epochs is None):
        both = spec.loop.steps is not None
        because = "both are set, and they disagree about the end" if both else "neither is set, so it would never end"
        hint = f"loop.epochs=null, to run {spec.loop.steps} steps" if both else "loop.steps=400"
        yield Diagnostic("JC2004", "set exactly one of loop.steps and loop.epochs", because, hint, key="loop.epochs")


def enough_hosts(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2005"""
    if spec.hosts is None or len(usable := inventory(spec, spec.hosts)) >= spec.nodes:
        return
    left = f", without the {len(spec.hosts) - len(usable)} of queue.exclude" if len(usable) < len(spec.hosts) else ""
    yield Diagnostic(
        "JC2005",
        f"{len(usable)} host{'s' * (len(usable) != 1)} for {spec.nodes} nodes",
        f"each node needs a host of its own{left}",
        f"nodes={len(usable)}, or name more hosts" if usable else "name other hosts, or queue.exclude=null",
        key="hosts",
    )


def derived_variables(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2006 a variable that the launcher sets; JC2007 one name in env and secrets."""
    for name in spec.env:
        if is_derived(name):
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


def network_settings(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2050 a setting without a value, or of a variable that is derived; JC2051 a fabric that no rank uses."""
    for i, setting in enumerate(spec.network.settings):
        key = f"network.settings.{i}.name"
        if not setting.value:
            because = "set to nothing is not the same as not set, and no wish"
            hint = f"{setting.name}: 0, or leave {setting.name} out"
            yield Diagnostic("JC2050", f"network.settings gives {setting.name} no value", because, hint, key=key)
        elif is_derived(setting.name):
            because = "a value by hand would contradict the launcher's"
            yield Diagnostic("JC2050", f"{setting.name} is derived, never typed", because, "leave it out", key=key)
    fabric = spec.network.profile
    if spec.gpus == 0 and spec.nodes > 1 and fabric not in ("auto", "ethernet"):
        title = f"network={fabric} has no effect on ranks without GPUs"
        because = "it is NCCL that uses the fabric; ranks on CPUs talk with Gloo, over TCP"
        hint = "gpus=8, the GPUs of a node; or network=ethernet"
        yield Diagnostic("JC2051", title, because, hint, key="network.profile", severity=Severity.NOTE)


def is_derived(name: str) -> bool:
    """Whether a variable is a launcher's or ours, and so never a user's to set."""
    return name in _RESERVED or name.startswith("JOBC_")


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
        because = f"{spec.container.kind} has nothing to run; `image` says what, on a backend that runs containers"
        yield Diagnostic(
            "JC2009",
            f"container={spec.container.kind} needs an image",
            because,
            "image=pytorch/pytorch:2.9.0" if spec.container.kind == "pod" else "container=none",
            key="image",
        )


def image_is_a_name(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2033: no runtime takes spaces, and a dash in front makes an option of it."""
    if spec.image is not None and not re.fullmatch(r"[^\s-]\S*", spec.image):
        because = "an image is NAME:TAG, a URI or a file, in one word"
        yield Diagnostic("JC2033", f"image: {spec.image!r} is no image", because, "image=NAME:TAG", key="image")


def code_of_a_commit(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4514"""
    if spec.code.kind != "git" or not brings_code(spec):
        return
    for key, value, form, example in (
        ("repository", spec.code.repository, r"[^\s-]\S*", "https://github.com/ORG/NAME"),
        ("commit", spec.code.commit, r"[0-9a-f]{40}([0-9a-f]{24})?", "0123456789abcdef0123456789abcdef01234567"),
    ):
        if value is None or not re.fullmatch(form, value):
            title = f"code=git needs code.{key}" if value is None else f"code.{key}: {value!r} is no {key}"
            because = "a run has the code of one commit, which `git rev-parse HEAD` prints; a branch moves"
            yield Diagnostic("JC4514", title, because, f"code.{key}={example}", key=f"code.{key}")


def python_of_the_image(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2030"""
    if spec.python.kind == "image" and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "env=none; or image=NAME:TAG and container=docker, apptainer, pyxis or pod"
        yield Diagnostic("JC2030", "env=image, and there is no image", because, hint, key="python.kind")


def mounts_are_visible(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2031 a mount into no container; JC2032 a path that is not absolute."""
    for i, mount in enumerate(spec.mounts):
        at_home = mount.kind == "host"
        if at_home and spec.container.kind == "none":
            title, because = (
                f"{mount.source} cannot be mounted",
                "container=none sees the folders of the node as they are",
            )
            yield Diagnostic("JC2031", title, because, "mounts=[]", key=f"mounts.{i}.kind")
        for name, path in (("source", mount.source), ("target", mount.target)):
            if not path.startswith("/") and (at_home or name == "target"):
                because = "the node and the container have no folder in common to start from"
                title, hint = f"mounts: {path} is not an absolute path", f"{name}: /{path.lstrip('./~')}"
                yield Diagnostic("JC2032", title, because, hint, key=f"mounts.{i}.{name}")


def restarts_need_a_launcher_of_the_node(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2010"""
    if spec.lifecycle.max_restarts and spec.launcher == "srun":
        because = "the tasks of srun end with their ranks, and only Slurm starts tasks"
        hint = "lifecycle.max_restarts=0, for Slurm requeues the job; or launcher=torchrun"
        title = "launcher srun cannot start ranks again in place"
        yield Diagnostic("JC2010", title, because, hint, key="lifecycle.max_restarts")


def c10d_is_of_torchrun(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2016"""
    if spec.rendezvous.backend == "c10d" and spec.launcher != "torchrun":
        because = "it is a way for torchrun's agents to meet, and no other launcher of jobc has them or may choose"
        title = f"rendezvous.backend=c10d, and launcher={spec.launcher}"
        hint = "rendezvous.backend=static; or launcher=torchrun"
        yield Diagnostic("JC2016", title, because, hint, key="rendezvous.backend")


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


def runs_in_a_bucket(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2080 a root that is no bucket, or should not be one; JC2081 an endpoint that is none, or of nothing."""
    root, is_object = spec.storage.root, spec.storage.run == "object"
    if is_object and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?", root):
        because = "a bucket's name is 3 to 63 of a-z, 0-9, dash and dot, and the runs lie below a prefix in it"
        hint = "storage.root=s3://my-bucket/runs"
        yield Diagnostic("JC2080", f"storage.root={root} is no bucket", because, hint, key="storage.root")
    elif not is_object and re.match(r"[a-z0-9]+://", root):
        because = f"with storage.run={spec.storage.run} it is a folder"
        hint = "storage.run=object" if root.startswith("s3://") else "storage.root=runs"
        yield Diagnostic("JC2080", f"storage.root={root} is no folder", because, hint, key="storage.root")
    endpoint = spec.storage.endpoint
    if endpoint is not None and not is_object:
        because = f"storage.run={spec.storage.run} asks no object store"
        hint = "storage.endpoint=null, or storage.run=object"
        yield Diagnostic("JC2081", "an endpoint of nothing", because, hint, key="storage.endpoint")
    elif endpoint is not None and not re.fullmatch(r"https?://[\w.-]+(:\d{1,5})?(/\S*)?", endpoint):
        because = "it is http or https, a host, and a port if it is not the usual one"
        hint = "storage.endpoint=https://minio.example.org:9000"
        yield Diagnostic("JC2081", f"no endpoint {endpoint!r}", because, hint, key="storage.endpoint")


def caches_can_serve(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2069 a folder in /tmp that all users of a node would share; or downloads that no node would see."""
    for key in ("downloads", "compiled"):
        folder = getattr(spec.caches, key)
        if folder and _is_temporary(folder) and "$UID" not in folder:
            title = f"caches.{key}={folder} is one folder for all users of a node"
            because = "what the first of them makes there is closed to the others"
            hint = f"caches.{key}={shlex.quote(folder.rstrip('/') + '-$UID')}"
            yield Diagnostic("JC2069", title, because, hint, key=f"caches.{key}")
    if spec.caches.prefetch and _is_temporary(spec.caches.downloads or ""):
        title = f"what prefetch.sh brings to {spec.caches.downloads} is on one machine"
        because = "each node has a /tmp of its own, and would find nothing there"
        yield Diagnostic("JC2069", title, because, "caches=shared", key="caches.prefetch")


def _is_temporary(folder: str) -> bool:
    return folder.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) or folder in ("/tmp", "/var/tmp", "/dev/shm")


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
        train_json.parse(thaw(train))
    except BrokenInput as error:
        return tuple(error.details)
    return ()


def _mended(train: Any, key: str) -> str:
    """`key=value` with the nearest number, or list of two, of which the trainer refuses less; "" when none is near."""
    tree = thaw(train)
    section, _, name = key.partition(".")
    value = (tree.get(section) or {}).get(name)
    near: list[Any] = [0.1, 1, 0.0]
    if isinstance(value, list) and not all(isinstance(item, float) for item in value):
        near = [[0], []] if sorted(value) == value else [sorted(value)]
    elif isinstance(value, list):
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
    batch_divides,
    shared_memory_is_memory,
    steps_or_epochs,
    enough_hosts,
    derived_variables,
    network_settings,
    image_and_container,
    image_is_a_name,
    python_of_the_image,
    mounts_are_visible,
    restarts_need_a_launcher_of_the_node,
    c10d_is_of_torchrun,
    python_needs_path,
    command_has_words,
    caches_can_serve,
    runs_in_a_bucket,
    code_of_a_commit,
    *PARALLEL_RULES,
    *PRIVATE_RULES,
    *SITE_RULES,
)
