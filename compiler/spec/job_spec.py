"""JobSpec: the typed source language, with everything that a user may set for a job. It contains only types.
All meanings, units and defaults are in conf/*.yaml and nowhere else. Sections that the trainer reads
(model, data, optim, …) are the trainer's own dataclasses. A backend's options are defined in its folder and set below
the key `backend`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ...runtime.system.frozen_dataclass import dataclass
from ...trainer.config import schema
from ...trainer.config.checkpoint import CheckpointConfig
from ...trainer.config.target import Target
from .value_types import (
    Bytes,
    Count,
    CountOrZero,
    Download,
    Duration,
    EnvName,
    GpuCount,
    HostList,
    Interface,
    Label,
    MountSource,
    MountTarget,
    Name,
    NodeCount,
    Path,
    Port,
    Price,
    ProcessCount,
    Quantity,
    RankLines,
    Seconds,
    SecretRef,
    ShellLine,
    StepLine,
    TimeLimit,
)

OPEN_KEYS = (  # mappings with user-defined keys: no `+` needed
    "env", "secrets", "labels", "backend.extra", "backend.srun_extra", "backend.deepspeed_extra", "backend.config",
    "backend.file_mounts", "backend.gpu_labels", "backend.requests", "backend.limits", "torchrun.extra",
    "accelerate.extra", "accelerate.deepspeed_extra", "estimate.prices",
)  # fmt: skip
TRAIN_SECTIONS = (  # sections that the bundled trainer reads
    "model", "data", "loss", "loader", "optim", "loop", "validation", "checkpoint", "metrics", "profile", "parallel",
    "process_group",
)  # fmt: skip
TARGETS = ("model", "data", "loss", "optim")  # sections that may have a `_target_`; with it, they accept any argument


@dataclass(frozen=True)
class BatchSpec:
    """Samples per step. `micro` is required. Set at most one of `accumulation` and `global`; the rest is computed."""

    micro: Count
    accumulation: Count | None
    global_: Count | None
    shared_by: Count


@dataclass(frozen=True)
class HsdpSpec:
    """FSDP within a node and replicas between nodes: HsdpConfig with an optional `shards`."""

    kind: Literal["hsdp"]
    shards: Count | None
    reshard_after_forward: bool
    auto_wrap_policy: Literal["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"]
    transformer_layer_cls_to_wrap: tuple[str, ...]
    min_num_params: int
    offload_params: bool
    state_dict_type: Literal["FULL_STATE_DICT", "SHARDED_STATE_DICT"]
    cpu_ram_efficient_loading: bool


@dataclass(frozen=True)
class CodeSpec:
    """How the user's own code reaches the nodes. kind: snapshot | shared | none | rsync | image."""

    kind: Literal["snapshot", "shared", "none", "rsync", "image"]
    root: Path
    max_size: Bytes


@dataclass(frozen=True)
class GitCodeSpec:
    """Code from a git repository, at a commit."""

    kind: Literal["git"]
    root: Path
    repository: str | None
    commit: str | None


@dataclass(frozen=True)
class PythonSpec:
    """The ranks' Python environment (group `python`)."""

    kind: Literal["none", "venv", "conda", "uv", "modules", "image"]
    path: Path | None
    modules: tuple[str, ...]
    interpreter: Path


@dataclass(frozen=True)
class ContainerSpec:
    """Container runtime for `image`."""

    kind: Literal["none", "docker", "apptainer", "pyxis", "pod"]
    workdir: Path | None
    options: tuple[str, ...]


@dataclass(frozen=True)
class MountSpec:
    """One folder that is mounted into the job.

    target: absolute path in the job.
    read_only: whether the job cannot write to it.
    kind: host (a path), claim, nfs (SERVER:/PATH), empty (a size, or ""), volume or bucket.
    """

    kind: Literal["host", "claim", "nfs", "empty", "volume", "bucket"]
    source: MountSource
    target: MountTarget
    read_only: bool


@dataclass(frozen=True)
class SettingSpec:
    """One of the ranks' network variables. reason: printed in launch.sh."""

    name: EnvName
    value: str
    reason: str


@dataclass(frozen=True)
class NetworkSpec:
    """Network between the ranks."""

    profile: Literal["auto", "ethernet", "infiniband", "roce", "efa", "tcpx", "slingshot"]
    interface: Interface | None
    debug: bool
    settings: tuple[SettingSpec, ...]


@dataclass(frozen=True)
class RendezvousSpec:
    """Rendezvous of nodes and ranks. port: 0 = a free port on a single node, or else derived from the job ID."""

    backend: Literal["static", "c10d"]
    port: Port
    timeout: Duration


@dataclass(frozen=True)
class ProcessGroupSpec:
    """Timeouts as in ProcessGroupConfig. init_timeout_s: null = rendezvous.timeout."""

    init_timeout_s: int | None
    step_timeout_s: int


@dataclass(frozen=True)
class LifecycleSpec:
    """How an attempt is shut down, requeued and restarted."""

    grace: Duration
    keep: Duration | None
    max_requeues: CountOrZero
    max_restarts: CountOrZero


