"""Checks of the finished task, whoever said what stands there: a key of the job, `backend.config` or `backend.extra`.

JC4709 files, JC4711 what an infrastructure has not, JC4713 JC4714 queues, JC4715 `config`, JC4717 ports and
labels, JC4718 SkyPilot's own schema, JC4720 disks. A place leads to the key that said it (Finished.key).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...compiler.diagnostics import Diagnostic, nearest
from .._shared import kubernetes_fields
from .._shared.kubernetes_forms import DNS_NAME, LABEL_KEY, LABEL_VALUE
from . import checks_sbatch, schema
from .config import PODS
from .finished import SBATCH, Finished, Machine, mapping, text
from .known import CONFIG_KEYS, LEAST_DISK_GB, TIERS

ALTERNATIVES = ("backend.any_of", "backend.ordered")


def check(task: Finished) -> Iterator[Diagnostic]:
    yield from files(task)
    for machine in task.machines():
        yield from not_there(task, machine)
        yield from disk(task, machine)
    yield from one_list(task)
    yield from queue(task)
    yield from config(task)
    yield from pods(task)
    yield from ports(task)
    yield from labels(task)


def files(task: Finished) -> Iterator[Diagnostic]:
    """JC4709: a relative source would be looked for where `sky launch` is called; submit.sh checks the others."""
    for target, said in task.section("file_mounts").items():
        if not isinstance(said, (str, Mapping)):
            because, key = "it is a path, a bucket URL, or a mapping with a source", task.key(("file_mounts", target))
            yield Diagnostic("JC4709", f"{said!r} is no absolute path", because, f"leave out {key}", key=key)
    for key, source in task.local_files().items():
        if not re.match(r"/|~/", source):
            because = "SkyPilot looks for it in the folder where it is called, which is that of the run"
            title = f"{source!r} is no absolute path"
            yield Diagnostic("JC4709", title, because, f"~/{source}, or a bucket URL", key=key)


@dataclass(frozen=True)
class Lack:
    """What the machines of some clouds have not. field: of resources; asks: whether a value wants it; undo: a hint."""

    clouds: tuple[str, ...]
    field: str
    asks: Callable[[Any], bool]
    what: str
    because: str
    undo: str


LATE = "SkyPilot refuses it when it launches"
LACKS = (
    Lack(("slurm", "ssh"), "use_spot", bool, "has no spot machines", LATE, "backend.use_spot=false"),
    Lack(
        ("slurm",), "ports", bool, "opens no ports", "SkyPilot cannot open ports of Slurm's nodes", "backend.ports=[]"
    ),
    Lack(("slurm", *PODS), "local_disk", bool, "has no local_disk", "it is a part of a cloud's machine", ""),
    Lack(
        PODS, "disk_tier", lambda tier: tier not in (None, "best"), "has no disk_tier", LATE, "backend.disk_tier=null"
    ),
    Lack(
        ("slurm", *PODS),
        "autostop",
        lambda said: isinstance(said, Mapping) and not said.get("down"),
        "stops no machines",
        "SkyPilot can end them when they are idle, and not stop them",
        "backend.down=true, or backend.autostop=null",
    ),
)


def not_there(task: Finished, machine: Machine) -> Iterator[Diagnostic]:
    """JC4711: what SkyPilot's schema takes, and an infrastructure has not."""
    asked = machine.asked
    for lack in LACKS:
        is_pyxis = lack.field == "autostop" and machine.cloud == "slurm" and asked.get("image_id")  # stops containers
        if machine.cloud in lack.clouds and lack.asks(asked.get(lack.field)) and not is_pyxis:
            key = task.key(machine.place(lack.field))
            title, hint = f"{machine.cloud} {lack.what}", undo(key, lack.undo)
            yield Diagnostic("JC4711", title, lack.because, hint, key=key)
    if machine.cloud == "slurm" and asked.get("memory") and not task.options.tracks_memory:
        key = task.key(machine.place("memory"))
        because = "this Slurm does not track memory, and would not start what asks for some"
        yield Diagnostic("JC4711", "mem cannot be asked for", because, undo(key, "mem=null"), key=key)


