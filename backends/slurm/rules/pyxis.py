"""Containers that Pyxis starts: JC4330, JC4331, JC4332."""

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check_modules_with_pyxis(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4332: environment modules together with Pyxis, under which they would never be loaded."""
    if plan.container.kind == "pyxis" and plan.setup.modules:
        because = "Slurm starts the container before the job's setup, and modules are not available in the container"
        hint = "python.modules=[]; or container=apptainer, which loads modules first"
        yield Diagnostic("JC4332", "Pyxis cannot load modules", because, hint, key="python.modules")


def check_pyxis_split_path(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4330: a mount path that Pyxis would split when it parses its srun option.

    Source: NVIDIA/pyxis 0.24, args.c: mounts are split at commas and colons, and then become words in an fstab line.
    """
    if plan.container.kind != "pyxis":
        return
    paths = {f"mounts.{i}.{n}": getattr(m, n) for i, m in enumerate(plan.mounts) for n in ("source", "target")}
    for key, path in {**paths, "storage.data": plan.run.data or ""}.items():
        if re.search(r"[\s,:\\]", path):
            because = "spaces, commas, colons and backslashes are special in --container-mounts"
            hint = "use another path, such as a symlink"
            yield Diagnostic("JC4330", f"Pyxis cannot mount {path!r}", because, hint, key=key)


def check_relative_pyxis_image(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4331: an image file given by a relative path, which Pyxis would look for in a registry."""
    if plan.container.kind != "pyxis":
        return
    image = plan.container.image or ""
    if image.startswith(".") or (image.endswith((".sqsh", ".sif")) and not image.startswith("/")):
        because = "each node has a different working directory, and a name without / is pulled from a registry"
        title = f"image {image} is not an absolute path"
        yield Diagnostic("JC4331", title, because, "image=/shared/NAME.sqsh", key="image")
