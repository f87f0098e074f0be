"""JC4550: a request that exceeds its limit, or for a device, one that differs from its limit.

Source: Kubernetes 1.37, validateContainerResourceRequirements in pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...._shared.kubernetes_forms import QUANTITY
from ...options import KubernetesOptions
from ._containers import Tree, containers

SHARED = r"cpu|memory|ephemeral-storage"  # resources whose limit may exceed the request
POWERS = {"n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def check(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for container, key in containers(pod):
        yield from _resources(container, key)


def _resources(container: Tree, key: str) -> Iterator[Diagnostic]:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, request in ((name, request) for name, request in requests.items() if request is not None):
        field, limit = f"{key}.resources.limits", limits.get(name)
        is_shared = re.fullmatch(SHARED, name) is not None
        if limit is None and not is_shared:
            title = f"{field} has no {name}"
            because = f"the request is {request}, and the limit of a device must equal its request"
        elif limit is None or _amount(request) == _amount(limit) or (is_shared and _amount(request) < _amount(limit)):
            continue
        else:
            title = f"{field}: {name} {limit} is {'less than' if is_shared else 'not'} the request of {request}"
            because = "the API server would reject the job"
        yield Diagnostic("JC4550", title, because, f"{field}={{{name}: {request}}}", key=field)


def _amount(quantity: Any) -> Fraction:
    """Return a quantity as an exact number. Source: Kubernetes API reference, Quantity."""
    match = re.fullmatch(QUANTITY, str(quantity))
    assert match is not None, "its form was checked"
    unit = match[3] or ""
    number = Fraction(str(quantity).removesuffix(unit))
    scale: Fraction
    if unit.endswith("i"):
        scale = Fraction(1024) ** ("KMGTPE".index(unit[0]) + 1)
    else:
        exponent = int(unit[1:]) if len(unit) > 1 else 3 * POWERS.get(unit, 0)
        scale = Fraction(10) ** max(-99, min(99, exponent))
    return number * scale
