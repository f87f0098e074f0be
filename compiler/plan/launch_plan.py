"""LaunchPlan: which processes run where, independent of backends. The plan contains every derived number once.

The fields were derived from four handwritten artifacts (docs/decisions/0001-four-targets). A *must* changes what the
job does, so the compile fails if the backend does not support it. A *wish* is about queueing and convenience. If the
backend ignores a wish, the screen and `jobctl help` list it, and with --strict it is an error. A field at its neutral
value needs no support from a backend. New fields may be added freely, because if a job uses one, capabilities.py
rejects every backend that does not list it in `honours`.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ...runtime.system.frozen_dataclass import dataclass
from .runtime_vars import Word


def _required_field(neutral: Any = None) -> Any:
    return dataclasses.field(metadata={"must": True, "neutral": neutral})


def _optional_field(neutral: Any = None) -> Any:
    return dataclasses.field(metadata={"must": False, "neutral": neutral})


def _always_supported_field(*neutral: Any) -> Any:
    """Return a field that every backend supports, because the neutral files (launch.sh, train.json, jobctl) provide it.

    neutral: value that needs no support.
    """
    return dataclasses.field(metadata={"given": True, **({"neutral": neutral[0]} if neutral else {})})


@dataclass(frozen=True)
class Topology:
    """The nodes, which are identical. Every backend supports this section. gpus, procs: GPUs and processes per node"""

    nodes: int = _always_supported_field()
    gpus: int = _always_supported_field()
    procs: int = _always_supported_field()

    @property
    def world_size(self) -> int:
        return self.nodes * self.procs


@dataclass(frozen=True)
class Resources:
    """The resources of one node. hosts: those of all nodes in rank order, or () if the engine chooses them."""

    gpu_type: str | None = _required_field()
    cpus: int | None = _optional_field()
    mem_bytes: int | None = _optional_field()
    shm_bytes: int | None = _required_field()
    hosts: tuple[str, ...] = _optional_field(())


@dataclass(frozen=True)
class Rendezvous:
    """How the nodes find each other. port: on node 0; 0 means that it is chosen at run time."""

    backend: Literal["static", "c10d"] = _always_supported_field()
    port: int = _always_supported_field()
    timeout_s: int = _always_supported_field()


@dataclass(frozen=True)
class Secret:
    """Where a secret comes from: env (a variable where submit or the node runs), file (a path) or k8s (`NAME/KEY`)."""

    kind: Literal["env", "file", "k8s"]
    ref: str


@dataclass(frozen=True)
class Setup:
    """The ranks' Python environment.

    modules:    bash lines that load environment modules on the node, before the container starts.
    lines:      bash lines that activate the environment where the ranks start, which is in the container if there is
                one.
    user_lines: the user's own lines, which run after `lines`.
    before, per_node, after: the user's own lines that jobctl runs once per attempt, on every node and at the end,
                respectively.
    then:       the user's own lines that every rank runs after the command. The ranks start again for each entry.
    python:     the interpreter.
    """

    kind: str = _required_field("none")
    modules: tuple[str, ...] = _always_supported_field()
    lines: tuple[str, ...] = _always_supported_field()
    user_lines: tuple[str, ...] = _always_supported_field()
    before: tuple[str, ...] = _always_supported_field()
    per_node: tuple[str, ...] = _always_supported_field()
    then: tuple[str, ...] = _always_supported_field()
    after: tuple[str, ...] = _always_supported_field()
    python: Word = _always_supported_field()


@dataclass(frozen=True)
class Container:
    """The container in which the ranks run. image: in the syntax of that runtime."""

    kind: str = _required_field("none")
    image: str | None = _required_field()
    workdir: str | None = _required_field()
    options: tuple[str, ...] = _required_field(())

    @property
    def is_entered(self) -> bool:
        """Return whether launch.sh starts on the node and enters the container, instead of starting inside it."""
        return self.kind in ("docker", "apptainer")


@dataclass(frozen=True)
class Mount:
    """One mount. kind: host (a path), claim, nfs, empty, volume or bucket."""

    kind: str
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class CodeDelivery:
    """How the user's code reaches the nodes. The kind is "lib" if jobc's trainer runs without user code.

    root: the folder of the code. If there is a repository (kind "git"), the path is relative to it.
    script: file that the command runs, relative to root, or "" if unknown.
    """

    kind: str = _required_field("lib")
    root: str = _always_supported_field()
    max_bytes: int = _always_supported_field()
    script: str = _always_supported_field()
    repository: str | None = _always_supported_field()
    commit: str | None = _always_supported_field()


@dataclass(frozen=True)
class Setting:
    """One of the ranks' environment variables. reason: why it is set, for readers of launch.sh."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Network:
    """Network between nodes. settings: variables that make NCCL use the fabric."""

    profile: str = _required_field("auto")
    interface: str | None = _required_field()
    debug: bool = _always_supported_field()
    settings: tuple[Setting, ...] = _always_supported_field()


@dataclass(frozen=True)
class Lifecycle:
    """How an attempt ends: the ranks receive SIGTERM, and SIGKILL after grace_s.

    time_limit_s: time limit of one attempt, or 0 for none.
    keep_s: how many seconds the engine keeps finished jobs, or None for the engine's default.
    """

    grace_s: int = _always_supported_field()
    time_limit_s: int = _optional_field(0)
    keep_s: int | None = _optional_field(None)
    max_requeues: int = _optional_field(0)
    max_restarts: int = _always_supported_field()

    @property
    def kill_after_s(self) -> int:
        """Return how long an engine waits before it kills the job: the grace period plus 10 s for the supervisor."""
        return self.grace_s + 10


