"""JC4706: runs in a host folder. This is a note, because jobc does not know whether all nodes share it."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._runs import is_of_site, lasting_mounts, must_be_shared


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    lasting = lasting_mounts(plan)
    if not must_be_shared(plan, options) or is_of_site(plan, options):
        return
    if lasting and all(mount.kind == "host" for mount in lasting):
        target, source = lasting[0].target, lasting[0].source
        because = (
            f"it is under {target}, which is {source} on each pod's node, but all nodes must share one file system"
        )
        hint = f"mount a shared file system at {source} on every node; or kind: volume, from `sky volumes apply`"
        title = f"storage.root={plan.run.root} is on each node's own disk"
        yield Diagnostic("JC4706", title, because, hint, key="storage.root", severity=Severity.NOTE)