def undo(key: str, instead: str) -> str:
    """The hint for a value that has to go, by who said it."""
    if key in ALTERNATIVES:
        return f"leave that entry of {key} out"
    return f"leave out {key}" if key.startswith("backend.extra.") or not instead else instead


def one_list(task: Finished) -> Iterator[Diagnostic]:
    """JC4718"""
    resources = task.section("resources")
    if resources.get("any_of") and resources.get("ordered"):
        because = "it takes the cheapest of the one, or the first of the other"
        hint = "backend.any_of=[], or backend.ordered=[]"
        title = "SkyPilot would refuse any_of beside ordered"
        yield Diagnostic("JC4718", title, because, hint, key="backend.ordered")


def queue(task: Finished) -> Iterator[Diagnostic]:
    """JC4713 a QOS that is none; JC4714 a priority out of range."""
    qos, known = text(task.section(*SBATCH).get("qos")), task.options.qos
    if qos and known is not None and qos not in known:
        key = task.key((*SBATCH, "qos"))
        because = f"backend.qos has {', '.join(known) or 'none'}; SkyPilot launches, and Slurm never starts it"
        hint = f"{key}={(nearest(qos, known) or [*known, 'null'])[0]}"
        yield Diagnostic("JC4713", f"no QOS {qos} at this site", because, hint, key=key)
    priority = task.section("resources").get("priority")
    if type(priority) is int and not -1000 <= priority <= 1000:
        key = task.key(("resources", "priority"))
        because = "a number is from -1000 to 1000; any other text is a priority class"
        yield Diagnostic("JC4714", f"priority {priority}", because, f"{key}={1000 if priority > 0 else -1000}", key=key)
    name = task.section("resources").get("priority_class")
    if isinstance(name, str) and re.fullmatch(r"[-+]?\d*\.\d+", name):  # which is a name of a-z, 0-9, dash and dot
        key = task.key(("resources", "priority_class"))
        because = "a number is whole, and SkyPilot would take this one for the name of a class"
        yield Diagnostic(
            "JC4714", f"priority {name}", because, f"{key}={max(-1000, min(1000, round(float(name))))}", key=key
        )
    elif isinstance(name, str) and not re.fullmatch(DNS_NAME, name):
        key = task.key(("resources", "priority_class"))
        because = "a number is from -1000 to 1000; a class has a name of a-z, 0-9, dash and dot"
        yield Diagnostic("JC4714", f"{name!r} is no class of priority", because, f"{key}=high", key=key)


def config(task: Finished) -> Iterator[Diagnostic]:
    """JC4715 keys that a task may not override, which SkyPilot drops; and options of sbatch."""
    for section, inner in task.section("config").items():
        known = CONFIG_KEYS.get(section)
        if known is None:
            because = f"of ~/.sky/config.yaml a task may set {', '.join(sorted(CONFIG_KEYS))}"
            yield _dropped(task, ("config", section), because, nearest(section, CONFIG_KEYS) or ["kubernetes"])
            continue
        for name in mapping(inner):
            if name not in known:
                because = f"a task may set {', '.join(known)} there, and any other key is taken and not read"
                yield _dropped(task, ("config", section, name), because, nearest(name, known) or [*known])
    yield from checks_sbatch.check(task)


def _dropped(task: Finished, at: schema.At, because: str, instead: list[str]) -> Diagnostic:
    key = task.key(at)
    hint = f"{key.rpartition('.')[0]}.{instead[0]}" if instead else f"leave out {key}"
    return Diagnostic("JC4715", f"SkyPilot would drop {key}", because, hint, key=key)


