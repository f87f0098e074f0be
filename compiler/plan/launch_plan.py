"""LaunchPlan: which processes run where, independent of backends. The plan contains every derived number once.

The fields were derived from four handwritten artifacts (docs/decisions/0001-four-targets). A *must* changes what the
job does: if the backend does not support it, the compile fails. A *wish* is about queueing and convenience: if the
backend ignores it, it is listed on the screen and in `jobctl help`, and is an error with --strict. A field at its
neutral value needs no support from a backend. New fields may be added freely: if a job uses one, capabilities.py
rejects backends that do not list it in `honours`.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ...runtime.system.frozen_dataclass import dataclass
from .runtime_vars import Word


def _must(neutral: Any = None) -> Any:
    return dataclasses.field(metadata={"must": True, "neutral": neutral})


def _wish(neutral: Any = None) -> Any:
    return dataclasses.field(metadata={"must": False, "neutral": neutral})


def _given(*neutral: Any) -> Any:
    """Return a field that the neutral files (launch.sh, train.json, jobctl) support on every backend.

    neutral: value that needs no support.
    """
    return dataclasses.field(metadata={"given": True, **({"neutral": neutral[0]} if neutral else {})})


@dataclass(frozen=True)
class NodeGroup:
    """A group of identical nodes. nodes: their number; gpus, procs: GPUs and processes per node."""

    nodes: int
    gpus: int
    procs: int


@dataclass(frozen=True)
class Topology:
    """The nodes, in node rank order. Every backend supports this section.

    There is only one group, because all nodes are identical for now.
    """

    groups: tuple[NodeGroup, ...] = _given()

    @property
    def nodes(self) -> int:
        return sum(group.nodes for group in self.groups)

    @property
    def world_size(self) -> int:
        return sum(group.nodes * group.procs for group in self.groups)

    @property
    def procs(self) -> int:
        """Return the processes per node; requires one group."""
        (group,) = self.groups
        return group.procs

    @property
    def gpus(self) -> int:
        """Return the GPUs per node; requires one group."""
        (group,) = self.groups
        return group.gpus


@dataclass(frozen=True)
class Resources:
    """One node's resources. cpus: cores; hosts: those of all nodes in rank order, () = the engine decides."""

    gpu_type: str | None = _must()
    cpus: int | None = _wish()
    mem_bytes: int | None = _wish()
    shm_bytes: int | None = _must()
    hosts: tuple[str, ...] = _wish(())


@dataclass(frozen=True)
class Rendezvous:
    """Rendezvous of nodes. backend: torchrun's; port: on node 0, 0 = chosen at run time; timeout_s: for all nodes."""

    backend: Literal["static", "c10d"] = _given()
    port: int = _given()
    timeout_s: int = _given()


# variables whose value in `env` is prepended to the value set by modules and environments
PATH_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PYTHONPATH", "MANPATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH",
)  # fmt: skip


@dataclass(frozen=True)
class Secret:
    """Source of a secret. kind: env (a variable, where submit or the node runs), file (a path), k8s (`NAME/KEY`)."""

    kind: Literal["env", "file", "k8s"]
    ref: str


@dataclass(frozen=True)
class Setup:
    """The ranks' Python environment.

    modules:    bash lines that load environment modules on the node, before the container starts.
    lines:      bash lines that activate the environment where the ranks start: in the container, if there is one.
    user_lines: the user's own lines, which run after `lines`.
    before, per_node, after: the user's own lines that jobctl runs: once per attempt, once per node, and at the end.
    then:       the user's own lines that every rank runs after the command; one entry for each start of the ranks.
    python:     the interpreter.
    """

    kind: str = _must("none")
    modules: tuple[str, ...] = _given()
    lines: tuple[str, ...] = _given()
    user_lines: tuple[str, ...] = _given()
    before: tuple[str, ...] = _given()
    per_node: tuple[str, ...] = _given()
    then: tuple[str, ...] = _given()
    after: tuple[str, ...] = _given()
    python: Word = _given()


@dataclass(frozen=True)
class Container:
    """The ranks' container. kind: none | docker | apptainer | pyxis | pod; image: in the syntax of that runtime;
    workdir: working directory inside; options: extra runtime options.
    """

    kind: str = _must("none")
    image: str | None = _must()
    workdir: str | None = _must()
    options: tuple[str, ...] = _must(())

    @property
    def is_entered(self) -> bool:
        """Return whether launch.sh starts on the node and enters the container, instead of starting inside it."""
        return self.kind in ("docker", "apptainer")


@dataclass(frozen=True)
class Mount:
    """One mount. kind: host (a path), claim, nfs, empty, volume or bucket; source: its name; target: in the job."""

    kind: str
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class CodeDelivery:
    """Delivery of the user's code; kind "lib" if jobc's trainer runs without user code.

    root: the code's folder, inside the repository if there is one; max_bytes: limit for copying it.
    script: file that the command runs, relative to root; "" if unknown.
    repository, commit: for kind "git".
    """

    kind: str = _must("lib")
    root: str = _given()
    max_bytes: int = _given()
    script: str = _given()
    repository: str | None = _given()
    commit: str | None = _given()


