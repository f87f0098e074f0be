"""Containers that launch.sh itself enters (docker, apptainer), for backends that do not create their own nodes.

launch.sh and runtime/containers/ do all the work, so a backend only declares which runtimes may be installed on its
nodes.
"""

from collections.abc import Iterator, Mapping

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plugins.backend import ANY


def supported_container_settings(*runtimes: str) -> Mapping[str, tuple[str, ...]]:
    """Return the entries of `honours` for containers. runtimes: the supported values of container.kind"""
    return {
        "container.kind": runtimes,
        "container.*": ANY,
        "mounts": ANY,
        "resources.shm_bytes": ANY,
        "setup.kind": ("none", "venv", "conda", "uv", "modules", "image"),
    }


def check(name: str, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """Yield JC4410 for mounts whose source is not a folder or file on the node."""
    for i, mount in enumerate(plan.mounts):
        if mount.kind != "host":
            title = f"backend {name} does not support mounts of kind {mount.kind}"
            because = "the backend can only mount the nodes' own folders and files"
            yield Diagnostic("JC4410", title, because, "kind: host", key=f"mounts.{i}.kind")
