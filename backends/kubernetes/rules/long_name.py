"""JC4501: a name that is too long for its pods."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.emit.render import Whole
from ....compiler.plan.launch_plan import LaunchPlan
from ..names import LONGEST, digest, longest_pod, object_name
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    name = object_name(plan, Whole(digest(plan, options)))
    longest = longest_pod(name, options.flavor, plan.topology.nodes)
    if len(longest) > LONGEST:
        most = len(plan.name) - (len(longest) - LONGEST)
        because = f"it becomes {longest}, but Kubernetes allows only {LONGEST} characters"
        hint = f"name={plan.name[:most].strip('._-')}"
        yield Diagnostic("JC4501", f"name is too long: at most {most} characters", because, hint, key="name")
