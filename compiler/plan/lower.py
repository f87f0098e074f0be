"""Lower a spec to a plan, a key table and rules. Reads nothing but the spec.

Every plan leaf is computed by one function of a watched spec, so the key table (plan key -> spec keys) records the
actual reads and needs no maintenance. A leaf that is not a copy is computed by a function in derive.py, and the first
line of that function's docstring is its rule.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import reduce
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ...trainer.config.parse import to_json_types
from ...trainer.config.schema import SCHEMA
from ...trainer.config.target import Target
from ..spec.job_spec import TRAIN_SECTIONS, JobSpec
from . import derive
from .launch_plan import (
    Caches,
    CodeDelivery,
    Container,
    LaunchPlan,
    Lifecycle,
    Mount,
    Network,
    Queue,
    Rendezvous,
    Resources,
    Run,
    Setting,
    Setup,
    Topology,
)
from .read_tracking import SCALARS, track_reads
from .runtime_vars import parse_runtime_references

KeyTable = Mapping[str, tuple[str, ...]]
T = TypeVar("T")
Leaf = Callable[[JobSpec], Any]


class LoweringResult(NamedTuple):
    """Result of lower().

    table: plan key -> the spec keys that it was computed from.
    rules: plan key -> rule, for keys that are not copies.
    """

    plan: LaunchPlan
    table: KeyTable
    rules: Mapping[str, str]


def lower(spec: JobSpec) -> LoweringResult:
    """Return the plan of a spec that passed check()."""
    builder = _PlanBuilder(spec)
    plan = builder.make_section(
        "",
        LaunchPlan,
        name=lambda s: s.name,
        topology=builder.make_section("topology", Topology, section="", procs=derive.procs_per_node),
        resources=builder.make_section(
            "resources",
            Resources,
            section="",
            mem_bytes=lambda s: s.mem,
            shm_bytes=lambda s: s.shm,
            hosts=derive.used_hosts,
        ),
        launcher=lambda s: s.launcher,
        rendezvous=builder.make_section(
            "rendezvous", Rendezvous, section="rendezvous", timeout_s=lambda s: s.rendezvous.timeout
        ),
        command=derive.command_words,
        uses_trainer=lambda s: s.command is None,
        threads_per_rank=derive.threads_per_rank,
        env=builder.lower_mapping("env", spec.env, lambda s, name: parse_runtime_references(s.env[name])),
        secrets=builder.lower_mapping(
            "secrets", spec.secrets, lambda s, name: derive.parse_secret_reference(s.secrets[name])
        ),
        secret_kinds=derive.secret_kinds,
        parallel=lambda s: s.parallel.kind,
        labels=builder.lower_mapping("labels", spec.labels, lambda s, name: s.labels[name]),
        setup=builder.make_section(
            "setup",
            Setup,
            kind=lambda s: s.python.kind,
            modules=derive.module_lines,
            lines=derive.activation_lines,
            user_lines=derive.make_lines_rule("setup"),
            before=derive.make_lines_rule("before"),
            per_node=derive.make_lines_rule("per_node"),
            then=derive.then_lines,
            after=derive.make_lines_rule("after"),
            python=lambda s: s.python.interpreter,
        ),
        container=builder.make_section("container", Container, section="container", image=derive.container_image),
        mounts=lambda s: tuple(Mount(m.kind, m.source, m.target, m.read_only) for m in s.mounts),
        code=builder.make_section(
            "code",
            CodeDelivery,
            kind=derive.code_kind,
            root=lambda s: s.code.root,
            max_bytes=lambda s: 0 if s.code.kind == "git" else s.code.max_size,
            script=derive.user_script,
            repository=lambda s: s.code.repository if s.code.kind == "git" else None,
            commit=lambda s: s.code.commit if s.code.kind == "git" else None,
        ),
        network=builder.make_section(
            "network",
            Network,
            section="network",
            settings=lambda s: tuple(
                Setting(setting.name, setting.value, setting.reason) for setting in s.network.settings
            ),
        ),
        lifecycle=builder.make_section(
            "lifecycle",
            Lifecycle,
            section="lifecycle",
            grace_s=lambda s: s.lifecycle.grace,
            time_limit_s=lambda s: s.time or 0,
            keep_s=lambda s: s.lifecycle.keep,
        ),
        queue=builder.make_section(
            "queue", Queue, section="queue", nodelist=derive.preferred_hosts, exclude=lambda s: s.queue.exclude or ()
        ),
        run=builder.make_section(
            "run",
            Run,
            section="storage",
            folder=derive.run_folder_name,
            storage=lambda s: s.storage.run,
            keep=lambda s: s.keep_runs,
            endpoint=lambda s: s.storage.endpoint or "",
        ),
        caches=builder.make_section(
            "caches",
            Caches,
            section="caches",
            prefetch=lambda s: tuple(derive.parse_download(text) for text in s.caches.prefetch),
        ),
        torchrun_options=derive.torchrun_options,
        accelerate_extra=builder.copy_mapping("accelerate_extra", "accelerate", "extra"),
        deepspeed_extra=builder.copy_mapping("deepspeed_extra", "accelerate", "deepspeed_extra"),
        train=builder.lower_tree("train", _train_document(spec)),
    )
    builder.record_rule("topology.world_size", derive.world_size)  # world_size is a property of the plan, not a field
    return LoweringResult(plan, MappingProxyType(builder.table), MappingProxyType(builder.rules))


class _SpecKeyLeaf(NamedTuple):
    """Leaf that has the value of a spec key."""

    section: str
    name: str

    def __call__(self, spec: JobSpec) -> Any:
        return getattr(getattr(spec, self.section) if self.section else spec, self.name)

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}".strip("._")


class _SpecKeyAsJsonLeaf(_SpecKeyLeaf):
    """Leaf that has the value of a spec key, converted to JSON types."""

    def __call__(self, spec: JobSpec) -> Any:
        return to_json_types(super().__call__(spec))


def _train_document(spec: JobSpec) -> dict[str, Any]:
    """Return train.json as a tree of functions of the spec. trainer/config/schema.py explains the keys."""
    document: dict[str, Any] = {
        "schema": lambda s: SCHEMA,
        "job": lambda s: s.name,
        "world_size": derive.world_size,
        "threads_per_rank": derive.threads_per_rank,
        "seed": lambda s: s.seed,
        "recipe": lambda s: s.recipe,
    }
    for section in TRAIN_SECTIONS:
        value = getattr(spec, section)
        if isinstance(value, Target):
            document[section] = _copied_leaves(value, (section,))
        else:
            document[section] = {
                field.name.rstrip("_"): _SpecKeyAsJsonLeaf(section, field.name) for field in dataclasses.fields(value)
            }
    document["process_group"]["init_timeout_s"] = derive.init_timeout
    if spec.parallel.kind == "hsdp":
        document["parallel"]["shards"] = derive.shard_group_size
    document["batch"] = {
        "micro": lambda s: s.batch.micro,
        "accumulation": derive.accumulation,
        "global": derive.global_batch,
    }
    return document


def _copied_leaves(tree: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a mapping at a path in the spec with each value as a leaf, so that `jobc why` finds its key."""

    def make_leaf(path: tuple[str, ...]) -> Leaf:
        return lambda s: reduce(_get_entry, path, s)

    return {
        key: _copied_leaves(value, (*path, key)) if isinstance(value, Mapping) and value else make_leaf((*path, key))
        for key, value in tree.items()
    }


