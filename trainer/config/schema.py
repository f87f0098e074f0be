"""Dataclasses for train.json, which defines a training run. train_json.py reads the file.

No field has a default or an explanation here: both are in conf/*.yaml (and docs/keys.md, which is made from it), so
that every value has one visible origin. Standard library only.
"""

from dataclasses import fields
from typing import Any, Literal

from ...runtime.system.frozen_dataclass import dataclass
from .checkpoint import CheckpointConfig
from .target import Target

SCHEMA = 1


@dataclass(frozen=True)
class GptConfig:
    """Decoder-only transformer over bytes or other tokens."""

    kind: Literal["gpt"]
    layers: int
    heads: int
    width: int
    context: int
    dropout: float


@dataclass(frozen=True)
class MlpConfig:
    """Fully connected classifier."""

    kind: Literal["mlp"]
    hidden: int
    layers: int


@dataclass(frozen=True)
class StdlibBytesConfig:
    """The source code of the Python standard library installed on each node, as bytes."""

    kind: Literal["stdlib_bytes"]
    max_bytes: int | None
    val_fraction: float


@dataclass(frozen=True)
class RandomTokensConfig:
    """Random tokens for measuring speed; they cost almost nothing to generate."""

    kind: Literal["random_tokens"]
    vocabulary: int
    samples: int
    val_samples: int


@dataclass(frozen=True)
class DigitsConfig:
    """1,797 images of handwritten digits, 8 x 8 pixels, shipped with the trainer."""

    kind: Literal["digits"]
    val_fraction: float


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Cross-entropy in nats. Classes are the last dimension of the model's outputs; targets of -100 are ignored."""

    kind: Literal["cross_entropy"]


@dataclass(frozen=True)
class LoaderConfig:
    """Loader settings, which do not affect training results."""

    workers: int
    prefetch: int


@dataclass(frozen=True)
class BatchConfig:
    """Samples per optimizer step: global_ = micro x accumulation x world_size. Its JSON key is `global`."""

    micro: int
    accumulation: int
    global_: int


@dataclass(frozen=True)
class OptimConfig:
    """AdamW and its learning rate."""

    kind: Literal["adamw"]
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    warmup_steps: int
    schedule: Literal["cosine", "constant"]
    min_lr_ratio: float
    clip_norm: float | None


@dataclass(frozen=True)
class ScheduleConfig:
    """Schedule and clipping that the trainer applies to any optimizer, including a `_target_`."""

    lr: float
    warmup_steps: int
    schedule: Literal["cosine", "constant"]
    min_lr_ratio: float
    clip_norm: float | None


SCHEDULE_KEYS = tuple(field.name for field in fields(ScheduleConfig))
# Keys next to data._target_ that are not passed to it: held-out data, and a function that turns samples into a batch.
DATA_KEYS = ("val", "collate")


@dataclass(frozen=True)
class LoopConfig:
    """Length and precision of training. Exactly one of steps and epochs is set."""

    steps: int | None
    epochs: int | None
    precision: Literal["fp32", "bf16", "fp16"]
    drop_last: bool
    compile: Literal["none", "model", "blocks"]
    deterministic: bool
    activation_checkpointing: int
    on_nan: Literal["stop", "skip"]
    max_skips: int
    max_fruitless: int | None


@dataclass(frozen=True)
class ValidationConfig:
    """Validation schedule; validation always runs after the last step."""

    every_steps: int
    max_samples: int | None


@dataclass(frozen=True)
class MetricsConfig:
    """Metrics. metrics/rank_NN.jsonl contains every step of a rank; the console and trackers get fewer lines."""

    every_steps: int
    flush_s: float
    max_mib: int
    trackers: tuple[str, ...]


@dataclass(frozen=True)
class ProfileConfig:
    """Settings of torch.profiler, which writes to profile/ in the run folder."""

    steps: tuple[int, int] | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class DdpConfig:
    """DistributedDataParallel: every rank holds the whole model."""

    kind: Literal["ddp"]
    bucket_cap_mb: int
    find_unused_parameters: bool
    static_graph: bool


@dataclass(frozen=True)
class FsdpConfig:
    """Fully sharded data parallel, version 2: every rank holds a shard of weights, gradients and optimizer state."""

    kind: Literal["fsdp"]
    reshard_after_forward: bool
    auto_wrap_policy: Literal["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"]
    transformer_layer_cls_to_wrap: tuple[str, ...]
    min_num_params: int
    offload_params: bool
    state_dict_type: Literal["FULL_STATE_DICT", "SHARDED_STATE_DICT"]
    cpu_ram_efficient_loading: bool


@dataclass(frozen=True)
class HsdpConfig(FsdpConfig):
    """Hybrid sharding: FSDP within groups of `shards` consecutive ranks, replicas across groups."""

    kind: Literal["hsdp"]  # type: ignore[assignment]
    shards: int


@dataclass(frozen=True)
class DeepspeedConfig:
    """DeepSpeed ZeRO: ranks shard optimizer state (stage 1), gradients (2) and weights (3). Keys as in DeepSpeed."""

    kind: Literal["deepspeed"]
    zero_stage: Literal[0, 1, 2, 3]
    offload_optimizer_device: Literal["none", "cpu", "nvme"]
    offload_param_device: Literal["none", "cpu", "nvme"]
    nvme_path: str | None
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_bucket_size: int
    zero_force_ds_cpu_optimizer: bool


@dataclass(frozen=True)
class ProcessGroupConfig:
    """Timeouts of the process group, in seconds.

    init_timeout_s also applies to each collective until the end of an attempt's first step, which compiles, and
    step_timeout_s to each later one, except while all ranks wait for rank 0 to write. A rank for which no other rank
    waits in a collective may spend six times as long in one phase (hang_watch.py).
    """

    init_timeout_s: int
    step_timeout_s: int


@dataclass(frozen=True)
class TrainConfig:
    """Content of train.json.

    schema:           version of this format, 1.
    job:              name of the job, for display.
    world_size:       number of ranks this file was compiled for.
    threads_per_rank: CPU threads of each rank, fixed because the number affects the order of floating-point sums.
    seed:             seed of the initial weights, the order of samples and dropout.
    recipe:           dotted name of a subclass of recipe.Recipe; null = Recipe itself.
    model, data, loss, optim: a built-in one, which has a `kind`, or the user's, which has a `_target_`.
    """

    schema: int
    job: str
    world_size: int
    threads_per_rank: int
    seed: int
    recipe: str | None
    model: GptConfig | MlpConfig | Target
    data: StdlibBytesConfig | DigitsConfig | RandomTokensConfig | Target
    loss: CrossEntropyConfig | Target
    loader: LoaderConfig
    batch: BatchConfig
    optim: OptimConfig | Target
    loop: LoopConfig
    validation: ValidationConfig
    checkpoint: CheckpointConfig
    metrics: MetricsConfig
    profile: ProfileConfig
    parallel: DdpConfig | FsdpConfig | HsdpConfig | DeepspeedConfig
    process_group: ProcessGroupConfig


def kind_of(section: Any) -> str:
    """Return a readable name of a section: `gpt`, or `my_pkg.Net`."""
    return section.name if isinstance(section, Target) else str(section.kind)


def optimizer_schedule(optim: OptimConfig | Target) -> OptimConfig | ScheduleConfig:
    """Return the learning rate schedule and clipping for a built-in or custom optimizer."""
    if not isinstance(optim, Target):
        return optim
    return ScheduleConfig(**{key: optim[key] for key in SCHEDULE_KEYS})