@dataclass(frozen=True)
class QueueSpec:
    """Scheduler options, in the site's own names."""

    name: str | None
    account: str | None
    qos: str | None
    priority: str | None
    reservation: str | None
    nodelist: HostList | None
    exclude: HostList | None
    exclusive: bool
    after: tuple[str, ...]


@dataclass(frozen=True)
class StorageSpec:
    """Storage of runs and data. run=auto is resolved before the spec is checked."""

    run: Literal["auto", "shared", "node", "object"]
    root: Path
    data: Path | None
    endpoint: str | None
    region: str
    scratch: Path


@dataclass(frozen=True)
class CachesSpec:
    """The cache folders of libraries; null = the library's default. The node expands `$UID` and `~/`."""

    downloads: Path | None
    compiled: Path | None
    offline: bool
    prefetch: tuple[Download, ...]


@dataclass(frozen=True)
class TorchrunSpec:
    """Additional options for launcher=torchrun. extra: option without `--` -> value; true for a flag."""

    extra: Mapping[str, Any]


@dataclass(frozen=True)
class AccelerateSpec:
    """Additional entries for the files of accelerate and DeepSpeed, on any backend. extra: for accelerate.yaml."""

    extra: Mapping[str, Any]
    deepspeed_extra: Mapping[str, Any]


@dataclass(frozen=True)
class PartitionSpec:
    """Facts about one partition or queue; null = same as for the site, or unknown."""

    nodes: Count | None
    gpus: CountOrZero | None
    gpu_types: tuple[str, ...] | None
    cpus: Count | None
    mem: Bytes | None
    time: TimeLimit | None


@dataclass(frozen=True)
class SiteSpec(PartitionSpec):
    """Facts about the machines, for checks before anything starts; null = unknown and not checked."""

    partitions: Mapping[str, PartitionSpec]
    partition: str | None
    requires: tuple[str, ...]
    torch: str | None


@dataclass(frozen=True)
class EstimateSpec:
    """Inputs to `jobc plan` in addition to the job; no emitted file depends on them. null = unknown."""

    samples: Count | None
    parameters: Quantity | None
    largest_unit: Count | None
    tokens_per_sample: Count | None
    sample_size: Bytes | None
    step_s: Seconds | None
    run: Path | None
    gpu_mem: Bytes | None
    disk: Bytes | None
    write_rate: Bytes | None
    prices: Mapping[str, Price]
    mtbf: TimeLimit | None
    restart: Duration | None


@dataclass(frozen=True)
class JobSpec:
    """Spec of one job, with the most common keys first. conf/config.yaml documents each key and its unit."""

    name: Name
    nodes: NodeCount
    gpus: GpuCount
    gpu_type: str | None
    procs: ProcessCount | None
    cpus: Count | None
    mem: Bytes | None
    shm: Bytes | None
    time: TimeLimit | None
    hosts: HostList | None
    image: str | None
    setup: tuple[ShellLine, ...]
    before: tuple[StepLine, ...]
    per_node: tuple[StepLine, ...]
    then: tuple[RankLines, ...]
    after: tuple[StepLine, ...]
    env: Mapping[EnvName, str]
    secrets: Mapping[EnvName, SecretRef]
    labels: Mapping[str, str]
    command: tuple[str, ...] | None
    launcher: Literal["torchrun", "spawn", "srun", "accelerate", "mpirun", "torch_distributed_launch"]
    threads: Count | None
    seed: CountOrZero
    keep_runs: CountOrZero
    point: Label | None
    recipe: str | None
    model: schema.GptConfig | schema.MlpConfig | Target
    data: schema.StdlibBytesConfig | schema.DigitsConfig | schema.RandomTokensConfig | Target
    loss: schema.CrossEntropyConfig | Target
    loader: schema.LoaderConfig
    batch: BatchSpec
    optim: schema.OptimConfig | Target
    loop: schema.LoopConfig
    validation: schema.ValidationConfig
    checkpoint: CheckpointConfig
    metrics: schema.MetricsConfig
    profile: schema.ProfileConfig
    parallel: schema.DdpConfig | schema.FsdpConfig | HsdpSpec | schema.DeepspeedConfig
    process_group: ProcessGroupSpec
    code: CodeSpec | GitCodeSpec
    python: PythonSpec
    container: ContainerSpec
    mounts: tuple[MountSpec, ...]
    network: NetworkSpec
    rendezvous: RendezvousSpec
    lifecycle: LifecycleSpec
    queue: QueueSpec
    storage: StorageSpec
    caches: CachesSpec
    torchrun: TorchrunSpec
    accelerate: AccelerateSpec
    site: SiteSpec
    estimate: EstimateSpec


def open_keys(words: Iterable[str]) -> tuple[str, ...]:
    """Return the mappings, and the sections with a `_target_`. These accept new keys without `+` on a command line."""
    chosen = {match[1] for word in words if (match := re.match(r"(\w+)(?:=target$|\._target_=)", word))}
    return (*OPEN_KEYS, *(section for section in TARGETS if section in chosen))


def is_trainer_key(key: str) -> bool:
    """Return whether only the bundled trainer reads the key. `parallel` also configures launcher=accelerate."""
    section = key.partition(".")[0]
    return section != "parallel" and section in (*TRAIN_SECTIONS, "batch", "recipe", "task", "seed")