def _get_entry(node: Any, name: str) -> Any:
    return node[name] if isinstance(node, Mapping) else getattr(node, name)


def _containing_list(key: str) -> str:
    """Return the leaf that contains a key, such as `mounts` for `mounts.0.kind`."""
    parts = key.split(".")
    cut = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts))
    return ".".join(parts[:cut])


class _PlanBuilder:
    """Evaluates leaves on a watched spec and collects the key table and the rules."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.table: dict[str, tuple[str, ...]] = {}
        self.rules: dict[str, str] = {}

    def evaluate_leaf(self, key: str, function: Leaf) -> Any:
        if isinstance(function, _SpecKeyLeaf) and type(value := function(self.spec)) in SCALARS:  # most leaves
            self.table[key] = (function.key,)
            return value
        read: list[str] = []
        value = function(track_reads(self.spec, "", read.append))
        self.table[key] = tuple(dict.fromkeys(_containing_list(part) for part in read))
        self.record_rule(key, function)
        return value

    def record_rule(self, key: str, function: Leaf) -> None:
        """Record the first docstring line of the function that derives the value."""
        if isinstance(function, FunctionType) and function.__doc__:
            self.rules[key] = function.__doc__.split("\n", 1)[0]

    def make_section(self, prefix: str, cls: type[T], section: str | None = None, **fields: Any) -> T:
        """Return a plan section. A field is given either as a finished section or mapping, or as a function of the
        spec.

        section: the spec section from which all other fields are copied by name, or "" for the top level.
        """
        if section is not None:
            names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]  # it is a dataclass
            fields = {name: fields.get(name) or _SpecKeyLeaf(section, name) for name in names}
        values = {}
        for name, value in fields.items():
            key = f"{prefix}.{name}" if prefix else name
            values[name] = self.evaluate_leaf(key, value) if callable(value) else value
        return cls(**values)

    def lower_mapping(
        self, key: str, source: Mapping[str, Any], make_entry: Callable[[JobSpec, str], Any]
    ) -> Mapping[str, Any]:
        self.table[key] = (key,)
        return self.lower_tree(key, {name: lambda s, name=name: make_entry(s, name) for name in source})

    def copy_mapping(self, key: str, section: str, name: str) -> Mapping[str, Any]:
        self.table[key] = (f"{section}.{name}",)
        return self.lower_tree(key, _copied_leaves(getattr(getattr(self.spec, section), name), (section, name)))

    def lower_tree(self, key: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return MappingProxyType(
            {
                name: self.evaluate_leaf(f"{key}.{name}", value)
                if callable(value)
                else self.lower_tree(f"{key}.{name}", value)
                for name, value in document.items()
            }
        )
