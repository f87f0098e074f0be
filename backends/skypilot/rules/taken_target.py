"""JC4708: `mounts`, `backend.file_mounts` or `backend.extra` use the same target path twice."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from .. import task
from ..finished import mapping
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    targets = [(f"mounts.{i}", "mounts", mount.target) for i, mount in enumerate(plan.mounts)]
    targets += [(f"backend.file_mounts.{target}", "backend.file_mounts", target) for target in options.file_mounts]
    exact = {target for _, _, target in targets}  # JC4600 reports these
    for section in ("volumes", "file_mounts"):
        key = f"backend.extra.{section}"
        targets += [(f"{key}.{t}", key, t) for t in mapping(options.extra.get(section)) if t not in exact]
    owners = {normpath(task.artifact_path_on_node(plan)): "the code"} if plan.code.kind == "git" else {}
    for name, key, target in targets:
        path = normpath(target)
        if path in owners:
            because = f"{owners[path]} already uses {path}"
            yield Diagnostic("JC4708", f"{name}: target {target} is taken", because, f"target: {path}-2", key=key)
        owners.setdefault(path, name)
