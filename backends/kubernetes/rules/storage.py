"""Mounts, shared memory and the run root: JC4502, JC4503, JC4508, JC4519, JC4520."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ....compiler.spec.value_types import format_bytes
from ..names import is_valid_object_name
from ..options import KubernetesOptions
from ..reserved_paths import is_reserved, normalize_path


def check_unusable_mount(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4503: a mount that a pod does not support."""
    for i, mount in enumerate(plan.mounts):
        yield from _check_mount(i, mount, plan.mounts)


def _check_mount(i: int, mount: Mount, mounts: tuple[Mount, ...]) -> Iterator[Diagnostic]:
    key = f"mounts.{i}"

    def diagnostic(title: str, because: str, hint: str) -> Iterator[Diagnostic]:
        yield Diagnostic("JC4503", f"{key}: {title}", because, hint, key="mounts")

    if mount.kind in ("volume", "bucket"):
        because = "a pod can mount a claim, a host folder, an NFS export or an empty folder"
        yield from diagnostic(f"a pod cannot mount kind {mount.kind}", because, "kind: claim")
    elif mount.kind == "claim" and not is_valid_object_name(mount.source):
        because = "a claim name must have at most 253 characters from a-z, 0-9, dash and dot"
        yield from diagnostic(
            f"{mount.source!r} is not a claim name", because, "kubectl get persistentvolumeclaims lists the claims"
        )
    elif mount.kind == "nfs" and not re.fullmatch(r"[^/:\s]+:/.*", mount.source):
        yield from diagnostic(
            f"{mount.source!r} is not an NFS export",
            "an NFS source must be a server and a path",
            "source: SERVER:/PATH",
        )
    elif mount.kind == "host" and not mount.source.startswith("/"):
        yield from diagnostic(
            f"{mount.source!r} is not an absolute path", "a host folder must be an absolute path", "source: /PATH"
        )
    elif mount.kind == "empty" and mount.source and not re.fullmatch(r"[1-9][0-9]*([KMGT]i)?", mount.source):
        because = "an empty folder's source is its size limit, in Kubernetes syntax"
        yield from diagnostic(
            f"{mount.source!r} is not a size", because, "source: 10Gi, or an empty string for no limit"
        )
    if not mount.target.startswith("/") or ":" in mount.target or is_reserved(mount.target):
        because = "a target must be an absolute path without a colon, and must not hide the image's or jobc's files"
        yield from diagnostic(f"target {mount.target} is invalid", because, "target: /shared")
    elif normalize_path(mount.target) in [normalize_path(earlier.target) for earlier in mounts[:i]]:
        instead = f"target: {normalize_path(mount.target)}-{i}"
        yield from diagnostic(f"target {mount.target} is taken", "a pod can have only one volume at a path", instead)


def check_runs_without_shared_volume(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4502: runs that are not on a volume shared by all pods.

    This is an error with storage.run=shared, otherwise a warning.
    """
    if plan.run.storage == "object":
        return
    root = plan.run.root
    lasting = [mount for mount in plan.mounts if mount.kind != "empty" and not mount.read_only]
    is_kept = any(_is_below(root, mount.target) for mount in lasting)
    if lasting:
        hint = f"storage.root={lasting[0].target.rstrip('/')}/runs"
    else:
        mount = "'mounts=[{kind: claim, source: CLAIM, target: /shared, read_only: false}]'"
        hint = f"{mount} storage.root=/shared/runs"
    if plan.run.storage == "node":
        because = (
            "each pod has its own run folder: a run cannot be resumed, a failed job is not"
            " restarted, and only kubectl logs shows its output"
        )
        if is_kept:
            hint = "storage.run=shared"
        title = "the runs are deleted with their pods"
        yield Diagnostic("JC4502", title, because, hint, key="storage.root", severity=Severity.WARNING)
    elif not is_kept:
        because = (
            f"storage.root={root} is in the pod's own file system and is deleted with the pod: no "
            "persistent mount covers it"
        )
        yield Diagnostic("JC4502", "storage.root is not on a volume", because, hint, key="storage.root")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith("/") and PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def check_restart_with_bucket_runs(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4520: restarts in place with runs in a bucket. Such a restart requires a folder that all pods share."""
    if plan.run.storage == "object" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "pods coordinate a restart through a shared run folder; with a bucket, they can only be requeued"
        hint = "lifecycle.max_restarts=0 with lifecycle.max_requeues, or storage.run=shared"
        title = "lifecycle.max_restarts is not supported here"
        yield Diagnostic("JC4520", title, because, hint, key="lifecycle.max_restarts")


def check_scratch_not_absolute(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4519: a relative scratch folder, which each program in a pod would resolve differently."""
    scratch = plan.run.scratch
    if plan.run.storage == "object" and not scratch.startswith("/"):
        title = f"storage.scratch={scratch} is not an absolute path"
        because = "containers in a pod have different working directories, so a relative path is ambiguous"
        hint = f"storage.scratch=/tmp/{scratch.removeprefix('~/').lstrip('./') or 'jobc-runs'}"
        yield Diagnostic("JC4519", title, because, hint, key="storage.scratch")


def check_shm_exceeds_memory(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4508: shared memory that is not smaller than the pod's memory."""
    shm, memory = plan.resources.shm_bytes, plan.resources.mem_bytes
    if shm and memory and shm >= memory:
        because = (
            "/dev/shm counts toward the pod's memory, and the pod is killed when that memory is full (exit code 137)"
        )
        yield Diagnostic("JC4508", "shm is not smaller than mem", because, f"mem={format_bytes(2 * shm)}", key="shm")
