"""JC4550 of the finished pod: what a key of the job and `backend.extra` say together, and Kubernetes refuses.

In   plan, options; the pod as it will be written
Out  two mounts at one path, a request that its limit does not cover, root where the pod says that nobody is root
Source: Kubernetes 1.37, ValidateVolumeMounts ("must be unique") and validateContainerResourceRequirements in
     pkg/apis/core/validation/validation.go; verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go,
     after which the pod stays in CreateContainerConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Omit
from .._shared.kubernetes_forms import QUANTITY
from .extra import KEY, POD
from .names import object_name
from .options import KubernetesOptions
from .places import OWN, is_own, place
from .pod import ARTIFACT, CONTAINER, FILES, PREFLIGHT, pod_template

Tree = Mapping[str, Any]
SPEC = f"{KEY}.{POD}.spec"
SHARED = r"cpu|memory|ephemeral-storage"  # resources of which a container may get more than it asks for
POWERS = {"n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """Of an extra whose fields are those of Kubernetes; what jobc writes alone is right."""
    if POD not in options.extra:
        return
    spec = _plain(pod_template(plan, options, object_name(plan, options)), plan, options)["spec"]
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            if container["name"] == PREFLIGHT:  # made of the node's
                continue
            key = f"{SPEC}.{kind}.{container['name']}"
            yield from mounts(container, key)
            yield from resources(container, key)
            yield from user(container, spec, options, key)


def mounts(container: Tree, key: str) -> Iterator[Diagnostic]:
    owners: dict[str, str] = {}
    for mount in container.get("volumeMounts") or ():
        at, name = place(str(mount.get("mountPath", ""))), mount["name"]
        is_in_ours = container["name"] == CONTAINER and is_own(at) and at not in (FILES, ARTIFACT)
        if at in owners or is_in_ours:
            because = f"{owners.get(at, 'jobc')} is at {at}, and a container has one volume at a path"
            if is_in_ours:
                because = f"{OWN} is jobc's: its scripts, and the artifact that they unpack"
            here = f"{key}.volumeMounts.{name}"
            hint = f"{here}.mountPath=/{name}" if f"/{name}" not in owners else f"leave out {here}"
            yield Diagnostic("JC4550", f"{here}: {at} is taken", because, hint, key=here)
        owners.setdefault(at, name)


def resources(container: Tree, key: str) -> Iterator[Diagnostic]:
    said = container.get("resources") or {}
    limits, requests = said.get("limits") or {}, said.get("requests") or {}
    for name, request in ((name, request) for name, request in requests.items() if request is not None):
        here, limit = f"{key}.resources.limits", limits.get(name)
        is_shared = re.fullmatch(SHARED, name) is not None
        if limit is None and not is_shared:
            title = f"{here} has no {name}"
            because = f"{request} are asked for, and of a device the request is the limit as well"
        elif limit is None or amount(request) == amount(limit) or (is_shared and amount(request) < amount(limit)):
            continue
        else:
            title = f"{here}: {name} {limit} is {'less than' if is_shared else 'not'} the {request} that are asked for"
            because = "the API server would refuse the job when it is sent"
        yield Diagnostic("JC4550", title, because, f"{here}={{{name}: {request}}}", key=here)


def amount(quantity: Any) -> Fraction:
    """Source: Kubernetes API reference, Quantity."""
    found = re.fullmatch(QUANTITY, str(quantity))
    assert found is not None, "its form was checked"
    unit = found[3] or ""
    number = Fraction(str(quantity).removesuffix(unit))
    scale: Fraction
    if unit.endswith("i"):
        scale = Fraction(1024) ** ("KMGTPE".index(unit[0]) + 1)
    else:
        exponent = int(unit[1:]) if len(unit) > 1 else 3 * POWERS.get(unit, 0)
        scale = Fraction(10) ** max(-99, min(99, exponent))
    return number * scale


def user(container: Tree, spec: Tree, options: KubernetesOptions, key: str) -> Iterator[Diagnostic]:
    of_pod, own = (each.get("securityContext") or {} for each in (spec, container))
    context = {**of_pod, **{name: value for name, value in own.items() if value is not None}}
    if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
        because = "the kubelet would not start it, and the pod waits in CreateContainerConfigError"
        if "runAsUser" in own:
            here = f"{key}.securityContext.runAsUser"
        else:
            here = "backend.run_as_user" if options.run_as_user == 0 else f"{SPEC}.securityContext.runAsUser"
        yield Diagnostic("JC4550", f"{here}=0 beside runAsNonRoot", because, f"{here}=1000", key=here)


def _plain(tree: Any, plan: LaunchPlan, options: KubernetesOptions) -> Any:
    """The document without its functions."""
    if callable(tree):
        return _plain(tree(SimpleNamespace(plan=plan, options=options)), plan, options)
    if isinstance(tree, Mapping):
        made = {key: _plain(inner, plan, options) for key, inner in tree.items()}
        return {key: inner for key, inner in made.items() if inner is not Omit}
    return [_plain(item, plan, options) for item in tree] if isinstance(tree, (list, tuple)) else tree
