"""JC2067: a missing value that the site requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic
from ...spec.examples import example_value
from ...spec.job_spec import JobSpec
from ...spec.type_hints import spec_keys, type_of_key, union_members


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    known_keys = spec_keys(JobSpec) if spec.site.requires else ()
    missing = [key for key in spec.site.requires if key in known_keys and _value(spec, key) in (None, (), {})]
    if missing:
        lines = [f"{key}={example_value(union_members(type_of_key(JobSpec, key)))}" for key in missing]
        title = f"this site needs {' and '.join(missing)}"
        these, them = ("this key", "it") if len(missing) == 1 else ("these keys", "them")
        because = f"the cluster profile requires {these} (site.requires), and nothing sets {them}"
        hint = f"{' '.join(lines)}, here or in the profile"
        yield Diagnostic("JC2067", title, because, hint, key=missing[0])


def _value(spec: JobSpec, key: str) -> Any:
    value: Any = spec
    for part in key.split("."):
        value = (
            value.get(part) if isinstance(value, Mapping) else getattr(value, part, getattr(value, f"{part}_", None))
        )
    return value
