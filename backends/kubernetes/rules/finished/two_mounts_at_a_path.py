"""JC4550: two mounts at the same path in a container.

Source: Kubernetes 1.37, ValidateVolumeMounts ("must be unique") in pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...options import KubernetesOptions
from ...pod import ARTIFACT, CODE, CONTAINER, FILES, RUNS
from ...reserved_paths import OWN, is_jobc_path, normalize
from ._containers import Tree, containers

OURS = (("files", FILES), ("artifact", ARTIFACT), ("code", CODE), ("runs", RUNS))


def check(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for container, key in containers(pod):
        owners: dict[str, str] = {}
        for mount in container.get("volumeMounts") or ():
            path, name = normalize(str(mount.get("mountPath", ""))), mount["name"]
            is_in_ours = container["name"] == CONTAINER and is_jobc_path(path) and (name, path) not in OURS
            if path in owners or is_in_ours:
                because = f"{owners.get(path, 'jobc')} uses {path}, and a container can have only one volume at a path"
                if is_in_ours:
                    because = f"{OWN} is reserved for jobc's scripts and the unpacked artifact"
                mount_key = f"{key}.volumeMounts.{name}"
                hint = f"{mount_key}.mountPath=/{name}" if f"/{name}" not in owners else f"remove {mount_key}"
                yield Diagnostic("JC4550", f"{mount_key}: {path} is taken", because, hint, key=mount_key)
            owners.setdefault(path, name)
