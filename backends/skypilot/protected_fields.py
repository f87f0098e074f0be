"""Fields that `backend.extra` and `backend.config` may not change: JC4600. Other additions are allowed.

In:  plan, options.
Out: place in the task -> the job keys that set it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.emit.extra_entries import Path, check_extra_entries, value_paths
from ...compiler.emit.render import evaluate_document
from ...compiler.plan.launch_plan import LaunchPlan
from . import task
from .finished_task import as_mapping, as_text
from .options import SkypilotOptions

# Fields with a job key of their own, whether or not that key is set.
ALWAYS: Mapping[Path, str] = {
    ("name",): "name",
    ("num_nodes",): "nodes",
    ("workdir",): "code",
    ("run",): "the words after --",
    ("setup",): "backend.setup",
    ("envs",): "env",
    ("secrets",): "secrets",
    ("volumes",): "mounts",
    ("resources", "infra"): "backend.infra",
    ("resources", "cloud"): "backend.infra",
    ("resources", "region"): "backend.infra",
    ("resources", "zone"): "backend.infra",
    ("resources", "accelerators"): "gpu_type and gpus",
    ("resources", "gpus"): "gpu_type and gpus",
    ("resources", "cpus"): "cpus",
    ("resources", "memory"): "mem",
    ("resources", "labels"): "labels",
    ("resources", "priority"): "queue.priority",
    ("resources", "priority_class"): "queue.priority",
    ("resources", "any_of"): "backend.any_of",
    ("resources", "ordered"): "backend.ordered",
    ("resources", "job_recovery"): "backend.managed and lifecycle.max_requeues",
    ("resources", "autostop"): "backend.autostop",
    ("resources", "image_id"): "image, or backend.image_id",
    ("service",): "nothing: a training job is not a service",
    ("pool",): "nothing: jobc starts its own machines",
}
OF_CONFIG: Mapping[str, str] = {  # section -> the keys that set jobc's part of it
    "slurm": "hosts and queue",
    "kubernetes": "queue.name, mounts and shm, or add to this section with backend.config",
    "ssh": "mounts and shm, or add to this section with backend.config",
    "docker": "shm, or add to this section with backend.config",
}


BOTH = (list, tuple)
ABSENT = object()


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    bare = replace(options, extra={}, config={})
    bare_task = evaluate_document(task.task_document(plan, bare), plan, bare, task.artifact_digest(plan))
    derived_config = as_mapping(bare_task.get("config"))
    places = {("config", *path): OF_CONFIG[path[0]] for path in value_paths(derived_config) if path}
    sent = as_mapping(bare_task.get("file_mounts"))
    files: dict[Path, str] = {("file_mounts", target): _sending_key(target, plan, options) for target in sent}
    added: dict[Path, str] = {("file_mounts", target): "mounts" for target in _bucket_targets(options)}
    yield from check_extra_entries(options.extra, {**ALWAYS, **added, **files, **places})
    protected_paths = {
        path: OF_CONFIG[path[0]]
        for path in value_paths(derived_config)
        if path and not _is_merged(path, derived_config, options.config)
    }
    yield from check_extra_entries(options.config, protected_paths, ("backend", "config"))


def _sending_key(target: str, plan: LaunchPlan, options: SkypilotOptions) -> str:
    if target in options.file_mounts:
        return "backend.file_mounts"
    return "mounts" if any(mount.target == target for mount in plan.mounts) else "code"


def _bucket_targets(options: SkypilotOptions) -> Iterator[str]:
    """Yield the targets of those buckets in `backend.extra` that `mounts` could mount too (mode MOUNT, the default)."""
    for target, mount in as_mapping(options.extra.get("file_mounts")).items():
        if "://" in as_text(as_mapping(mount).get("source")) and as_mapping(mount).get("mode", "MOUNT") == "MOUNT":
            yield target


def _is_merged(at: Path, made: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return whether no diagnostic is needed, because both values are merged or because JC4716 checks the option."""
    derived_value, typed_value = _value(made, at), _value(given, at)
    return typed_value is not ABSENT and (
        at[0] == "slurm" or (isinstance(derived_value, BOTH) and isinstance(typed_value, BOTH))
    )


def _value(tree: Any, at: Path) -> Any:
    for part in at:
        tree = tree.get(part, ABSENT) if isinstance(tree, Mapping) else ABSENT
    return tree
