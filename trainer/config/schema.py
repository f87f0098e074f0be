"""Dataclasses behind train.json, which defines a training run (read by train_json.py).

No field has a default: defaults live in conf/*.yaml, so every value has one visible origin.
Standard library only.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal

from .checkpoint import CheckpointConfig
from .target import Target

SCHEMA = 1


@dataclass(frozen=True)
class GptConfig:
    """Decoder-only transformer over bytes, or other tokens of the data.

    layers   transformer blocks
    heads    attention heads; divides width
    width    channels of the residual stream
    context  tokens seen at once; also the length of one sample
    dropout  probability, 0 <= p < 1
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

    hidden  units of each hidden layer
    layers  hidden layers
    """

    kind: Literal["mlp"]
    hidden: int
    layers: int


@dataclass(frozen=True)
class StdlibBytesConfig:
    """The sources of the Python standard library installed on each node, as bytes.

    max_bytes     cap on training plus held-out bytes; null = all (about 12 MB)
    val_fraction  share of the files that is held out, 0 < f < 1
    """

    kind: Literal["stdlib_bytes"]
    max_bytes: int | None
    val_fraction: float


@dataclass(frozen=True)
class RandomTokensConfig:
    """Tokens that cost next to nothing to make and mean nothing: for measuring speed.

    vocabulary   tokens are 0 .. vocabulary - 1
    samples      of training; each has model.context tokens
    val_samples  held-out samples
    """

    kind: Literal["random_tokens"]
    vocabulary: int
    samples: int
    val_samples: int


@dataclass(frozen=True)
class DigitsConfig:
    """1,797 images of handwritten digits, 8 x 8 pixels, shipped with the trainer.

    val_fraction  share of the images that is held out, 0 < f < 1
    """

    kind: Literal["digits"]
    val_fraction: float


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Cross-entropy in nats. The last dimension of the model's outputs is the classes; targets of -100 do not count."""

    kind: Literal["cross_entropy"]


@dataclass(frozen=True)
class LoaderConfig:
    """Loader settings; they do not affect what is trained.

    workers   processes of each rank that read samples; 0 = the rank itself
    prefetch  micro batches that each worker has ready
    """

    workers: int
    prefetch: int


@dataclass(frozen=True)
class BatchConfig:
    """Samples per optimizer step. JSON key of the last field: `global`.

    micro         samples of one forward pass of one rank
    accumulation  forward passes of one rank per optimizer step
    global_       samples per optimizer step = micro x accumulation x world_size
    """

    micro: int
    accumulation: int
    global_: int


