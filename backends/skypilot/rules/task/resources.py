"""`resources` of the finished task: JC4711, JC4714, JC4717, JC4718, JC4720."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...._shared.kubernetes_formats import DNS_NAME, LABEL_KEY, LABEL_VALUE
from ...config import PODS, SITES
from ...finished_task import FinishedTask, removal_hint

# Minimum disk in GB: the size of SkyPilot's machine image (DEFAULT_AMI_GB and similar in sky/clouds/), or the cloud's
# own minimum (scp). For other clouds, the smallest of these applies.
LEAST_DISK_GB: Mapping[str, int] = {"aws": 45, "gcp": 50, "azure": 30, "scp": 100}

LATE = "SkyPilot rejects this setting at launch"
# field in `resources` -> clouds that lack the feature, whether a value needs it, title, because, override without it
MISSING: Mapping[str, tuple[tuple[str, ...], Callable[[Any], bool], str, str, str]] = {
    "use_spot": (("slurm", "ssh"), bool, "has no spot machines", LATE, "backend.use_spot=false"),
    "ports": (("slurm",), bool, "cannot open ports", LATE, "backend.ports=[]"),
    "local_disk": (SITES, bool, "has no local_disk", "only cloud machines have a local disk", ""),
    "disk_tier": (PODS, lambda tier: tier not in (None, "best"), "has no disk_tier", LATE, "backend.disk_tier=null"),
    "autostop": (
        SITES,
        lambda autostop: isinstance(autostop, Mapping) and not autostop.get("down"),
        "cannot stop machines",
        "SkyPilot can delete idle machines there, but not stop them",
        "backend.down=true, or backend.autostop=null",
    ),
}


def check_missing_feature(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4711: a setting that SkyPilot's schema accepts but the infrastructure lacks."""
    for machine in task.machines():
        for field, (clouds, is_needed, title, because, undo) in MISSING.items():
            # with Pyxis, SkyPilot can stop the containers
            is_pyxis = field == "autostop" and machine.cloud == "slurm" and machine.asked.get("image_id")
            if machine.cloud in clouds and is_needed(machine.asked.get(field)) and not is_pyxis:
                key = task.key_that_set(machine.field_path(field))
                yield Diagnostic("JC4711", f"{machine.cloud} {title}", because, removal_hint(key, undo), key=key)


def check_untracked_memory(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4711: memory requested on a Slurm cluster that does not track memory."""
    for machine in task.machines():
        if machine.cloud == "slurm" and machine.asked.get("memory") and not task.options.tracks_memory:
            key = task.key_that_set(machine.field_path("memory"))
            title = "mem is not supported on this slurm"
            because = "this Slurm does not track memory, and rejects jobs that request it"
            yield Diagnostic("JC4711", title, because, removal_hint(key, "mem=null"), key=key)


def check_small_disk(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4720: a disk that is smaller than 1 GB (SkyPilot's unit) or too small for the cloud's machine image."""
    for machine in task.machines():
        least = 1 if machine.cloud in SITES else LEAST_DISK_GB.get(machine.cloud, min(LEAST_DISK_GB.values()))
        size, typed = _parse_gigabytes(machine.asked.get("disk_size")), task.options.disk_size
        key = task.key_that_set(machine.field_path("disk_size"))
        if key == "backend.disk_size" and typed is not None:
            size = typed / 1024**3  # before it was rounded up
        if size is not None and size < least:
            because = "SkyPilot counts whole GB" if least == 1 else "the machine image would not fit on the disk"
            title = f"disk too small: {f'{size:.0f} GB' if size >= 1 else 'less than 1 GB'}"
            value = f"{least}GiB" if key == "backend.disk_size" else least
            yield Diagnostic("JC4720", title, because, f"{key}={value} or more", key=key)


def _parse_gigabytes(size: Any) -> float | None:
    """Return a size in GB, from a number of GB or text with a unit, or None if it is invalid, as the schema reports."""
    match = re.fullmatch(r"(\d{1,17})(?:([kmgtp])[bi])?", str(size).lower())
    return int(match[1]) * 1024.0 ** ("kmgtp".index(match[2] or "g") - 2) if match else None


def check_priority(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4714: a priority that is neither an integer in SkyPilot's range nor a valid class name."""
    because = "a priority must be an integer from -1000 to 1000, or a class name of a-z, 0-9, dash and dot"
    for field in ("priority", "priority_class"):
        value, key = task.section("resources").get(field), task.key_that_set(("resources", field))
        # numbers such as 0.5 or 010 would also be valid class names
        if re.fullmatch(r"[-+]?([0-9]+|[0-9]*\.[0-9]+)", str(value)):
            if type(value) is not int or not -1000 <= value <= 1000:
                hint = f"{key}={round(max(-1000, min(1000, float(str(value)))))}"
                yield Diagnostic("JC4714", f"priority {value} is invalid", because, hint, key=key)
        elif isinstance(value, str) and not re.fullmatch(DNS_NAME, value):
            yield Diagnostic("JC4714", f"{value!r} is not a priority class", because, f"{key}=high", key=key)


def check_invalid_pod_label(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4717: a label that is invalid for pods, on infrastructure whose machines are pods."""
    if not any(machine.cloud in PODS for machine in task.machines()):
        return
    for name, label in task.section("resources", "labels").items():
        value = str(label)
        if not re.fullmatch(LABEL_KEY, name) or not re.fullmatch(LABEL_VALUE, value):
            key = task.key_that_set(("resources", "labels", name))
            title = f"{key}={value!r} is not a valid label"
            because = "a label value must have at most 63 characters, all from A-Za-z0-9-_., and must start and end"
            because += " with a letter or digit"
            hint = f"{key}={re.sub(r'[^A-Za-z0-9]+', '-', value)[:63].strip('-')}"
            yield Diagnostic("JC4717", title, because, hint, key=key)


def check_invalid_port(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4717: an invalid port."""
    ports = task.section("resources").get("ports")
    for port in map(str, ports if isinstance(ports, list) else [] if ports is None else [ports]):
        first, dash, last = port.partition("-")
        numbers = [int(part) for part in (first, last if dash else first) if re.fullmatch(r"[0-9]{1,5}", part)]
        if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] < 2**16:
            key = task.key_that_set(("resources", "ports"))
            because = "an entry must be PORT or FIRST-LAST, from 1 to 65535"
            yield Diagnostic("JC4717", f"{port!r} is not a port", because, f"{key}=[6006,8000-8010]", key=key)


def check_any_of_and_ordered(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4718: both any_of and ordered are set, but SkyPilot accepts only one."""
    resources = task.section("resources")
    if resources.get("any_of") and resources.get("ordered"):
        because = "SkyPilot picks the cheapest of any_of, or the first of ordered"
        hint = "backend.any_of=[], or backend.ordered=[]"
        title = "SkyPilot would reject any_of together with ordered"
        yield Diagnostic("JC4718", title, because, hint, key="backend.ordered")
