"""lower(spec) -> plan, key table, rules: pure arithmetic and naming.

Every plan leaf is made by one function of a watched spec, so the key table (plan key -> the spec keys it came from)
is what was really read, never a list that someone keeps. A leaf that is more than a copy is made by a named function,
whose first line says the rule.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import FunctionType, MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, cast

from ..trainer.config import SCHEMA
from ..trainer.strict import plain
from ..trainer.target import Target, names
from .plan import (
    Caches,
    Code,
    Container,
    Download,
    LaunchPlan,
    Lifecycle,
    Mount,
    Network,
    NodeGroup,
    Queue,
    Rendezvous,
    Resources,
    Run,
    Secret,
    Setting,
    Setup,
    Topology,
)
from .quoting import sh
from .reads import watch
from .spec import JobSpec

KeyTable = Mapping[str, tuple[str, ...]]
T = TypeVar("T")
Leaf = Callable[[JobSpec], Any]

TRAINER_COMMAND = ("python3", "-m", "jobc_trainer")
_TRAIN_SECTIONS = (
    "model", "data", "loss", "loader", "optim", "loop", "validation", "checkpoint", "metrics", "profile", "parallel",
    "process_group",
)  # fmt: skip
_NO_CODE = ("torch.", "jobc_trainer.")  # what a node has without the user's code


class Lowered(NamedTuple):
    """table: for each plan key the spec keys it was made from; rules: how, in words, for those that are not copied."""

    plan: LaunchPlan
    table: KeyTable
    rules: Mapping[str, str]


def lower(spec: JobSpec) -> Lowered:
    """The plan of a spec that passed check()."""
    low = _Lowering(spec)
    plan = low.make(
        "",
        LaunchPlan,
        name=lambda s: s.name,
        topology=Topology(
            (low.make("topology.groups.0", NodeGroup, nodes=lambda s: s.nodes, gpus=lambda s: s.gpus, procs=procs),)
        ),
        resources=low.make(
            "resources",
            Resources,
            gpu_type=lambda s: s.gpu_type,
            cpus=lambda s: s.cpus,
            mem_bytes=lambda s: s.mem,
            shm_bytes=lambda s: s.shm,
            hosts=used_hosts,
        ),
        launcher=lambda s: s.launcher,
        rendezvous=low.make(
            "rendezvous",
            Rendezvous,
            backend=lambda s: s.rendezvous.backend,
            port=lambda s: s.rendezvous.port,
            timeout_s=lambda s: s.rendezvous.timeout,
        ),
        command=command,
        uses_trainer=lambda s: s.command is None,
        threads_per_rank=threads,
        env=low.mapping("env", spec.env, lambda s, name: s.env[name]),
        secrets=low.mapping("secrets", spec.secrets, lambda s, name: secret(s.secrets[name])),
        secret_kinds=secret_kinds,
        parallel=lambda s: s.parallel.kind,
        labels=low.mapping("labels", spec.labels, lambda s, name: s.labels[name]),
        setup=low.make(
            "setup",
            Setup,
            kind=lambda s: s.python.kind,
            modules=module_lines,
            lines=activation,
            python=lambda s: s.python.interpreter,
        ),
        container=low.make(
            "container",
            Container,
            kind=lambda s: s.container.kind,
            image=image,
            workdir=lambda s: s.container.workdir,
            options=lambda s: s.container.options,
        ),
        mounts=lambda s: tuple(Mount(m.kind, m.source, m.target, m.read_only) for m in s.mounts),
        code=low.make(
            "code",
            Code,
            kind=code_kind,
            root=lambda s: s.code.root,
            max_bytes=lambda s: 0 if s.code.kind == "git" else s.code.max_size,
            repository=lambda s: s.code.repository if s.code.kind == "git" else None,
            commit=lambda s: s.code.commit if s.code.kind == "git" else None,
        ),
        network=low.make(
            "network",
            Network,
            profile=lambda s: s.network.profile,
            interface=lambda s: s.network.interface,
            debug=lambda s: s.network.debug,
            settings=lambda s: tuple(Setting(each.name, each.value, each.reason) for each in s.network.settings),
        ),
        lifecycle=low.make(
            "lifecycle",
            Lifecycle,
            grace_s=lambda s: s.lifecycle.grace,
            time_limit_s=lambda s: s.time or 0,
            keep_s=lambda s: s.lifecycle.keep,
            max_requeues=lambda s: s.lifecycle.max_requeues,
            max_restarts=lambda s: s.lifecycle.max_restarts,
        ),
        queue=low.make(
            "queue",
            Queue,
            **{field.name: _queue_leaf(field.name) for field in dataclasses.fields(Queue)},
        ),
        run=low.make(
            "run",
            Run,
            root=lambda s: s.storage.root,
            folder=run_folder,
            storage=lambda s: s.storage.run,
            keep=lambda s: s.keep_runs,
            data=lambda s: s.storage.data,
            endpoint=lambda s: s.storage.endpoint or "",
            region=lambda s: s.storage.region,
            scratch=lambda s: s.storage.scratch,
        ),
        caches=low.make(
            "caches",
            Caches,
            downloads=lambda s: s.caches.downloads,
            compiled=lambda s: s.caches.compiled,
            offline=lambda s: s.caches.offline,
            prefetch=lambda s: tuple(download(text) for text in s.caches.prefetch),
        ),
        accelerate_extra=low.mapping_of_trees("accelerate_extra", ("accelerate", "extra")),
        deepspeed_extra=low.mapping_of_trees("deepspeed_extra", ("accelerate", "deepspeed_extra")),
        train=low.tree("train", _train_document(spec)),
    )
    return Lowered(plan, MappingProxyType(low.table), MappingProxyType(low.rules))


def procs(spec: JobSpec) -> int:
    """Trainer processes on one node: as given, else one per GPU, else one (torchrun --nproc-per-node)."""
    return spec.procs if spec.procs is not None else max(spec.gpus, 1)


def world_size(spec: JobSpec) -> int:
    """Nodes times processes per node."""
    return spec.nodes * procs(spec)


def inventory(spec: JobSpec, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts of a list that the job may use, in order; it takes the first `nodes` of them."""
    avoided = set(spec.queue.exclude or ())
    return tuple(host for host in hosts if host not in avoided)


