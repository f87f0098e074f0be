"""JC4719: a Slurm partition that does not exist, or that differs from queue.name."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions, cloud_of
from ._infras import infras


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    for key, infra in infras(options):
        _, _, name = infra.split("/", 2) if cloud_of(infra) == "slurm" and infra.count("/") == 2 else ("", "", "")
        if name and options.partitions and name not in options.partitions:
            near = (nearest(name, options.partitions) or sorted(options.partitions))[0]
            because = f"known partitions: {', '.join(sorted(options.partitions))}; SkyPilot would fail at launch"
            hint = f"{key}={infra.removesuffix(name)}{near}"
            yield Diagnostic("JC4719", f"partition {name} does not exist at this site", because, hint, key=key)
        elif name and key == "backend.infra" and plan.queue.name not in (None, name):
            because = f"{key} names partition {name}, which overrides queue.name"
            hint = f"queue.name={name}, or {key}={infra.removesuffix(f'/{name}')}"
            yield Diagnostic("JC4719", f"queue.name={plan.queue.name} has no effect", because, hint, key="queue.name")
