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

from ...compiler.plan.launch_plan import LaunchPlan
from .._shared.kubernetes_formats import DNS_NAME

LONGEST = 63
LONGEST_OBJECT = 253  # maximum length of an object name that is not also used as a label
PAYLOAD_SUFFIX = "-preflight"  # the longest suffix that jobctl preflight, jobctl smoke and jobctl shell append


def object_name(v: Any) -> str:
    """Return NAME-DIGEST, as a leaf of a document. The digest changes whenever the plan or the options change."""
    slug = re.sub(r"[^a-z0-9]+", "-", v.plan.name.lower()).strip("-")
    slug = slug if slug[:1].isalpha() else f"j-{slug}".rstrip("-")
    return f"{slug}-{v.whole.digest}"


def is_valid_object_name(text: str) -> bool:
    """Return whether Kubernetes accepts the text as an object's name. Source: Kubernetes "Object names and IDs"."""
    return bool(re.fullmatch(DNS_NAME, text)) and len(text) <= LONGEST_OBJECT


def pod_host(name: str, flavor: str, index: int) -> str:
    """Return a pod's host name; its domain is the Service or JobSet called `name`."""
    return f"{name}-{index}" if flavor == "job" else f"{name}-node-0-{index}"


def longest_pod_name(name: str, flavor: str, nodes: int) -> str:
    """Return the longest pod name that Kubernetes or jobctl derives from an object's name."""
    return pod_host(name + PAYLOAD_SUFFIX, flavor, nodes - 1) + ("" if flavor == "job" else "-xxxxx")


def plan_digest(plan: LaunchPlan, options: Any) -> str:
    """Return eight hex digits for plan and options."""
    return hashlib.sha256(to_json([plan, options]).encode()).hexdigest()[:8]


def to_json(value: Any) -> str:
    """Return a plan as text, without fields that have their neutral value, so that a new field changes no digest."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_to_plain_data)


def _to_plain_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {f.name: v for f, v in fields if "neutral" not in f.metadata or v != f.metadata["neutral"]}
    return dict(value) if isinstance(value, Mapping) else str(value)
