"""Mounts, and where the runs are stored: JC4706, JC4707, JC4708, JC4724."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from .. import task
from ..config import PODS
from ..finished_task import mapping_or_empty, text_or_empty
from ..options import SkypilotOptions, infra_cloud
from .infra import requested_infras


def check_unsupported_mount(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708: a mount that SkyPilot does not support, or does not support with these settings."""
    for i, mount in enumerate(plan.mounts):
        if why := _mount_problem(mount, options):
            title, because, hint = why
            yield Diagnostic("JC4708", f"mounts.{i}: {title}", because, hint, key="mounts")


def _mount_problem(mount: Mount, options: SkypilotOptions) -> tuple[str, str, str] | None:
    """Return (title, because, hint) for an unsupported mount, else None."""
    if not mount.target.startswith("/"):
        return f"target {mount.target} is invalid", "a mount target must be an absolute path", "target: /shared"
    if mount.kind == "bucket" and not re.fullmatch(r"[a-z0-9]+://\S+", mount.source):
        return f"{mount.source!r} is not a bucket URL", "a bucket source must be a URL", "source: s3://my-bucket"
    if mount.kind == "host":
        elsewhere = [text for _, text in requested_infras(options) if infra_cloud(text) not in PODS]
        if not elsewhere:
            return None
        because = f"only pods on k8s and ssh can mount their nodes' folders, not machines on {elsewhere[0]}"
        return "no host", because, "kind: volume, created by `sky volumes apply`; or backend.infra=k8s"
    if mount.kind not in ("volume", "bucket"):
        because = "SkyPilot supports volumes, buckets and, on Kubernetes, host folders"
        return f"no {mount.kind}", because, "kind: volume, created by `sky volumes apply`"
    if mount.read_only:
        return "read_only", "SkyPilot always mounts volumes and buckets writable", "read_only: false"
    return None


def check_duplicate_mount_target(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708: `mounts`, `backend.file_mounts` or `backend.extra` use the same target path twice."""
    targets = [(f"mounts.{i}", "mounts", mount.target) for i, mount in enumerate(plan.mounts)]
    targets += [(f"backend.file_mounts.{target}", "backend.file_mounts", target) for target in options.file_mounts]
    exact = {target for _, _, target in targets}  # JC4600 reports these
    for section in ("volumes", "file_mounts"):
        key = f"backend.extra.{section}"
        targets += [(f"{key}.{t}", key, t) for t in mapping_or_empty(options.extra.get(section)) if t not in exact]
    owners = {normpath(task.artifact_path_on_node(plan)): "the code"} if plan.code.kind == "git" else {}
    for name, key, target in targets:
        path = normpath(target)
        if path in owners:
            because = f"{owners[path]} already uses {path}"
            yield Diagnostic("JC4708", f"{name}: target {target} is taken", because, f"target: {path}-2", key=key)
        owners.setdefault(path, name)


def persistent_run_mounts(plan: LaunchPlan) -> list[Mount]:
    """Return the persistent mounts that hold the runs."""
    root = PurePosixPath(plan.run.root)
    mounts = [mount for mount in plan.mounts if mount.kind in ("volume", "host") and not mount.read_only]
    return [mount for mount in mounts if root.is_relative_to(mount.target)]


def check_unshared_runs(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4706: runs on storage that several nodes, or a managed job's later machines, do not share.

    This is a note if they are in a host folder, because jobc cannot tell whether all nodes share it.
    """
    root, is_slurm = plan.run.root, options.cloud == "slurm"
    is_one_machine = plan.topology.nodes == 1 and not options.managed
    if plan.run.storage != "shared" or is_one_machine or (is_slurm and root.startswith("/")):
        return
    title, severity = "storage.root is not on shared storage", Severity.ERROR
    mounts = persistent_run_mounts(plan)
    if mounts and all(mount.kind == "host" for mount in mounts):
        title, severity = f"storage.root={root} is on each node's own disk", Severity.NOTE
        target, source = mounts[0].target, mounts[0].source
        folder = f"storage.root is under {target}, which is {source} on each pod's node"
        because = f"{folder}, but all nodes must share one file system"
        hint = f"mount a shared file system at {source} on every node, or use kind: volume, made by `sky volumes apply`"
    elif mounts:
        return
    elif is_slurm:
        because = f"storage.root={root} is relative to the home directory, which is deleted with the cluster"
        hint = "storage.root=/shared/runs, on storage that all nodes share"
    else:
        because = f"storage.root={root} is not on a volume, so each machine would have its own run folder"
        bucket = "storage.run=object storage.root=s3://my-bucket/runs"
        if url := _mounted_bucket(plan, options):
            because = f"storage.root={root} is in a mounted bucket, which cannot append to files, as runs need"
            bucket = f"storage.run=object storage.root={url}" if url.startswith("s3://") else bucket
        volume = "'mounts=[{kind: volume, source: NAME, target: /shared, read_only: false}]' storage.root=/shared/runs"
        hint = f"{bucket}, or {volume}" if options.managed else f"{volume}, or storage.run=node, or {bucket}"
    yield Diagnostic("JC4706", title, because, hint, key="storage.root", severity=severity)


def _mounted_bucket(plan: LaunchPlan, options: SkypilotOptions) -> str:
    """Return the URL of storage.root in a mounted bucket, or "" if it is not in one."""
    sources = {mount.target: mount.source for mount in plan.mounts}
    for target, mount in options.file_mounts.items():
        sources[target] = text_or_empty(mount) or text_or_empty(mapping_or_empty(mount).get("source"))
    for target, source in sources.items():
        if "://" in source and PurePosixPath(plan.run.root).is_relative_to(target):
            return f"{source.rstrip('/')}/{PurePosixPath(plan.run.root).relative_to(target)}"
    return ""


def check_runs_on_own_disks(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4707: runs on the nodes' own disks, with a managed job, or with a restart in place on several nodes."""
    if plan.run.storage == "node" and options.managed:
        title = "backend.managed=true does not work with runs on the nodes' own disks"
        because = "a managed job resumes on new machines, which must be able to read its checkpoints"
        hint = "storage.run=object storage.root=s3://my-bucket/runs, or backend.managed=false"
        yield Diagnostic("JC4707", title, because, hint, key="storage.run")
    if plan.run.storage != "shared" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        key = "lifecycle.max_restarts"
        title = f"{key} is not supported with storage.run={plan.run.storage}"
        because = "nodes coordinate a restart through a shared run folder"
        yield Diagnostic("JC4707", title, because, f"{key}=0", key=key)


def check_runs_deleted_with_machines(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4724: runs on the disks of machines that are deleted when the cluster is idle. This is a warning."""
    if options.autostop is None or not options.down or options.cloud in ("slurm", "ssh"):
        return
    if plan.run.storage == "object" or options.managed or persistent_run_mounts(plan):
        return
    when = f"{options.autostop // 60} min after the job ends (backend.autostop, backend.down)"
    because = f"the runs are on the disks of machines that are deleted {when}"
    keep = "backend.autostop=null" if options.cloud == "kubernetes" else "backend.down=false"  # pods do not stop
    hint = f"{keep}; or storage.run=object storage.root=s3://my-bucket/runs"
    title = "the checkpoints are deleted with the machines"
    yield Diagnostic("JC4724", title, because, hint, key="backend.autostop", severity=Severity.WARNING)