@dataclass(frozen=True)
class OptimConfig:
    """AdamW and its learning rate.

    lr            peak learning rate
    betas, eps    as in AdamW
    weight_decay  for parameters of two or more dimensions; others are not decayed
    warmup_steps  steps of linear increase to lr
    schedule      after the warm-up: constant, or cosine down to lr x min_lr_ratio at the last step
    min_lr_ratio  0 to 1
    clip_norm     largest global gradient norm; null = no clipping
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
# Keys beside data._target_ that are no arguments: held-out data, and a function from samples to a batch.
DATA_KEYS = ("val", "collate")


@dataclass(frozen=True)
class LoopConfig:
    """Length and precision of training. Exactly one of steps and epochs is set.

    steps      optimizer steps in total
    epochs     passes over the training data in total
    precision  of matrix products, over fp32 weights; fp16 scales the loss, and leaves out steps that overflow
    drop_last  skip the incomplete last batch of an epoch; false = pad it with samples of weight 0
    compile    torch.compile: the model with its loss, each of its blocks, or none
    deterministic  the same bits at each start on a GPU too, by slower kernels; an operation that has none is an error
    activation_checkpointing  the activations of every k-th block are computed again in the backward pass; 0 = of none
    on_nan     when the loss or its gradient is not finite, on any rank: stop, or skip the update of that step
    max_skips  steps skipped in a row, before training stops after all
    max_fruitless  starts in a row that complete no new step, before the next one exits with 65; null = no limit
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

    every_steps  optimizer steps between two measurements
    max_samples  use at most so many held-out samples, evenly spaced; null = all
    """

    every_steps: int
    max_samples: int | None


@dataclass(frozen=True)
class MetricsConfig:
    """Metrics settings: metrics/rank_NN.jsonl has every step of each rank; console and trackers get fewer lines.

    every_steps  optimizer steps between two lines on rank 0's console, and in trackers
    flush_s      seconds between two writes of a rank's file, and half a second at least for each rank of its node;
                 0 = every line at once
    max_mib      MiB at which a rank's file is put aside, as rank_NN.jsonl.1, .2, ...
    trackers     tensorboard, mlflow, wandb, or MODULE:CLASS (trackers/__init__.py)
    """

    every_steps: int
    flush_s: float
    max_mib: int
    trackers: tuple[str, ...]


@dataclass(frozen=True)
class ProfileConfig:
    """torch.profiler, into profile/ of the run folder.

    steps  first and last optimizer step, from 1; null = none
    ranks  those that write a trace
    """

    steps: tuple[int, int] | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class DdpConfig:
    """DistributedDataParallel: every rank holds the whole model.

    bucket_cap_mb           MiB of gradients sent in one message
    find_unused_parameters  needed only if a forward pass skips parameters; costs a graph walk per step
    static_graph            the set of used parameters never changes
    """

    kind: Literal["ddp"]
    bucket_cap_mb: int
    find_unused_parameters: bool
    static_graph: bool


@dataclass(frozen=True)
class FsdpConfig:
    """Fully sharded data parallel, version 2: every rank holds a share of weights, gradients and optimizer state.

    reshard_after_forward          free gathered weights of a block after its forward pass
    auto_wrap_policy               which modules are sharded as one: by class, by size, or only the whole model
    transformer_layer_cls_to_wrap  their classes; empty = the blocks that the model names
    min_num_params                 of the smallest such module, by size
    offload_params                 weights, gradients and optimizer state lie in CPU memory
    state_dict_type                how programs that use accelerate save; checkpoints of the trainer are whole
    cpu_ram_efficient_loading      for programs that use accelerate: only rank 0 reads a pretrained model
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
class HsdpConfig:
    """FSDP within groups of ranks, copies between them. Every other key is as of fsdp.

    shards                         ranks that share one copy of the model, which follow each other; divides world_size
    reshard_after_forward, auto_wrap_policy, transformer_layer_cls_to_wrap, min_num_params,
    offload_params, state_dict_type, cpu_ram_efficient_loading
    """

    kind: Literal["hsdp"]
    shards: int
    reshard_after_forward: bool
    auto_wrap_policy: Literal["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"]
    transformer_layer_cls_to_wrap: tuple[str, ...]
    min_num_params: int
    offload_params: bool
    state_dict_type: Literal["FULL_STATE_DICT", "SHARDED_STATE_DICT"]
    cpu_ram_efficient_loading: bool


@dataclass(frozen=True)
class DeepspeedConfig:
    """DeepSpeed ZeRO: ranks share optimizer state (stage 1), gradients (2), weights (3). DeepSpeed 0.19's own words.

    zero_stage                   0 to 3; 0 shares nothing
    offload_optimizer_device     where optimizer state lies; none = with the weights
    offload_param_device         where weights lie between uses; stage 3
    nvme_path                    folder on a local disk, for nvme
    overlap_comm                 exchange gradients during the backward pass
    contiguous_gradients         gradients in one buffer
    reduce_bucket_size           elements exchanged in one message
    zero_force_ds_cpu_optimizer  with offload: DeepSpeed's CPU Adam instead of torch's
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
    """Timeouts for other ranks, in seconds.

    init_timeout_s  to meet, and for one message between ranks until the first step of an attempt is done: it compiles
    step_timeout_s  for one message between ranks after that; not while rank 0 writes, for which all wait

    A rank that no other waits for in a message gets six times as long for one thing that it does (watch.py).
    """

    init_timeout_s: int
    step_timeout_s: int


@dataclass(frozen=True)
class TrainConfig:
    """train.json.

    schema            version of this format, 1
    job               name of the job, for people
    world_size        ranks this file was compiled for
    threads_per_rank  CPU threads of each rank; fixed, because it changes the order of floating-point sums
    seed              of the initial weights, the order of samples and dropout
    recipe            dotted name of a subclass of recipe.Recipe; null = Recipe itself
    model, data, loss, optim  one of ours, known by `kind`, or one of the user's, known by `_target_`
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


def schedule_of(optim: OptimConfig | Target) -> OptimConfig | ScheduleConfig:
    """Learning rate and clipping, whatever the optimizer."""
    if not isinstance(optim, Target):
        return optim
    return ScheduleConfig(**{key: optim[key] for key in SCHEDULE_KEYS})
