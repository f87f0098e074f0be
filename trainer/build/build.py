"""Build everything that a step needs: data, model, optimizer, and the first step's number.

Input:  train.json (config), the environment contract and the group of all ranks.
Output: a Training for loop/loop.py.

checks.py checks the parts that users provide, data_checks.py checks the data, and warm_up.py runs the first pass.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...runtime.system.frozen_dataclass import dataclass
from ..checkpoint import save_and_resume as checkpoint
from ..checkpoint.random_state import seed_model, seed_rank
from ..config.instantiate import run_user_code
from ..config.schema import DdpConfig, DeepspeedConfig, TrainConfig
from ..data.exactly_once import ExactlyOnceCheck
from ..data.loader import TrainingLoader, iter_micro_batch_slots
from ..data.order import SampleOrder
from ..data.source import DataSource
from ..dist.env import RankEnvironment
from ..dist.phases import Phases
from ..dist.process_group import RankGroup
from ..parallel.interface import Parallel
from ..recipe.loss import move_loss_to_device
from ..recipe.recipe import Recipe, cross_entropy
from ..recipe.recipe import build_recipe as make_recipe
from .checks import check_model, check_score_name, check_source, validated_flops
from .data_checks import (
    SOURCE,
    check_enough_samples,
    check_same_data,
    check_same_data_as_before,
    compute_sample_digest,
    different_samples_warning,
)
from .garbage_collection import pause_garbage_collection
from .warm_up import warm_up


@dataclass(frozen=True)
class Training:
    """One training run, ready to start.

    total_steps: optimizer steps of the whole run, over all attempts.
    save_steps:  optimizer steps between saves.
    loader:      this rank's batches, starting at the first step of this attempt.
    proof:       record of the samples that the ranks have read.
    flops_per_sample: FLOPs per sample according to the recipe, or None if unknown.
    items_per_sample: expected number of items per sample: that of rank 0's first batch, on all ranks, in each attempt.
    parts:       additional JSON values in each checkpoint, each under the name of its owner.
    """

    config: TrainConfig
    env: RankEnvironment
    run_dir: Path
    group: RankGroup
    recipe: Recipe
    source: DataSource
    order: SampleOrder
    total_steps: int
    save_steps: int
    parallel: Parallel
    num_parameters: int
    start: checkpoint.StartingPoint
    loader: TrainingLoader
    proof: ExactlyOnceCheck
    flops_per_sample: float | None
    items_per_sample: float
    parts: dict[str, Any]

    @property
    def phases(self) -> Phases:
        return self.group.phases


def build(config: TrainConfig, env: RankEnvironment, group: RankGroup) -> Training:
    """Read the data, build the model, and resume from a checkpoint if there is one.

    A rank enters a phase before each collective, so that the watchdog can identify the rank that delays the others.
    """
    assert env.run_dir is not None
    phases = group.phases

    # data
    phases.begin_outside_steps("data")
    set_determinism(config, group.device)
    recipe = make_recipe(config)
    move_loss_to_device(recipe, group.device)
    source = build_data(recipe)
    phases.enter("exchange")
    check_same_data(source.digest, group)
    order = SampleOrder(config.seed, len(source.train), config.batch.global_, config.loop.drop_last)
    check_enough_samples(order, group, len(source.validation))

    # model and optimizer
    phases.begin_outside_steps("model")
    seed_model(config.seed)
    model = build_model(recipe, source)
    if (line := cast_to_float32(model)) and group.is_first:
        print(line, flush=True)
    phases.enter("exchange")
    num_parameters = sum(parameter.numel() for parameter in model.parameters())  # before they are sharded
    parallel = parallelize(model, recipe, config, env, group)
    flops = validated_flops(recipe, num_parameters)
    num_items = warm_up(parallel, recipe, config, source, group)
    samples_digest = compute_sample_digest(recipe, config, source, group)

    # checkpoint
    phases.begin_outside_steps("restore")
    start = load_checkpoint_or_fork(config, env, env.run_dir, parallel, group)
    check_same_data_as_before(source, start)
    phases.enter("exchange")
    items_of_first = group.start_sum([num_items if group.is_first else 0.0])()[0]
    warning = different_samples_warning(group, samples_digest, start.parts.get(SOURCE, {}).get("samples"))
    if warning and group.is_first:
        print(warning, flush=True)

    save_steps = config.checkpoint.steps_between_saves(order.steps_per_epoch)
    assert save_steps is not None, "config/rules.py"
    identity = {"digest": source.digest, "summary": source.summary, "samples": samples_digest}
    slots = iter_micro_batch_slots(order, group.rank, group.world_size, config.batch.micro, start.step)
    loader = TrainingLoader(
        source.train, slots, config.batch.accumulation, config.loader, group.device, phases.record_progress
    )
    return Training(
        config=config,
        env=env,
        run_dir=env.run_dir,
        group=group,
        recipe=recipe,
        source=source,
        order=order,
        total_steps=config.loop.steps or (config.loop.epochs or 0) * order.steps_per_epoch,
        save_steps=save_steps,
        parallel=parallel,
        num_parameters=num_parameters,
        start=start,
        loader=loader,
        proof=ExactlyOnceCheck(order, group, start.step, start.parts.get("data")),
        flops_per_sample=flops,
        items_per_sample=items_of_first / config.batch.micro if items_of_first > 0 else 1.0,
        parts={**start.parts, SOURCE: identity},
    )


def set_determinism(config: TrainConfig, device: torch.device) -> None:
    """Fix the number of threads, and use deterministic kernels if they cost nothing (CPU) or the job requests them."""
    torch.set_num_threads(config.threads_per_rank)
    if device.type == "cpu" or config.loop.deterministic:
        with pause_garbage_collection():
            torch.use_deterministic_algorithms(True)  # torch 2.13 imports its compiler here, half of its modules
        # a debugging aid that costs time
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type != "cpu":  # TF32 with half precision; not on a CPU, where it would be slow bfloat16 emulation
        is_half = config.loop.precision != "fp32"
        torch.set_float32_matmul_precision("high" if is_half else torch.get_float32_matmul_precision())
        torch.backends.cudnn.allow_tf32 = is_half  # on by default in torch 2.13


def build_data(recipe: Recipe) -> DataSource:
    """Return the recipe's data, including the name of its score. With a custom loss, the score is the loss."""
    source = check_source(run_user_code(recipe.build_data, "recipe: build_data() failed"))
    score = recipe.score
    check_score_name(score)
    if score is None and type(recipe).measure is Recipe.measure:
        is_usual = recipe.items_of is cross_entropy and type(recipe).loss is Recipe.loss
        score = "loss" if not is_usual else "accuracy" if source.score == "loss" else None
    return source if score is None else dataclasses.replace(source, score=score)


