"""Names of Kubernetes objects: derived from the job's name and the plan, and short enough for every suffix.

Source: RFC 1123 labels of at most 63 characters; a Service's name begins with a letter (RFC 1035, until 1.34).
Suffixes: an Indexed Job appends "-INDEX" to its pods' host names, a JobSet "-node-0-INDEX-xxxxx" to its pods' names.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ...compiler.emit.render import WholePlanView
from ...compiler.plan.launch_plan import LaunchPlan

LONGEST = 63
PAYLOAD_SUFFIX = "-preflight"  # the longest suffix that jobctl preflight, jobctl smoke and jobctl shell append


def object_name(plan: LaunchPlan, whole: WholePlanView) -> str:
    """Return NAME-DIGEST. The digest changes whenever the plan or the options change."""
    slug = re.sub(r"[^a-z0-9]+", "-", plan.name.lower()).strip("-")
    slug = slug if slug[:1].isalpha() else f"j-{slug}".rstrip("-")
    return f"{slug}-{whole.digest}"


def object_name_leaf(v: Any) -> str:
    """Return the object name; used as a leaf of a document."""
    return object_name(v.plan, v.whole)


def pod_host(name: str, flavor: str, index: int) -> str:
    """Return a pod's host name; its domain is the Service or JobSet called `name`."""
    return f"{name}-{index}" if flavor == "job" else f"{name}-node-0-{index}"


def longest_pod_name(name: str, flavor: str, nodes: int) -> str:
    """Return the longest pod name that Kubernetes or jobctl derives from an object's name."""
    return pod_host(name + PAYLOAD_SUFFIX, flavor, nodes - 1) + ("" if flavor == "job" else "-xxxxx")


def plan_digest(plan: LaunchPlan, options: Any) -> str:
    """Return eight hex digits for plan and options. Neutral fields are left out, so a new field changes no name."""
    settings = [drop_neutral_fields(plan), drop_neutral_fields(options)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:8]


def drop_neutral_fields(value: Any) -> Any:
    """Return a plan as plain data, without the fields that have their neutral value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {
            f.name: drop_neutral_fields(v)
            for f, v in fields
            if "neutral" not in f.metadata or v != f.metadata["neutral"]
        }
    if isinstance(value, Mapping):
        return {key: drop_neutral_fields(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [drop_neutral_fields(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
