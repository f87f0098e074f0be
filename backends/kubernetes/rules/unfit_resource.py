"""JC4524: entries of `backend.requests` and `backend.limits` that the API server rejects, or that another key sets.

Source: Kubernetes, "Resource Management for Pods and Containers"; apimachinery, resource.Quantity.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..devices import network_resource
from ..options import KubernetesOptions

NAME = r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|[a-z0-9.-]+/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
_UNITS: Mapping[str, Decimal] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(1000),
    **{prefix: Decimal(1000**power) for power, prefix in enumerate("MGTPE", 2)},
    **{f"{prefix}i": Decimal(1024**power) for power, prefix in enumerate("KMGTPE", 1)},
}


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    network = (network_resource(plan, options) or "").rpartition(":")[0]
    owners = {network: "backend.network_resource"} if network else {}
    owners |= {options.gpu_resource: "gpus"} if plan.topology.gpus else {}
    owners_of_limits = owners | ({"memory": "mem"} if plan.resources.mem_bytes else {})
    for key, entries, taken in (("requests", options.requests, owners), ("limits", options.limits, owners_of_limits)):
        for name, text in entries.items():
            at = f"backend.{key}.{name}"
            if not re.fullmatch(NAME, name):
                because = "a resource must be cpu, memory, ephemeral-storage, hugepages-SIZE or VENDOR/DEVICE"
                yield Diagnostic("JC4524", f"{name!r} is not a resource", because, f"remove {at}", key=at)
            elif parse_quantity(text) is None:
                because = "a quantity must be a number with a Kubernetes unit: 500m, 16, 64Gi or 64G"
                yield Diagnostic(
                    "JC4524",
                    f"{at}: {text!r} is not a quantity",
                    because,
                    _mapping_override(key, entries, name, _nearest_size(text)),
                    key=at,
                )
            elif name in taken:
                because = f"{taken[name]} already sets this resource"
                yield Diagnostic("JC4524", f"{at} is set twice", because, f"remove {at}", key=at)
    yield from _check_request_limits(plan, options)


def _check_request_limits(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    memory = {"memory": str(plan.resources.mem_bytes)} if plan.resources.mem_bytes else {}
    limits = {**memory, **options.limits}
    for name, text in options.requests.items():
        asked, most = parse_quantity(text), parse_quantity(limits.get(name, ""))
        is_device = "/" in name
        if asked is None or (most is None and not is_device):
            continue
        if is_device and asked != most:
            because = "devices cannot be overcommitted, so the request must equal the limit"
            hint = _mapping_override("limits", options.limits, name, text)
        elif most is not None and asked > most:
            because, hint = "a request must not exceed its limit", f"remove backend.requests.{name}"
        else:
            continue
        key = f"backend.requests.{name}"
        yield Diagnostic("JC4524", f"{key}={text} does not fit its limit", because, hint, key=key)


def _mapping_override(key: str, entries: Mapping[str, str], name: str, text: str) -> str:
    """Return an override for the whole mapping, because dots in a device name would nest keys on the command line."""
    items = ", ".join(f"{other}: {value}" for other, value in {**entries, name: text}.items())
    return f"'backend.{key}={{{items}}}'"


def parse_quantity(text: str) -> Decimal | None:
    """Return a quantity as a number, or None if the text is not a quantity."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]{0,2})", text)
    return Decimal(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None


def _nearest_size(text: str) -> str:
    """Return the size in a valid spelling, such as 64G for 64GB, or an example if the text is not a size."""
    bare = text.strip().removesuffix("B").replace("K", "k") if not text.endswith("iB") else text[:-1]
    return bare if parse_quantity(bare) is not None else "64Gi"
