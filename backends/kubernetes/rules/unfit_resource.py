"""JC4524: entries of `backend.requests` and `backend.limits` that the API server rejects, or that another key sets.

Source: Kubernetes, "Resource Management for Pods and Containers"; API reference, Quantity.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ....compiler.api import Diagnostic, LaunchPlan
from ..._shared.kubernetes_formats import QUANTITY
from ..network import network_resource
from ..options import KubernetesOptions

DEVICE = r"[a-z0-9.-]+/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
NAME = rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|{DEVICE}"
SHARED = ("cpu", "memory", "ephemeral-storage")  # resources whose limit may exceed the request
UNITS: Mapping[str, Fraction] = {
    **{unit: Fraction(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", *"MGTPE"), -3)},
    **{f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    network = (network_resource(plan, options) or "").rpartition(":")[0]
    owners = {network: "backend.network_resource"} if network else {}
    owners |= {options.gpu_resource: "gpus"} if plan.topology.gpus else {}
    memory = {"memory": str(plan.resources.mem_bytes)} if plan.resources.mem_bytes else {}
    owners_of_limits = owners | dict.fromkeys(memory, "mem")
    for key, entries, taken in (("requests", options.requests, owners), ("limits", options.limits, owners_of_limits)):
        for name, text in entries.items():
            at = f"backend.{key}.{name}"
            title, because, hint = f"{at} is set twice", f"{taken.get(name)} already sets this resource", f"remove {at}"
            if not re.fullmatch(NAME, name):
                title = f"{name!r} is not a resource"
                because = "a resource must be cpu, memory, ephemeral-storage, hugepages-SIZE or VENDOR/DEVICE"
            elif text.startswith("-") or parse_quantity(text) is None:
                title = f"{at}: {text!r} is not a quantity"
                because = "a quantity must be a number with a Kubernetes unit: 500m, 16, 64Gi or 64G"
                hint = _mapping_override(key, entries, name, _nearest_size(text))
            elif name not in taken:
                continue
            yield Diagnostic("JC4524", title, because, hint, key=at)
    known = {name: text for name, text in options.requests.items() if re.fullmatch(NAME, name)}
    for name, text in conflicting_requests(known, {**memory, **options.limits}):
        key = f"backend.requests.{name}"
        because, hint = "a request must not exceed its limit", f"remove {key}"
        if name not in SHARED:
            because = "devices and huge pages cannot be overcommitted, so the request must equal the limit"
            hint = _mapping_override("limits", options.limits, name, text)
        yield Diagnostic("JC4524", f"{key}={text} does not fit its limit", because, hint, key=key)


def conflicting_requests(requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each request, by name, that exceeds its limit or, for a device, differs from it.

    Source: Kubernetes 1.37, validateContainerResourceRequirements in pkg/apis/core/validation/validation.go.
    """
    for name, request in requests.items():
        asked, most = parse_quantity(request), parse_quantity(limits.get(name))
        exceeds = asked is not None and most is not None and asked > most
        if exceeds if name in SHARED else asked is not None and asked != most:
            yield name, request


def _mapping_override(key: str, entries: Mapping[str, str], name: str, text: str) -> str:
    """Return an override for the whole mapping, because dots in a device name would nest keys on the command line."""
    items = ", ".join(f"{other}: {value}" for other, value in {**entries, name: text}.items())
    return f"'backend.{key}={{{items}}}'"


def parse_quantity(quantity: Any) -> Fraction | None:
    """Return a quantity as an exact number, or None if it is not a quantity."""
    match = re.fullmatch(QUANTITY, str(quantity))
    if match is None:
        return None
    unit = match[3] or ""
    scale = UNITS[unit] if unit in UNITS else Fraction(10) ** max(-99, min(99, int(unit[1:])))  # such as e3
    return Fraction(str(quantity).removesuffix(unit)) * scale


def _nearest_size(text: str) -> str:
    """Return the size in a valid spelling, such as 64G for 64GB, or an example if the text is not a size."""
    bare = text.strip().removesuffix("B").replace("K", "k") if not text.endswith("iB") else text[:-1]
    return "64Gi" if parse_quantity(bare) is None else bare
