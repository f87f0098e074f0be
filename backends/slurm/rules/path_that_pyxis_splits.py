"""JC4330: a mount path that Pyxis would split when it parses its srun option.

Source: NVIDIA/pyxis 0.24, args.c: mounts are split at commas and colons, and then become words in an fstab line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    if plan.container.kind != "pyxis":
        return
    paths = {f"mounts.{i}.{n}": getattr(m, n) for i, m in enumerate(plan.mounts) for n in ("source", "target")}
    for key, path in {**paths, "storage.data": plan.run.data or ""}.items():
        if re.search(r"[\s,:\\]", path):
            because = "spaces, commas, colons and backslashes are special in --container-mounts"
            hint = "use another path, such as a symlink"
            yield Diagnostic("JC4330", f"Pyxis cannot mount {path!r}", because, hint, key=key)