def build_model(recipe: Recipe, source: DataSource) -> nn.Module:
    """Return the recipe's model after checking it.

    A model in eval mode, which from_pretrained() in transformers 5.23 returns, is put into train mode. In any other
    model, each module keeps its mode because a BatchNorm may be frozen with eval().
    """
    model = check_model(run_user_code(lambda: recipe.build_model(source), "recipe: build_model() failed"), recipe)
    return model if model.training else model.train()


def cast_to_float32(model: nn.Module) -> str:
    """Cast 16-bit tensors to float32, because 16 bits lose small updates. Return a line for the log, or ""."""
    halves = (torch.bfloat16, torch.float16)
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.dtype in halves]
    if not tensors:
        return ""
    dtypes = " and ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))
    precision = "bf16" if "bfloat16" in dtypes else "fp16"
    for tensor in tensors:
        tensor.data = tensor.data.float()  # keep the Parameter object, so that tied weights remain tied
    num_parameters = sum(tensor.numel() for tensor in tensors if isinstance(tensor, nn.Parameter))
    what = f"{num_parameters:,} parameters" if num_parameters else "buffers"
    hint = f"loop.precision={precision} computes in {precision}"
    return f"model: {what} were {dtypes} and are converted to float32; {hint}"


def parallelize(
    model: nn.Module, recipe: Recipe, config: TrainConfig, env: RankEnvironment, group: RankGroup
) -> Parallel:
    """Wrap `model` (on the CPU) and its optimizer for config.parallel. Imports only the selected kind."""
    if isinstance(config.parallel, DdpConfig):
        from ..parallel.ddp import Ddp

        return Ddp(model, recipe, config, config.parallel, group)
    if isinstance(config.parallel, DeepspeedConfig):
        from ..parallel.zero import Zero

        return Zero(model, recipe, config, config.parallel, env, group)
    from ..parallel.fsdp import Fsdp

    return Fsdp(model, recipe, config, config.parallel, group)


def load_checkpoint_or_fork(
    config: TrainConfig, env: RankEnvironment, run_dir: Path, parallel: Parallel, group: RankGroup
) -> checkpoint.StartingPoint:
    """Load the run's newest checkpoint or, for a fork, the other run's weights. Return where training starts."""
    seed_rank(config.seed, group.rank, step=0)
    start = checkpoint.resume_from_newest(run_dir / "checkpoints", parallel, config, group)
    if start is None and env.init_from is not None:
        start = checkpoint.load_weights_of_other_run(env.init_from / "checkpoints", parallel, group)
    return start or checkpoint.StartingPoint(0, "new")
