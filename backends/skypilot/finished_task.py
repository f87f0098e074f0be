"""Build the finished task, as it will be written, so that checks cover both job keys and `backend.extra`.

In:  plan, options.
Out: FinishedTask: the task as plain data, its acceptable machines, and the key that set each value.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...compiler.emit.render import evaluate_document
from ...compiler.plan.launch_plan import LaunchPlan
from ...runtime.system.frozen_dataclass import dataclass
from . import schema, task
from .config import requested_cloud, sbatch_options
from .options import SkypilotOptions, infra_cloud

Tree = Mapping[str, Any]
SBATCH = ("config", "slurm", "sbatch_options")

_OWN_KEYS = ("infra", "any_of", "ordered", "use_spot", "disk_size", "disk_tier", "network_tier", "ports")
# path in the task -> the job key that sets it, if neither backend.extra nor backend.config does
KEY_BY_PATH: Mapping[schema.At, str] = {
    **{("resources", name): f"backend.{name}" for name in _OWN_KEYS},
    ("resources", "accelerators"): "gpu_type",
    ("resources", "memory"): "mem",
    ("resources", "image_id"): "image",
    ("resources", "labels"): "labels",
    ("resources", "priority"): "queue.priority",
    ("resources", "priority_class"): "queue.priority",
    ("resources", "autostop"): "backend.down",
    ("file_mounts",): "backend.file_mounts",
    **{(*SBATCH, name): f"queue.{name}" for name in ("account", "qos", "reservation")},
}
NAMED = (("resources", "labels"), ("file_mounts",))  # at these places, the item's name is appended to the key


@dataclass(frozen=True)
class AcceptableMachine:
    """An acceptable machine: an entry of `any_of` or `ordered`, or `resources` itself if there are none.

    asked: the entry merged over `resources`
    at: the entry's place in the task
    """

    asked: Tree
    at: schema.At
    entry: Tree

    @property
    def cloud(self) -> str:
        return infra_cloud(text_or_empty(self.asked.get("infra")))

    def field_path(self, field: str) -> schema.At:
        return (*self.at, field) if field in self.entry else ("resources", field)


@dataclass(frozen=True)
class FinishedTask:
    """The finished task. tree: the data that SkyPilot will read; queued: the sbatch options that job keys set"""

    tree: Tree
    options: SkypilotOptions
    queued: Tree

    @classmethod
    def from_plan(cls, plan: LaunchPlan, options: SkypilotOptions) -> "FinishedTask":
        queued = sbatch_options(plan) if requested_cloud(plan, options) == "slurm" else {}
        document, digest = task.task_document(plan, options), task.artifact_digest(plan)
        return cls(evaluate_document(document, plan, options, digest), options, queued)

    def section(self, *path: str) -> Tree:
        """Return the mapping at a path, or an empty mapping if there is none."""
        node: Any = self.tree
        for part in path:
            node = mapping_or_empty(node).get(part)
        return mapping_or_empty(node)

    def machines(self) -> Iterator[AcceptableMachine]:
        """Yield each acceptable machine as SkyPilot reads it: an entry merged over `resources`."""
        resources = self.section("resources")
        entries = [
            AcceptableMachine({**resources, **mapping_or_empty(entry)}, ("resources", name, i), mapping_or_empty(entry))
            for name in ("any_of", "ordered")
            for i, entry in enumerate(resources.get(name) or ())
        ]
        yield from entries or [AcceptableMachine(resources, ("resources",), resources)]

    def local_files(self) -> dict[str, str]:
        """Map the keys of the local files and folders to send with the task to their paths.

        A list of sources contains no URLs (Storage).
        """
        files = {}
        for target, mount in self.section("file_mounts").items():
            source, key = mapping_or_empty(mount).get("source", mount), self.key_that_set(("file_mounts", target))
            if target not in self.options.file_mounts and not key.startswith("backend.extra."):
                continue  # set by `mounts` or by jobc
            if isinstance(source, (list, tuple)):
                files.update(
                    {f"{key}.source.{i}": text_or_empty(item) for i, item in enumerate(source) if text_or_empty(item)}
                )
            elif text_or_empty(source) and "://" not in source:
                files[key] = source
        return files

    def key_that_set(self, path: schema.At) -> str:
        """Return the key that set the value at that path, or "" if no single key did."""
        if typed := _typed_path(self.options.extra, path):
            return ".".join(("backend", "extra", *typed))
        if path[:1] == ("config",) and (typed := _typed_path(self.options.config, path[1:])):
            return ".".join(("backend", "config", *typed))
        outer = next((outer for outer in KEY_BY_PATH if path[: len(outer)] == outer), None)
        if outer is None:
            return ""
        below = path[len(outer) :] if outer in NAMED else ()
        return ".".join((KEY_BY_PATH[outer], *map(str, below)))


def removal_hint(key: str, instead: str) -> str:
    """Return the hint to remove a value that a key has set. instead: the equivalent job key, or "" if there is none"""
    if key in ("backend.any_of", "backend.ordered"):
        return f"remove that entry of {key}"
    return f"remove {key}" if key.startswith("backend.extra.") or not instead else instead


def mapping_or_empty(value: Any) -> Tree:
    return value if isinstance(value, Mapping) else {}


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _typed_path(tree: Any, path: schema.At) -> tuple[str, ...]:
    """Return the part of the path that exists in the user's tree, or () if the tree does not set the path.

    A value that is not a mapping sets all paths below it.
    """
    for i, part in enumerate(path):
        if not isinstance(tree, Mapping):
            return tuple(map(str, path[:i]))
        if part not in tree:
            return ()
        tree = tree[part]
    return tuple(map(str, path))