@dataclass(frozen=True)
class Queue:
    """Scheduler options, in the site's own names."""

    name: str | None = _optional_field()
    account: str | None = _optional_field()
    qos: str | None = _optional_field()
    priority: str | None = _optional_field()
    reservation: str | None = _optional_field()
    nodelist: tuple[str, ...] = _optional_field(())
    exclude: tuple[str, ...] = _optional_field(())
    exclusive: bool = _optional_field(False)
    after: tuple[str, ...] = _optional_field(())


@dataclass(frozen=True)
class Run:
    """A job's run folders: ROOT/FOLDER/RUN_ID.

    root: relative paths are resolved from the folder that contains artifacts/.
    folder: the job's name, followed by the sweep point.
    endpoint, region, scratch: only used with storage=object.
    """

    root: str = _always_supported_field()
    folder: str = _always_supported_field()
    storage: str = _required_field("shared")
    keep: int = _always_supported_field()
    data: str | None = _always_supported_field()
    endpoint: str = _always_supported_field()
    region: str = _always_supported_field()
    scratch: str = _always_supported_field()


@dataclass(frozen=True)
class Download:
    """One download. what: a model's or dataset's name on the Hugging Face hub, or with kind run, a command."""

    kind: str
    what: str
    revision: str


@dataclass(frozen=True)
class Caches:
    """The cache folders of libraries. None means the library's default. The node expands `$UID` and `~/`."""

    downloads: str | None = _always_supported_field()
    compiled: str | None = _always_supported_field()
    offline: bool = _always_supported_field()
    prefetch: tuple[Download, ...] = _always_supported_field()


@dataclass(frozen=True)
class LaunchPlan:
    """One job, ready to be emitted for any backend.

    command:   every rank's program, without the launcher.
    uses_trainer: whether command is jobc's trainer, which reads train.json.
    parallel:  parallelism (ddp, …), which launchers such as accelerate need.
    accelerate_extra, deepspeed_extra: trees that are merged into accelerate.yaml and deepspeed.json last.
    threads_per_rank: the value of OMP_NUM_THREADS, and the number of torch threads.
    train:     train.json as data, identical for all backends.
    """

    name: str = _always_supported_field()
    topology: Topology = _always_supported_field()
    resources: Resources = _always_supported_field()
    launcher: str = _required_field("torchrun")
    rendezvous: Rendezvous = _always_supported_field()
    command: tuple[Word, ...] = _always_supported_field()
    uses_trainer: bool = _always_supported_field()
    threads_per_rank: int = _always_supported_field()
    env: Mapping[str, Word] = _always_supported_field()
    secrets: Mapping[str, Secret] = _always_supported_field()
    secret_kinds: tuple[str, ...] = _required_field(())
    labels: Mapping[str, str] = _optional_field({})
    setup: Setup = _always_supported_field()
    container: Container = _always_supported_field()
    mounts: tuple[Mount, ...] = _required_field(())
    code: CodeDelivery = _always_supported_field()
    network: Network = _always_supported_field()
    lifecycle: Lifecycle = _always_supported_field()
    queue: Queue = _always_supported_field()
    run: Run = _always_supported_field()
    caches: Caches = _always_supported_field()
    parallel: str = _always_supported_field()
    torchrun_options: tuple[str, ...] = _always_supported_field(())
    accelerate_extra: Mapping[str, Any] = _always_supported_field({})
    deepspeed_extra: Mapping[str, Any] = _always_supported_field({})
    train: Mapping[str, Any] = _always_supported_field()


@dataclass(frozen=True)
class BackendRequirement:
    """A plan field whose value is not neutral. If a backend does not honour it, jobc reports this."""

    key: str
    value: Any
    must: bool


def backend_requirements(plan: LaunchPlan) -> Iterator[BackendRequirement]:
    """Yield everything in this plan that the backend must provide, because the neutral files do not."""
    for key, value, field in _capability_fields(plan, ""):
        if value != field.metadata["neutral"]:
            yield BackendRequirement(key, value, field.metadata["must"])


def capability_keys(plan: LaunchPlan) -> list[str]:
    """Return the keys that a backend may list in `honours`: the musts and the wishes."""
    return [key for key, _, _ in _capability_fields(plan, "")]


def _capability_fields(section: Any, prefix: str) -> Iterator[tuple[str, Any, dataclasses.Field[Any]]]:
    for field in dataclasses.fields(section):
        value, key = getattr(section, field.name), f"{prefix}{field.name}"
        if "must" in field.metadata:
            yield key, value, field
        elif dataclasses.is_dataclass(value):
            yield from _capability_fields(value, f"{key}.")


def to_mutable_tree(tree: Any) -> Any:
    """Return the tree with dicts for read-only mappings and lists for tuples, like the result of json.loads."""
    if isinstance(tree, Mapping):
        return {key: to_mutable_tree(value) for key, value in tree.items()}
    return [to_mutable_tree(item) for item in tree] if isinstance(tree, tuple) else tree
