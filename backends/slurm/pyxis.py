"""Pyxis: what its options of srun cannot say. engine.sh has the options.

Source: NVIDIA/pyxis 0.24, args.c: mounts are split at commas and colons, and then are words of an fstab line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan


def check(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4330 a path that it would split; JC4331 a file that it would look for in a registry; JC4332 modules."""
    if plan.container.kind != "pyxis":
        return
    image = plan.container.image or ""
    paths = {f"mounts.{i}.{n}": getattr(m, n) for i, m in enumerate(plan.mounts) for n in ("source", "target")}
    for key, path in {**paths, "storage.data": plan.run.data or ""}.items():
        if re.search(r"[\s,:\\]", path):
            because = "spaces, commas, colons and backslashes have a meaning of their own in --container-mounts"
            hint = "another name, such as a symbolic link"
            yield Diagnostic("JC4330", f"Pyxis cannot mount {path!r}", because, hint, key=key)
    if image.startswith(".") or (image.endswith((".sqsh", ".sif")) and not image.startswith("/")):
        because = "each node looks from a folder of its own, and a name without / is looked for in a registry"
        yield Diagnostic(
            "JC4331", f"image {image} is not an absolute path", because, "image=/shared/NAME.sqsh", key="image"
        )
    if plan.setup.modules:
        because = (
            "Slurm makes the container before anything of the job runs on the node, and there are no modules inside"
        )
        hint = "python.modules=[]; or container=apptainer, where they are loaded first"
        yield Diagnostic("JC4332", "Pyxis cannot load modules", because, hint, key="python.modules")
