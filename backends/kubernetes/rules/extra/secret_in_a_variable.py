"""JC4515: a plain-text secret, found by its variable's name. compiler/spec/secret_scan.py finds tokens in any text."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from .....compiler.plan.launch_plan import LaunchPlan
from .....compiler.spec.secret_scan import names_secret
from ...extra import KEY, POD
from ...options import KubernetesOptions
from ._extra_fields import extra_pod_spec


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    spec = extra_pod_spec(options)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            for entry in container.get("env") or ():
                name, value = entry.get("name", ""), entry.get("value")
                if isinstance(value, str) and value and names_secret(name):
                    title = f"{KEY} has a variable {name} that looks like a secret"
                    because = "job.yaml and spec.yaml would show it in plain text to everyone who can read the run"
                    hint = f"secrets.{name}=k8s:SECRET/KEY, or valueFrom: {{secretKeyRef: …}} in place of value"
                    yield Diagnostic("JC4515", title, because, hint, key=f"{KEY}.{POD}", private=True)
