"""Rules on a job from what its site says of its machines (section `site`, which a profile in cluster/ fills).

What a site does not say is unknown, and refuses nothing. A job with several partitions, `queue.name=a,b`, must fit one.
Each rule yields Diagnostics and never raises; check.py runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .convert import example, options_of, spec_keys, type_at
from .diagnostics import Diagnostic, alternatives, nearest
from .spec import JobSpec
from .values import show_bytes, show_duration

OLDEST_TORCH = (2, 4)  # that the trainer runs with; pyproject.toml, extra `trainer`


def partitions(spec: JobSpec) -> tuple[str, ...]:
    """The partitions that the job may run in, as far as it or the site says."""
    wanted = spec.queue.name or spec.site.partition
    return tuple(wanted.split(",")) if wanted else ()


def fact(spec: JobSpec, name: str, partition: str | None) -> Any:
    """What the site says of a partition, else of all machines; None for unknown. name: a field of PartitionSpec"""
    here = spec.site.partitions.get(partition or "")
    said = getattr(here, name) if here is not None else None
    return getattr(spec.site, name) if said is None else said


def most(spec: JobSpec, name: str) -> Any:
    """The largest value of a fact over the partitions the job may run in; None when it is unknown for one of them."""
    found = [fact(spec, name, partition) for partition in partitions(spec) or (None,)]
    return None if None in found else max(found)


def _too_much(code: str, spec: JobSpec, key: str, name: str, show: Any = str) -> Iterator[Diagnostic]:
    """A number of the job above the site's. key: of the job; name: of the fact."""
    asked, limit = getattr(spec, key), most(spec, name)
    if asked is None or limit is None or asked <= limit:
        return
    where = f"partition {','.join(partitions(spec))}" if partitions(spec) else "this site"
    unit = {"nodes": " nodes", "gpus": " GPUs on each node", "cpus": " cores on each node"}.get(key, "")
    because = f"{where} has {show(limit)}" + {"time": " as its longest time"}.get(key, unit)
    others = [other for other in spec.site.partitions if (fact(spec, name, other) or 0) >= asked]
    hint = alternatives([f"{key}={show(limit)}", *(f"queue.name={name}" for name in others[:2])])
    yield Diagnostic(code, f"{key}={show(asked)} is more than there is", because, hint, key=key)


def enough_gpus(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2060"""
    yield from _too_much("JC2060", spec, "gpus", "gpus")


def gpu_ids_there(spec: JobSpec, extra: Mapping[str, Any], section: str) -> Iterator[Diagnostic]:
    """JC2060: numbers in gpu_ids of accelerate, which count from 0. extra: what goes into accelerate.yaml

    What gpu_ids may be at all, and how many: accelerate_checks.py.
    """
    limit, ids = most(spec, "gpus"), extra.get("gpu_ids")
    beyond = [name for name in str(ids).split(",") if re.fullmatch(r"\d+", name) and limit and int(name) >= limit]
    if beyond:
        key = f"{section}.extra.gpu_ids"
        there = f"partition {','.join(partitions(spec))}" if partitions(spec) else "this site"
        because = f"{there} has {limit} GPUs on each node, and they are counted from 0"
        yield Diagnostic("JC2060", f"{key} names GPU {', '.join(beyond)}", because, f"{key}=all", key=key)


def kind_of_gpu(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2061"""
    known = [fact(spec, "gpu_types", partition) for partition in partitions(spec) or (None,)]
    if spec.gpu_type is None or None in known or any(spec.gpu_type in types for types in known):
        return
    names = sorted({name for types in known for name in types})
    because = f"it has {', '.join(names)}" if names else "its machines have no GPUs"
    hint = f"gpu_type={(nearest(spec.gpu_type, names) or names)[0]}" if names else "gpu_type=null gpus=0"
    yield Diagnostic("JC2061", f"no GPU {spec.gpu_type} at this site", because, hint, key="gpu_type")


def enough_cores_and_memory(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2062"""
    yield from _too_much("JC2062", spec, "cpus", "cpus")
    yield from _too_much("JC2062", spec, "mem", "mem", show_bytes)


def time_within_limit(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2063"""
    yield from _too_much("JC2063", spec, "time", "time", show_duration)


def known_partition(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2064"""
    known = spec.site.partitions
    for name in partitions(spec) if known else ():
        if name not in known:
            key = "queue.name" if spec.queue.name else "site.partition"
            hint = f"{key}={(nearest(name, known) or sorted(known))[0]}"
            because = f"there are {', '.join(sorted(known))}"
            yield Diagnostic("JC2064", f"no partition {name} at this site", because, hint, key=key)


def enough_nodes(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2065"""
    yield from _too_much("JC2065", spec, "nodes", "nodes")


def torch_is_new_enough(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2066"""
    version = re.match(r"(\d+)\.(\d+)", spec.site.torch or "")
    if version and spec.command is None and (int(version[1]), int(version[2])) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        because = f"the trainer that comes with jobc needs {oldest} or newer"
        hint = "your own program after --, or site.torch=null if the job's own environment has another"
        yield Diagnostic("JC2066", f"the site has torch {spec.site.torch}", because, hint, key="site.torch")


def what_the_site_requires(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2067 keys that are not set; JC2068 a requirement that is no key."""
    if not spec.site.requires:
        return
    known = spec_keys(JobSpec)
    for key in spec.site.requires:
        if key not in known:
            close = nearest(key, known)
            hint = f"site.requires=[{close[0]}]" if close else "site.requires=[queue.account]"
            yield Diagnostic("JC2068", f"the site requires {key}", "there is no such key", hint, key="site.requires")
    missing = [key for key in spec.site.requires if key in known and _value(spec, key) in (None, (), {})]
    if missing:
        lines = [f"{key}={example(options_of(type_at(JobSpec, key)))}" for key in missing]
        title = f"this site needs {' and '.join(missing)}"
        because = "its profile says so (site.requires), and nothing sets " + ("it" if len(missing) == 1 else "them")
        hint = f"{' '.join(lines)}, here or in the profile"
        yield Diagnostic("JC2067", title, because, hint, key=missing[0])


def _value(spec: JobSpec, key: str) -> Any:
    here: Any = spec
    for part in key.split("."):
        here = here.get(part) if isinstance(here, Mapping) else getattr(here, part, getattr(here, f"{part}_", None))
    return here


SITE_RULES = (
    enough_gpus,
    kind_of_gpu,
    enough_cores_and_memory,
    time_within_limit,
    known_partition,
    enough_nodes,
    torch_is_new_enough,
    what_the_site_requires,
)
