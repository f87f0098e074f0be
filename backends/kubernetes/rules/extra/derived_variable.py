"""JC2006: a rank variable that jobc derives. JC4600 covers the variables that the plan sets."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from .....compiler.plan.launch_plan import LaunchPlan
from .....compiler.spec.derived_variables import is_derived
from ...extra import KEY, POD, VARIABLES
from ...options import KubernetesOptions
from ._extra_fields import extra_pod_spec


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    node_containers = (c for c in extra_pod_spec(options).get("containers") or () if c.get("name") == "node")
    names = (entry.get("name", "") for container in node_containers for entry in container.get("env") or ())
    for name in names:
        if name not in VARIABLES and is_derived(name):
            key = f"{KEY}.{POD}.spec.containers.node.env.{name}"
            because = "a value set here would contradict the launcher's"
            yield Diagnostic("JC2006", f"{key} is derived and cannot be set", because, f"remove {key}", key=key)
