"""Dataclasses for train.json, which defines a training run. train_json.py reads the file.

No field has a default: defaults live in conf/*.yaml, so every value has one visible origin.
Standard library only.
"""

from dataclasses import fields
from typing import Any, Literal

from ...runtime.system.frozen_dataclass import dataclass
from .checkpoint import CheckpointConfig
from .target import Target

SCHEMA = 1


@dataclass(frozen=True)
class GptConfig:
    """Decoder-only transformer over bytes or other tokens.

    layers:  transformer blocks.
    heads:   attention heads; must divide width.
    width:   channels of the residual stream.
    context: context length in tokens; also the length of one sample.
    dropout: probability, 0 <= p < 1.
    """

    kind: Literal["gpt"]
    layers: int
    heads: int
    width: int
    context: int
    dropout: float


@dataclass(frozen=True)
class MlpConfig:
    """Fully connected classifier.

    hidden: units per hidden layer.
    layers: number of hidden layers.
    """

    kind: Literal["mlp"]
    hidden: int
    layers: int


@dataclass(frozen=True)
class StdlibBytesConfig:
    """The source code of the Python standard library installed on each node, as bytes.

    max_bytes:    maximum number of training and held-out bytes together; null = all (about 12 MB).
    val_fraction: share of the files to hold out, 0 < f < 1.
    """

    kind: Literal["stdlib_bytes"]
    max_bytes: int | None
    val_fraction: float


@dataclass(frozen=True)
class RandomTokensConfig:
    """Random tokens for measuring speed; they cost almost nothing to generate.

    vocabulary:  tokens are 0 to vocabulary - 1.
    samples:     training samples; each has model.context tokens.
    val_samples: held-out samples.
    """

    kind: Literal["random_tokens"]
    vocabulary: int
    samples: int
    val_samples: int


@dataclass(frozen=True)
class DigitsConfig:
    """1,797 images of handwritten digits, 8 x 8 pixels, shipped with the trainer.

    val_fraction: share of the images to hold out, 0 < f < 1.
    """

    kind: Literal["digits"]
    val_fraction: float


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Cross-entropy in nats. Classes are the last dimension of the model's outputs; targets of -100 are ignored."""

    kind: Literal["cross_entropy"]


@dataclass(frozen=True)
class LoaderConfig:
    """Loader settings, which do not affect training results.

    workers:  loader processes per rank; 0 = the rank reads samples itself.
    prefetch: micro-batches that each worker reads in advance.
    """

    workers: int
    prefetch: int


@dataclass(frozen=True)
class BatchConfig:
    """Samples per optimizer step. JSON key of the last field: `global`.

    micro:        samples per forward pass on each rank.
    accumulation: forward passes per optimizer step on each rank.
    global_:      samples per optimizer step = micro x accumulation x world_size.
    """

    micro: int
    accumulation: int
    global_: int


@dataclass(frozen=True)
class OptimConfig:
    """AdamW and its learning rate.

    lr:           peak learning rate.
    betas, eps:   as in AdamW.
    weight_decay: for parameters with two or more dimensions; others are not decayed.
    warmup_steps: steps during which the learning rate rises linearly to lr.
    schedule:     learning rate after the warm-up: constant, or a cosine decay to lr x min_lr_ratio at the last step.
    min_lr_ratio: 0 to 1.
    clip_norm:    maximum global gradient norm; null = no clipping.
    """

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
    """Schedule and clipping that the trainer applies to any optimizer, including a `_target_`.

    lr, warmup_steps, schedule, min_lr_ratio, clip_norm
    """

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
    """Length and precision of training. Exactly one of steps and epochs is set.

    steps:     optimizer steps in total.
    epochs:    passes over the training data in total.
    precision: precision of matrix products; weights are fp32. fp16 scales the loss and skips steps that overflow.
    drop_last: skip an epoch's incomplete last batch; false = pad it with samples of weight 0.
    compile:   what torch.compile compiles: the model with its loss, each of its blocks, or nothing.
    deterministic: use slower kernels that produce identical bits in every run, even on GPUs. Operations without a
               deterministic kernel raise errors.
    activation_checkpointing: recompute the activations of every k-th block in the backward pass; 0 = none.
    on_nan:    what to do if the loss or its gradient is NaN or Inf on any rank: stop, or skip that step's update.
    max_skips: number of consecutive skipped steps after which training stops.
    max_fruitless: after this many consecutive starts without a new step, the next start exits with 65; null = no limit.
    """

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
    """Validation schedule; validation always runs after the last step.

    every_steps: optimizer steps between validations.
    max_samples: maximum number of held-out samples to use, which are evenly spaced; null = all.
    """

    every_steps: int
    max_samples: int | None