def disk(task: Finished, machine: Machine) -> Iterator[Diagnostic]:
    """JC4720: SkyPilot counts disks in whole GB, and asks for them when it launches; Slurm's nodes have their own."""
    place, said = machine.place("disk_size"), machine.asked.get("disk_size")
    least = 1 if machine.cloud in ("slurm", *PODS) else LEAST_DISK_GB.get(machine.cloud, min(LEAST_DISK_GB.values()))
    size, typed, key = _gigabytes(said), task.options.disk_size, task.key(place)
    if key == "backend.disk_size" and typed is not None:
        size = typed / 1024**3
    if size is not None and size < least:
        because = "SkyPilot counts whole GB" if least == 1 else "the image of the machine would not fit on it"
        title = f"a disk of {f'{size:.0f} GB' if size >= 1 else 'less than 1 GB'}"
        value = f"{least}GiB" if key == "backend.disk_size" else least
        yield Diagnostic("JC4720", title, because, f"{key}={value} or more", key=key)


def _gigabytes(said: Any) -> float | None:
    """A size as SkyPilot reads it, a number of GB or with a unit; None when it is none, which its schema says."""
    found = re.fullmatch(r"(\d+)(?:([kmgtp])[bi])?", str(said).lower())
    return int(found[1]) * 1024.0 ** ("kmgtp".index(found[2] or "g") - 2) if found else None


def pods(task: Finished) -> Iterator[Diagnostic]:
    """JC4540, JC4550: a pod_config with fields or words that Kubernetes has not. jobc's own part has none such."""
    typed = {
        ("backend", "config"): task.options.config,
        ("backend", "extra", "config"): task.options.extra.get("config"),
    }
    for at, said in typed.items():
        for section in PODS:
            given = mapping(mapping(said).get(section)).get("pod_config")
            for found in kubernetes_fields.check_pod(given, (*at, section, "pod_config")):
                because = "SkyPilot hands it on unread, and Kubernetes drops it or refuses the pods"
                yield replace(found, because=because)


def ports(task: Finished) -> Iterator[Diagnostic]:
    """JC4717"""
    said = task.section("resources").get("ports")
    for port in map(str, said if isinstance(said, list) else [] if said is None else [said]):
        first, dash, last = port.partition("-")
        numbers = [int(part) for part in (first, last if dash else first) if re.fullmatch(r"[0-9]{1,5}", part)]
        if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] < 2**16:
            key = task.key(("resources", "ports"))
            because = "it is PORT or FIRST-LAST, from 1 to 65535"
            yield Diagnostic("JC4717", f"{port!r} is no port", because, f"{key}=[6006, 8000-8010]", key=key)


def labels(task: Finished) -> Iterator[Diagnostic]:
    """JC4717, where machines are pods."""
    has_pods = any(machine.cloud in PODS for machine in task.machines())
    for name, said in task.section("resources", "labels").items() if has_pods else ():
        value = str(said)
        if not re.fullmatch(LABEL_KEY, name) or not re.fullmatch(LABEL_VALUE, value):
            key = task.key(("resources", "labels", name))
            because = "Kubernetes takes at most 63 of A-Za-z0-9-_. with a letter or digit at both ends"
            hint = f"{key}={re.sub(r'[^A-Za-z0-9]+', '-', value)[:63].strip('-')}"
            yield Diagnostic("JC4717", f"{key}={value!r} is no label", because, hint, key=key)


def by_schema(task: Finished) -> Iterator[Diagnostic]:
    """JC4718: SkyPilot's own schema, on the task as it will be written, and words that the schema leaves open."""
    for name, words in TIERS.items():
        tier = task.section("resources").get(name)
        if tier not in (None, *words):
            title, key = f"SkyPilot would refuse resources.{name}", task.key(("resources", name))
            hint = undo(key, f"backend.{name}={words[0]}")
            yield Diagnostic("JC4718", title, f"it must be one of {', '.join(words)}", hint, key=key)
    for at, why in schema.problems(task.tree):
        key = task.key(at)
        hint = f"leave out {key}" if key else "docs.skypilot.co/en/latest/reference/yaml-spec.html"
        yield Diagnostic("JC4718", f"SkyPilot would refuse {'.'.join(map(str, at))}", why, hint, key=key)
