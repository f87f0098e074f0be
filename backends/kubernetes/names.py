"""Names of Kubernetes objects: made from the job's name and the plan, and short enough for every suffix.

Source: RFC 1123 labels of at most 63 characters; a Service's name begins with a letter (RFC 1035, until 1.34). What is
appended: "-INDEX" by an Indexed Job to its pods' host names, "-node-0-INDEX-xxxxx" by JobSet to its pods' names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ...compiler.emit.render import Whole
from ...compiler.plan.launch_plan import LaunchPlan

LONGEST = 63
PAYLOAD_SUFFIX = "-preflight"  # the longest of those that preflight.sh, smoke.sh and shell.sh append


def object_name(plan: LaunchPlan, whole: Whole) -> str:
    """NAME-DIGEST: another plan or other options give another name."""
    slug = re.sub(r"[^a-z0-9]+", "-", plan.name.lower()).strip("-")
    slug = slug if slug[:1].isalpha() else f"j-{slug}".rstrip("-")
    return f"{slug}-{whole.digest}"


def own_name(v: Any) -> str:
    """Return the name as a leaf of a document."""
    return object_name(v.plan, v.whole)


def pod_host(name: str, flavor: str, index: int) -> str:
    """The host name of a pod, below the Service or JobSet of the same name."""
    return f"{name}-{index}" if flavor == "job" else f"{name}-node-0-{index}"


def longest_pod(name: str, flavor: str, nodes: int) -> str:
    """The longest name that anything makes of an object's name."""
    return pod_host(name + PAYLOAD_SUFFIX, flavor, nodes - 1) + ("" if flavor == "job" else "-xxxxx")


def digest(plan: LaunchPlan, options: Any) -> str:
    """Eight hex digits. What a plan leaves neutral does not count, so that a new field of plans changes no name."""
    settings = [asked(plan), asked(options)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:8]


def asked(value: Any) -> Any:
    """A plan as plain data, without what it leaves neutral."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {f.name: asked(v) for f, v in fields if "neutral" not in f.metadata or v != f.metadata["neutral"]}
    if isinstance(value, Mapping):
        return {key: asked(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [asked(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