@dataclass(frozen=True)
class MetricsConfig:
    """Metrics settings. metrics/rank_NN.jsonl contains every step of a rank; the console and trackers get fewer lines.

    every_steps: optimizer steps between lines on rank 0's console and in trackers.
    flush_s:     seconds between writes to a rank's file, at least 0.5 × ranks per node;
                 0 = write every line immediately.
    max_mib:     size in MiB at which a rank's file is rotated to rank_NN.jsonl.1, .2, ...
    trackers:    tensorboard, mlflow, wandb, or MODULE:CLASS (trackers/__init__.py).
    """

    every_steps: int
    flush_s: float
    max_mib: int
    trackers: tuple[str, ...]


@dataclass(frozen=True)
class ProfileConfig:
    """Settings of torch.profiler, which writes to profile/ in the run folder.

    steps: first and last optimizer step to profile, counted from 1; null = none.
    ranks: the ranks that write a trace.
    """

    steps: tuple[int, int] | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class DdpConfig:
    """DistributedDataParallel: every rank holds the whole model.

    bucket_cap_mb:          MiB of gradients sent in one message.
    find_unused_parameters: needed only if a forward pass skips parameters. It costs a graph traversal in each step.
    static_graph:           whether the set of used parameters never changes.
    """

    kind: Literal["ddp"]
    bucket_cap_mb: int
    find_unused_parameters: bool
    static_graph: bool


@dataclass(frozen=True)
class FsdpConfig:
    """Fully sharded data parallel, version 2: every rank holds a shard of weights, gradients and optimizer state.

    reshard_after_forward:         free gathered weights of a block after its forward pass.
    auto_wrap_policy:              which modules are FSDP units: those of some classes, those above a size, or only the
                                   whole model.
    transformer_layer_cls_to_wrap: classes of the units; empty = the blocks that the model names.
    min_num_params:                minimum number of parameters of a unit, if units are chosen by size.
    offload_params:                keep weights, gradients and optimizer state in CPU memory.
    state_dict_type:               checkpoint format for programs that use accelerate; the trainer saves full ones.
    cpu_ram_efficient_loading:     for programs that use accelerate: only rank 0 reads a pretrained model.
    """

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
    """Hybrid sharding: FSDP within groups of ranks, replicas across groups. The other keys are those of fsdp.

    shards: number of consecutive ranks that share one copy of the model; must divide world_size.
    reshard_after_forward, auto_wrap_policy, transformer_layer_cls_to_wrap, min_num_params,
    offload_params, state_dict_type, cpu_ram_efficient_loading.
    """

    kind: Literal["hsdp"]  # type: ignore[assignment]
    shards: int


@dataclass(frozen=True)
class DeepspeedConfig:
    """DeepSpeed ZeRO: ranks shard optimizer state (stage 1), gradients (2) and weights (3). Keys as in DeepSpeed 0.19.

    zero_stage:                  0 to 3; 0 = nothing is sharded.
    offload_optimizer_device:    where optimizer state is kept; none = where the weights are kept.
    offload_param_device:        where weights are kept between uses; stage 3 only.
    nvme_path:                   folder on a local disk, used if a device is nvme.
    overlap_comm:                exchange gradients during the backward pass.
    contiguous_gradients:        keep gradients in one buffer.
    reduce_bucket_size:          elements per gradient message.
    zero_force_ds_cpu_optimizer: if the optimizer is offloaded, use DeepSpeed's CPU Adam instead of torch's.
    """

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

    init_timeout_s: timeout of the rendezvous, and of each collective until the end of an attempt's first step, which
                    compiles.
    step_timeout_s: timeout of each later collective, except while all ranks wait for rank 0 to write.

    A rank for which no other rank waits in a collective may spend six times as long in one phase (hang_watch.py).
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
