"""JC4701: an infra that SkyPilot cannot parse."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from .. import schema
from ..options import SkypilotOptions
from ._infras import can_parse, infras


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    for key, text in infras(options):
        if not can_parse(text):
            because = "it must be cloud[/region[/zone]], k8s[/context], slurm[/cluster[/partition]] or ssh[/pool]"
            clouds = schema.schemas()["resources"]["properties"]["cloud"]["case_insensitive_enum"]
            near = nearest(text.partition("/")[0].lower(), ["k8s", *clouds])
            yield Diagnostic(
                "JC4701", f"{text!r} is not a valid infra", because, f"{key}={near[0] if near else 'aws'}", key=key
            )
