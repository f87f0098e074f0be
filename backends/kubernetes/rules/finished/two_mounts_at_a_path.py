"""JC4550: two mounts at one path of a container.

Source: Kubernetes 1.37, ValidateVolumeMounts ("must be unique") in pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...options import KubernetesOptions
from ...places import OWN, is_own, place
from ...pod import ARTIFACT, CONTAINER, FILES
from ._containers import Tree, containers


def check(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for container, key in containers(pod):
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
