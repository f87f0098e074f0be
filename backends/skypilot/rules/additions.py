"""Additions to the task by `backend.extra` and `backend.config`: JC4540, JC4550, JC4600."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ....compiler.api import Diagnostic, LaunchPlan
from ....compiler.emit.extra_entries import Path, check_extra_entries, value_paths
from ....compiler.emit.render import evaluate_document
from ..._shared import kubernetes_fields
from .. import task
from ..config import PODS
from ..finished_task import mapping_or_empty, text_or_empty
from ..options import SkypilotOptions

# Fields that no job key sets -> the reason.
_WITHOUT_KEY = {"service": "a training job is not a service", "pool": "the job starts its own machines"}
# Fields that have a job key, whether or not that key is set.
_OF_TASK = {
    "name": "name", "num_nodes": "nodes", "workdir": "code", "run": "the words after --", "setup": "backend.setup",
    "envs": "env", "secrets": "secrets", "volumes": "mounts",
    **_WITHOUT_KEY,
}  # fmt: skip
_OF_RESOURCES = {
    **dict.fromkeys(("infra", "cloud", "region", "zone"), "backend.infra"),
    **dict.fromkeys(("accelerators", "gpus"), "gpu_type and gpus"), "cpus": "cpus", "memory": "mem", "labels": "labels",
    **dict.fromkeys(("priority", "priority_class"), "queue.priority"), "any_of": "backend.any_of",
    "ordered": "backend.ordered", "job_recovery": "backend.managed and lifecycle.max_requeues",
    "autostop": "backend.autostop", "image_id": "image, or backend.image_id",
}  # fmt: skip
ALWAYS: Mapping[Path, str] = {
    **{(name,): key for name, key in _OF_TASK.items()},
    **{("resources", name): key for name, key in _OF_RESOURCES.items()},
}
OF_CONFIG: Mapping[str, str] = {  # section -> the keys that set jobc's part of it
    "slurm": "hosts and queue",
    "kubernetes": "queue.name, mounts and shm, or add to this section with backend.config",
    "ssh": "mounts and shm, or add to this section with backend.config",
    "docker": "shm, or add to this section with backend.config",
}
ABSENT = object()


def check_pod_config(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4540, JC4550: a `pod_config` with fields or values unknown to Kubernetes. jobc's own part is valid."""
    typed = {("backend", "config"): options.config, ("backend", "extra", "config"): options.extra.get("config")}
    for path, config in typed.items():
        for section in PODS:
            tree = mapping_or_empty(mapping_or_empty(config).get(section)).get("pod_config")
            for diagnostic in kubernetes_fields.check_pod(tree, (*path, section, "pod_config")):
                because = "SkyPilot passes the value on unchecked, and Kubernetes ignores it or rejects the pods"
                yield replace(diagnostic, because=because)


def check_protected_fields(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4600: fields that job keys set. Other additions are allowed."""
    bare = replace(options, extra={}, config={})
    bare_task = evaluate_document(task.task_document(plan, bare), plan, bare, task.artifact_digest(plan))
    config = mapping_or_empty(bare_task.get("config"))
    config_paths = [path for path in value_paths(config) if path]
    places = {("config", *path): OF_CONFIG[path[0]] for path in config_paths}
    sent = mapping_or_empty(bare_task.get("file_mounts"))
    files: dict[Path, str] = {("file_mounts", target): _sending_key(target, plan, options) for target in sent}
    added: dict[Path, str] = {("file_mounts", target): "mounts" for target in _bucket_targets(options)}
    for diagnostic in check_extra_entries(options.extra, {**ALWAYS, **added, **files, **places}):
        if reason := _WITHOUT_KEY.get(diagnostic.key.split(".")[2]):
            diagnostic = replace(diagnostic, because=reason, hint=f"remove {diagnostic.key}")
        yield diagnostic
    protected = {path: OF_CONFIG[path[0]] for path in config_paths if not _is_merged(path, config, options)}
    yield from check_extra_entries(options.config, protected, ("backend", "config"))


def _sending_key(target: str, plan: LaunchPlan, options: SkypilotOptions) -> str:
    if target in options.file_mounts:
        return "backend.file_mounts"
    return "mounts" if any(mount.target == target for mount in plan.mounts) else "code"


def _bucket_targets(options: SkypilotOptions) -> Iterator[str]:
    """Yield the targets of those buckets in `backend.extra` that `mounts` could mount too (mode MOUNT, the default)."""
    for target, mount in mapping_or_empty(options.extra.get("file_mounts")).items():
        if (
            "://" in text_or_empty(mapping_or_empty(mount).get("source"))
            and mapping_or_empty(mount).get("mode", "MOUNT") == "MOUNT"
        ):
            yield target


def _is_merged(path: Path, config: Mapping[str, Any], options: SkypilotOptions) -> bool:
    """Return whether the user's value is merged with jobc's list, or is an sbatch option, which JC4716 checks."""
    ours, typed = _value_at(config, path), _value_at(options.config, path)
    are_lists = isinstance(ours, (list, tuple)) and isinstance(typed, (list, tuple))
    return are_lists or (path[0] == "slurm" and typed is not ABSENT)


def _value_at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = mapping_or_empty(tree).get(part, ABSENT)
    return tree
