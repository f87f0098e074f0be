"""Mounts, shared memory and the run root: JC4502, JC4503, JC4508, JC4519, JC4520."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ....compiler.spec.value_types import format_bytes
from ..names import is_valid_object_name
from ..options import KubernetesOptions
from ..reserved_paths import is_reserved, normalize_path

# kind of mount -> whether a source is valid, what it must be, and a hint
SOURCES: Mapping[str, tuple[Callable[[str], object], str, str]] = {
    "claim": (
        is_valid_object_name,
        "a name of at most 253 characters, all from a-z, 0-9, dash and dot",
        "kubectl get pvc lists the claims",
    ),
    "nfs": (re.compile(r"[^/:\s]+:/.*").fullmatch, "a server and a path", "source: SERVER:/PATH"),
    "empty": (re.compile(r"([1-9][0-9]*([KMGT]i)?)?").fullmatch, "a size limit, or empty", "source: 10Gi"),
}


def check_unusable_mount(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4503: a mount that a pod does not support."""
    targets: list[str] = []
    for i, mount in enumerate(plan.mounts):
        for title, because, hint in _mount_problems(mount, targets):
            yield Diagnostic("JC4503", f"mounts.{i}: {title}", because, hint, key="mounts")
        targets.append(normalize_path(mount.target))


def _mount_problems(mount: Mount, targets: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield title, because and hint of each problem. targets: those of earlier mounts"""
    if mount.kind in ("volume", "bucket"):
        because = "a pod can only mount a claim, a host folder, an NFS export or an empty folder"
        yield f"pods do not support mounts of kind {mount.kind}", because, "kind: claim"
    elif mount.kind in SOURCES:
        is_valid, form, hint = SOURCES[mount.kind]
        if not is_valid(mount.source):
            yield f"{mount.source!r} is not a valid source for kind {mount.kind}", f"the source must be {form}", hint
    target = normalize_path(mount.target)
    if ":" in target or is_reserved(target):
        because = "a target must be an absolute path without a colon, and must not hide the image's or jobc's files"
        yield f"target {mount.target} is invalid", because, "target: /shared"
    elif target in targets:
        because = "a pod can have only one volume at a path"
        yield f"target {mount.target} is taken", because, f"target: {target}-{len(targets)}"


def check_runs_without_shared_volume(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4502: runs that are not on a volume shared by all pods.

    This is an error with storage.run=shared, otherwise a warning.
    """
    if plan.run.storage == "object":
        return
    root = plan.run.root
    lasting = [mount for mount in plan.mounts if mount.kind != "empty" and not mount.read_only]
    is_kept = root.startswith("/") and any(PurePosixPath(root).is_relative_to(mount.target) for mount in lasting)
    if lasting:
        hint = f"storage.root={lasting[0].target.rstrip('/')}/runs"
    else:
        mount = "'mounts=[{kind: claim, source: CLAIM, target: /shared, read_only: false}]'"
        hint = f"{mount} storage.root=/shared/runs"
    if plan.run.storage == "node":
        title, hint = "the runs are deleted with their pods", "storage.run=shared" if is_kept else hint
        because = "each pod has its own run folder, so a run cannot be resumed, a failed job is not restarted"
        because += ", and only kubectl logs shows the output"
        yield Diagnostic("JC4502", title, because, hint, key="storage.root", severity=Severity.WARNING)
    elif not is_kept:
        because = f"storage.root={root} is not below a persistent mount, so the runs would be deleted with the pod"
        yield Diagnostic("JC4502", "storage.root is not on a volume", because, hint, key="storage.root")


def check_restart_with_bucket_runs(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4520: restarts in place with runs in a bucket. Such a restart requires a folder that all pods share."""
    if plan.run.storage == "object" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "pods coordinate a restart through a shared run folder; with a bucket, they can only be requeued"
        hint = "lifecycle.max_restarts=0 with lifecycle.max_requeues, or storage.run=shared"
        title = "lifecycle.max_restarts is not supported with storage.run=object"
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
        because = "/dev/shm counts toward the pod's memory, and a pod whose memory is full is killed (exit code 137)"
        yield Diagnostic("JC4508", "shm is not smaller than mem", because, f"mem={format_bytes(2 * shm)}", key="shm")
