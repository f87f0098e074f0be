"""JC4702: a context, cluster or pool unknown at the site."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._infras import can_parse, infras, is_site


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    for key, text in infras(options):
        cloud, _, cluster_path = text.partition("/")
        name = cluster_path if cloud.lower() in ("k8s", "kubernetes") else cluster_path.partition("/")[0]
        if not name or options.clusters is None or not is_site(cloud) or name in (*options.clusters, "*"):
            continue
        if can_parse(text):
            near = nearest(name, options.clusters) or [*options.clusters]
            hint = f"{key}={cloud}/{near[0]}" if near else f"{key}={cloud}"
            because = f"backend.clusters has {', '.join(options.clusters) or 'none'}; SkyPilot only checks at launch"
            yield Diagnostic("JC4702", f"cluster {name} does not exist at this site", because, hint, key=key)