def used_hosts(spec: JobSpec) -> tuple[str, ...]:
    """The first of `hosts`, one per node, without those of queue.exclude."""
    return inventory(spec, spec.hosts)[: spec.nodes] if spec.hosts else ()


def preferred_hosts(spec: JobSpec) -> tuple[str, ...]:
    """As many as there are nodes, without those of queue.exclude: Slurm refuses a list longer than the job."""
    return inventory(spec, spec.queue.nodelist)[: spec.nodes] if spec.queue.nodelist else ()


def threads(spec: JobSpec) -> int:
    """CPU threads per rank: as given, else an equal share of the node's cores, else 1.

    torchrun sets OMP_NUM_THREADS=1 when it is unset; an equal share is what a CPU node needs (pytorch/pytorch#22260).
    """
    if spec.threads is not None:
        return spec.threads
    return max(spec.cpus // procs(spec), 1) if spec.cpus is not None else 1


def accumulation(spec: JobSpec) -> int:
    """Forward passes per optimizer step; check() saw to it that global divides."""
    if spec.batch.accumulation is not None:
        return spec.batch.accumulation
    if spec.batch.global_ is not None:
        return spec.batch.global_ // (spec.batch.micro * world_size(spec))
    return 1


def global_batch(spec: JobSpec) -> int:
    """Samples per optimizer step: micro, times forward passes per step, times ranks."""
    return spec.batch.micro * accumulation(spec) * world_size(spec)


def shards(spec: JobSpec) -> int:
    """With parallel=hsdp, the ranks that share one copy of the model: as given, else those of a node."""
    assert spec.parallel.kind == "hsdp"
    return spec.parallel.shards if spec.parallel.shards is not None else procs(spec)


def init_timeout(spec: JobSpec) -> int:
    """Seconds for all ranks to meet: as given, else as long as all nodes have."""
    given = spec.process_group.init_timeout_s
    return given if given is not None else spec.rendezvous.timeout


def command(spec: JobSpec) -> tuple[str, ...]:
    """The program of one rank: the trainer, or the user's words; a .py file or `-m` first is run by Python."""
    if spec.command is None:
        return TRAINER_COMMAND
    first = spec.command[0]
    return ("python3", *spec.command) if first.endswith(".py") or first == "-m" else spec.command


def brings_code(spec: JobSpec) -> bool:
    """The job runs code of the user's: a command, a recipe, or something of their own that a `_target_` names."""
    if spec.command is not None or spec.recipe is not None:
        return True
    targets = [section for section in (spec.model, spec.data, spec.loss, spec.optim) if isinstance(section, Mapping)]
    return not all(name.startswith(_NO_CODE) for name in names(targets))


def code_kind(spec: JobSpec) -> str:
    """As given when the job runs code of the user's; else "lib", the trainer alone."""
    return spec.code.kind if brings_code(spec) else "lib"


def run_folder(spec: JobSpec) -> str:
    """The name, and of one point of a sweep what makes it different from the others."""
    return spec.name if spec.point is None else f"{spec.name}+{spec.point}"


def module_lines(spec: JobSpec) -> tuple[str, ...]:
    """Bash lines that load environment modules in a non-login shell: of the node, for an image has none."""
    lines = [f"module load {sh(name)}" for name in spec.python.modules]
    if lines:
        lines.insert(0, 'command -v module >/dev/null || . "${MODULESHOME:-/usr/share/modules}/init/bash"')
    return tuple(lines)


def activation(spec: JobSpec) -> tuple[str, ...]:
    """Bash lines that make the Python environment active in a non-login shell."""
    python = spec.python
    if python.kind == "venv":
        return (f". {sh(f'{python.path}/bin/activate')}",)
    if python.kind == "conda":
        return ('eval "$(conda shell.bash hook)"', f"conda activate {sh(python.path or 'base')}")
    if python.kind == "uv":
        return (f". {sh(f'{python.path}/.venv/bin/activate')}",)
    return ()


def image(spec: JobSpec) -> str | None:
    """`image` as its runtime spells it: docker's NAME:TAG is docker://NAME:TAG for Apptainer, HOST#NAME:TAG for Pyxis.

    Paths (from / or ., or *.sif) and what has `://` or `#` stay. Source: enroot 4.1, doc/cmd/import.md.
    """
    name, kind = spec.image, spec.container.kind
    if name is None or kind not in ("apptainer", "pyxis") or name.startswith(("/", ".")) or re.search("://|#", name):
        return name
    if kind == "apptainer":
        return name if name.endswith((".sif", ".img", ".sqsh")) else f"docker://{name}"
    host, _, rest = name.partition("/")
    is_host = rest and (re.search("[.:]", host) or host == "localhost")
    return f"{host}#{rest}" if is_host else name


def secret_kinds(spec: JobSpec) -> tuple[str, ...]:
    """The kinds that occur, each once: not every engine can deliver each."""
    return tuple(sorted({secret(spec.secrets[name]).kind for name in spec.secrets}))


def secret(reference: str) -> Secret:
    """`env:HF_TOKEN` as a Secret; values.py saw to the form."""
    kind, _, ref = reference.partition(":")
    return Secret(cast(Literal["env", "file", "k8s"], kind), ref)


def download(text: str) -> Download:
    """`model:ORG/NAME@REVISION` as a Download; values.py saw to the form."""
    kind, _, what = text.partition(":")
    name, _, revision = (what, "", "") if kind == "run" else what.partition("@")
    return Download(kind, name, revision)


def _queue_leaf(name: str) -> Leaf:
    if name == "nodelist":
        return preferred_hosts
    if name == "exclude":
        return lambda s: s.queue.exclude or ()
    return lambda s: getattr(s.queue, name)


def _train_document(spec: JobSpec) -> dict[str, Any]:
    """train.json: leaves are functions of the spec; see trainer/config.py for what each means."""
    document: dict[str, Any] = {
        "schema": lambda s: SCHEMA,
        "job": lambda s: s.name,
        "world_size": world_size,
        "threads_per_rank": threads,
        "seed": lambda s: s.seed,
        "recipe": lambda s: s.recipe,
    }
    for section in _TRAIN_SECTIONS:
        value = getattr(spec, section)
        if isinstance(value, Target):
            document[section] = _target_leaves(value, (section,))
        else:
            document[section] = {
                field.name.rstrip("_"): _section_leaf(section, field.name) for field in dataclasses.fields(value)
            }
    document["process_group"]["init_timeout_s"] = init_timeout
    if spec.parallel.kind == "hsdp":
        document["parallel"]["shards"] = shards
    document["batch"] = {
        "micro": lambda s: s.batch.micro,
        "accumulation": accumulation,
        "global": global_batch,
    }
    return document


def _target_leaves(tree: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Each argument is a leaf of its own, so that a line of train.json knows the key that it came from."""

    def leaf(path: tuple[str, ...]) -> Leaf:
        return lambda s: reduce(lambda node, key: node[key], path[1:], getattr(s, path[0]))

    return {
        key: _target_leaves(value, (*keys, key)) if isinstance(value, Mapping) and value else leaf((*keys, key))
        for key, value in tree.items()
    }


def _section_leaf(section: str, name: str) -> Leaf:
    return lambda s: plain(getattr(getattr(s, section), name))


def thaw(tree: Any) -> Any:
    """Read-only mappings as plain ones, tuples as lists: what json.loads would give."""
    if isinstance(tree, Mapping):
        return {key: thaw(value) for key, value in tree.items()}
    return [thaw(item) for item in tree] if isinstance(tree, tuple) else tree


def _whole_list(key: str) -> str:
    """`mounts.0.kind` is part of the leaf `mounts`."""
    parts = key.split(".")
    cut = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts))
    return ".".join(parts[:cut])


def _entry(entry: Callable[[JobSpec, str], Any], name: str, spec: JobSpec) -> Any:
    return entry(spec, name)


def _dig(at: tuple[str, str], path: tuple[str, ...], spec: JobSpec) -> Any:
    here: Any = getattr(getattr(spec, at[0]), at[1])
    for name in path:
        here = here[name]
    return here


class _Lowering:
    """Evaluates leaves on a watched spec; keeps the key table and the rules."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.table: dict[str, tuple[str, ...]] = {}
        self.rules: dict[str, str] = {}

    def leaf(self, key: str, function: Leaf) -> Any:
        read: list[str] = []
        value = function(watch(self.spec, "", read.append))
        self.table[key] = tuple(dict.fromkeys(_whole_list(part) for part in read))
        if isinstance(function, FunctionType) and function.__doc__:
            self.rules[key] = function.__doc__.split("\n", 1)[0]
        return value

    def make(self, prefix: str, cls: type[T], **fields: Any) -> T:
        """A plan section; a field is a finished section or mapping, or a function of the spec."""
        values = {}
        for name, value in fields.items():
            key = f"{prefix}.{name}" if prefix else name
            values[name] = self.leaf(key, value) if callable(value) else value
        return cls(**values)

    def mapping(self, key: str, source: Mapping[str, Any], entry: Callable[[JobSpec, str], Any]) -> Mapping[str, Any]:
        self.table[key] = (key,)
        return MappingProxyType({name: self.leaf(f"{key}.{name}", partial(_entry, entry, name)) for name in source})

    def mapping_of_trees(self, key: str, at: tuple[str, str]) -> Mapping[str, Any]:
        """A mapping of the spec, of any depth, as it is. at: section and name"""
        self.table[key] = (".".join(at),)

        def leaf(value: Any, path: tuple[str, ...]) -> Any:
            if isinstance(value, Mapping) and value:
                return {name: leaf(inner, (*path, name)) for name, inner in value.items()}
            return partial(_dig, at, path)

        tree = getattr(getattr(self.spec, at[0]), at[1])
        return self.tree(key, {name: leaf(value, (name,)) for name, value in tree.items()})

    def tree(self, key: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return MappingProxyType(
            {
                name: self.leaf(f"{key}.{name}", value) if callable(value) else self.tree(f"{key}.{name}", value)
                for name, value in document.items()
            }
        )
