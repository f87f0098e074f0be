"""Limits and requirements of the site: JC2060 to JC2068."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, join_with_or, nearest
from ...spec.examples import example_value
from ...spec.job_spec import JobSpec
from ...spec.site_facts import describe_partitions, possible_partitions, site_fact, site_limit
from ...spec.type_hints import spec_keys, type_of_key, union_members
from ...spec.value_types import format_bytes, format_duration

_OLDEST = (2, 4)  # oldest version that the trainer supports; pyproject.toml, extra `trainer`


_LIMITS: tuple[tuple[str, str, Callable[[int], str], str], ...] = (  # code, key of the job and the site, format, unit
    ("JC2065", "nodes", str, " nodes"),
    ("JC2060", "gpus", str, " GPUs on each node"),  # checks/accelerate.py checks the numbers in gpu_ids
    ("JC2062", "cpus", str, " cores on each node"),
    ("JC2062", "mem", format_bytes, ""),
    ("JC2063", "time", format_duration, " as its maximum time"),
)


def check_site_excess(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2060, JC2062, JC2063, JC2065: the job requests more than the site, a node or the partition has."""
    for code, key, show, unit in _LIMITS:
        requested, limit = getattr(spec, key), site_limit(spec, key)
        if requested is None or limit is None or requested <= limit:
            continue
        because = f"{describe_partitions(spec)} has {show(limit)}{unit}"
        others = [name for name in spec.site.partitions if (site_fact(spec, key, name) or 0) >= requested]
        hint = join_with_or([f"{key}={show(limit)}", *(f"queue.name={name}" for name in others[:2])])
        yield Diagnostic(code, f"{key}={show(requested)} exceeds the site's limit", because, hint, key=key)


def check_unavailable_gpu_type(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2061: a GPU type that the site does not have."""
    gpu_types = [site_fact(spec, "gpu_types", partition) for partition in possible_partitions(spec) or (None,)]
    if spec.gpu_type is None or None in gpu_types or any(spec.gpu_type in types for types in gpu_types):
        return
    names = sorted({name for types in gpu_types for name in types})
    because = f"the site has {', '.join(names)}" if names else "the site's machines have no GPUs"
    hint = f"gpu_type={(nearest(spec.gpu_type, names) or names)[0]}" if names else "gpu_type=null gpus=0"
    yield Diagnostic("JC2061", f"GPU {spec.gpu_type} is not available at this site", because, hint, key="gpu_type")


def check_unknown_partition(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2064: a partition that the site does not have."""
    site_partitions = spec.site.partitions
    for name in possible_partitions(spec) if site_partitions else ():
        if name not in site_partitions:
            key = "queue.name" if spec.queue.name else "site.partition"
            hint = f"{key}={(nearest(name, site_partitions) or sorted(site_partitions))[0]}"
            because = f"partitions of this site: {', '.join(sorted(site_partitions))}"
            yield Diagnostic("JC2064", f"partition {name} does not exist at this site", because, hint, key=key)


def check_site_requirements(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2067, JC2068: a missing value that the site requires, or an unknown key in site.requires."""
    known_keys = spec_keys(JobSpec) if spec.site.requires else ()
    missing = []
    for key in spec.site.requires:
        if key not in known_keys:
            close = nearest(key, known_keys)
            hint = f"site.requires=[{close[0]}]" if close else "site.requires=[queue.account]"
            yield Diagnostic("JC2068", f"the site requires {key}", "the key does not exist", hint, key="site.requires")
        elif _value_of_key(spec, key) in (None, (), {}):
            missing.append(key)
    if missing:
        lines = [f"{key}={example_value(union_members(type_of_key(JobSpec, key)))}" for key in missing]
        title = f"this site needs {' and '.join(missing)}"
        these, them = ("this key", "it") if len(missing) == 1 else ("these keys", "them")
        because = f"the cluster profile requires {these} (site.requires), and nothing sets {them}"
        hint = f"{' '.join(lines)}, here or in the profile"
        yield Diagnostic("JC2067", title, because, hint, key=missing[0])


def _value_of_key(spec: JobSpec, key: str) -> Any:
    value: Any = spec
    for part in key.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        else:
            value = getattr(value, part, getattr(value, f"{part}_", None))
    return value


def check_old_torch(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2066: a torch version that is too old for the trainer."""
    version = re.match(r"(\d{1,17})\.(\d{1,17})", spec.site.torch or "")
    if version and spec.command is None and (int(version[1]), int(version[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        because = f"jobc's own trainer needs torch {oldest} or newer"
        hint = "run your own program after --, or set site.torch=null if the job's environment has another version"
        yield Diagnostic("JC2066", f"the site has torch {spec.site.torch}", because, hint, key="site.torch")