@dataclass(frozen=True)
class Setting:
    """One of the ranks' environment variables. reason: why it is set, for readers of launch.sh."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Network:
    """Network between nodes. profile: fabric, auto = the libraries choose; interface: None = found at run time.

    settings: variables that make NCCL use the fabric.
    """

    profile: str = _must("auto")
    interface: str | None = _must()
    debug: bool = _given()
    settings: tuple[Setting, ...] = _given()


@dataclass(frozen=True)
class Lifecycle:
    """How an attempt ends: ranks receive SIGTERM and are killed after grace_s.

    time_limit_s: limit for one attempt, 0 = none; keep_s: how many seconds the engine keeps finished jobs, None = its
    default.
    """

    grace_s: int = _given()
    time_limit_s: int = _wish(0)
    keep_s: int | None = _wish(None)
    max_requeues: int = _wish(0)
    max_restarts: int = _given()

    @property
    def kill_after_s(self) -> int:
        """Return how long an engine must wait before it kills the job: grace period plus 10 s for the supervisor."""
        return self.grace_s + 10


@dataclass(frozen=True)
class Queue:
    """Scheduler options, in the site's own names."""

    name: str | None = _wish()
    account: str | None = _wish()
    qos: str | None = _wish()
    priority: str | None = _wish()
    reservation: str | None = _wish()
    nodelist: tuple[str, ...] = _wish(())
    exclude: tuple[str, ...] = _wish(())
    exclusive: bool = _wish(False)
    after: tuple[str, ...] = _wish(())


@dataclass(frozen=True)
class Run:
    """A job's run folders: ROOT/FOLDER/RUN_ID.

    root: relative paths are resolved from the folder that contains artifacts/.
    folder: the job's name, followed by the sweep point.
    storage: shared | node | object; keep: number of finished runs kept; data: JOBC_DATA_DIR.
    endpoint, region, scratch: for storage=object, where root is s3://BUCKET/PREFIX; scratch: folder on each node.
    """

    root: str = _given()
    folder: str = _given()
    storage: str = _must("shared")
    keep: int = _given()
    data: str | None = _given()
    endpoint: str = _given()
    region: str = _given()
    scratch: str = _given()


@dataclass(frozen=True)
class Download:
    """One download. kind: model or dataset (what: name on the Hugging Face hub), or run (what: a command)."""

    kind: str
    what: str
    revision: str


@dataclass(frozen=True)
class Caches:
    """The libraries' cache folders. None = the library's default; the node expands `$UID` and `~/`."""

    downloads: str | None = _given()
    compiled: str | None = _given()
    offline: bool = _given()
    prefetch: tuple[Download, ...] = _given()


@dataclass(frozen=True)
class LaunchPlan:
    """One job, ready to be emitted for any backend.

    name:      name of the job.
    launcher:  how ranks start on a node: the launch line of launch.sh.
    command:   every rank's program, without the launcher.
    uses_trainer: whether command is jobc's trainer, which reads train.json.
    env:       every rank's environment variables.
    secret_kinds: the kinds of secrets that occur, because not every engine can deliver each kind.
    parallel:  parallelism (ddp, …), which launchers such as accelerate need.
    torchrun_options: options added to torchrun's command line.
    accelerate_extra, deepspeed_extra: trees merged last into accelerate.yaml and deepspeed.json.
    threads_per_rank: OMP_NUM_THREADS and torch threads.
    train:     train.json as data, identical for all backends.
    """

    name: str = _given()
    topology: Topology = _given()
    resources: Resources = _given()
    launcher: str = _must("torchrun")
    rendezvous: Rendezvous = _given()
    command: tuple[Word, ...] = _given()
    uses_trainer: bool = _given()
    threads_per_rank: int = _given()
    env: Mapping[str, Word] = _given()
    secrets: Mapping[str, Secret] = _given()
    secret_kinds: tuple[str, ...] = _must(())
    labels: Mapping[str, str] = _wish({})
    setup: Setup = _given()
    container: Container = _given()
    mounts: tuple[Mount, ...] = _must(())
    code: CodeDelivery = _given()
    network: Network = _given()
    lifecycle: Lifecycle = _given()
    queue: Queue = _given()
    run: Run = _given()
    caches: Caches = _given()
    parallel: str = _given()
    torchrun_options: tuple[str, ...] = _given(())
    accelerate_extra: Mapping[str, Any] = _given({})
    deepspeed_extra: Mapping[str, Any] = _given({})
    train: Mapping[str, Any] = _given()


@dataclass(frozen=True)
class BackendRequirement:
    """A plan field with a non-neutral value. A backend must honour it, or it is reported as ignored."""

    key: str
    value: Any
    must: bool


def backend_requirements(plan: LaunchPlan) -> Iterator[BackendRequirement]:
    """Yield everything in this plan that the neutral files do not provide, so that the backend must."""
    for key, value, field in _honourable(plan, ""):
        if value != field.metadata["neutral"]:
            yield BackendRequirement(key, value, field.metadata["must"])


def honourable_keys(plan: LaunchPlan) -> list[str]:
    """Return the keys that a backend may list in `honours`: the musts and the wishes."""
    return [key for key, _, _ in _honourable(plan, "")]


def _honourable(section: Any, prefix: str) -> Iterator[tuple[str, Any, dataclasses.Field[Any]]]:
    for field in dataclasses.fields(section):
        value, key = getattr(section, field.name), f"{prefix}{field.name}"
        if "must" in field.metadata:
            yield key, value, field
        elif dataclasses.is_dataclass(value):
            yield from _honourable(value, f"{key}.")


def to_mutable_tree(tree: Any) -> Any:
    """Return a tree with dicts for read-only mappings and lists for tuples, as json.loads returns them."""
    if isinstance(tree, Mapping):
        return {key: to_mutable_tree(value) for key, value in tree.items()}
    return [to_mutable_tree(item) for item in tree] if isinstance(tree, tuple) else tree
