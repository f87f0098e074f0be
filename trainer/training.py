"""Everything that a step needs, built once: data, model, optimizer and where to begin."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from . import checkpoint
from .config import TrainConfig
from .data.order import Order
from .data.source import Source, open_source
from .distributed import Group
from .env import Env
from .errors import BrokenInput
from .loss import loss_sum
from .models.build import build_model
from .parallel import Parallel, share
from .phases import Phases
from .random_state import seed_model, seed_rank


@dataclass(frozen=True)
class Training:
    """One training, ready to run.

    parallel     the model and its optimizer, as the ranks share them
    total_steps  optimizer steps from the very beginning
    phases       what this rank is doing at the moment
    """

    config: TrainConfig
    env: Env
    run_dir: Path
    group: Group
    source: Source
    order: Order
    total_steps: int
    parallel: Parallel
    start: checkpoint.Start
    phases: Phases = field(default_factory=Phases)

    @property
    def checkpoints(self) -> Path:
        """Where this run keeps its checkpoints."""
        return self.run_dir / "checkpoints"


def build(config: TrainConfig, env: Env, group: Group) -> Training:
    """Read the data, build the model, continue from a checkpoint when the run folder has one."""
    assert env.run_dir is not None
    use_one_way_of_computing(config, group.device)
    source = open_source(config)
    refuse_different_data(source.digest, group)
    order = Order(config.seed, len(source.train), config.batch.global_, config.loop.drop_last)
    if order.steps_per_epoch == 0:
        raise BrokenInput(
            f"data: {len(source.train):,} samples do not fill one batch of {config.batch.global_:,}, and"
            " loop.drop_last leaves incomplete batches out"
        )
    seed_model(config.seed)
    model = build_model(config.model, source).to(group.device)
    parallel = share(model, config, env, group)
    warm_up(parallel, config, source, group)
    return Training(
        config=config,
        env=env,
        run_dir=env.run_dir,
        group=group,
        source=source,
        order=order,
        total_steps=config.loop.steps or (config.loop.epochs or 0) * order.steps_per_epoch,
        parallel=parallel,
        start=find_start(config, env, env.run_dir, parallel, group),
    )


def use_one_way_of_computing(config: TrainConfig, device: torch.device) -> None:
    """Make equal inputs give equal bits: fixed threads, and deterministic kernels where they cost nothing."""
    torch.set_num_threads(config.threads_per_rank)
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        # a debugging aid that costs time
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    else:
        torch.set_float32_matmul_precision("high")  # TF32; on a CPU the same word means slow bfloat16 emulation


def refuse_different_data(digest: str, group: Group) -> None:
    """Nodes whose data differ would train on overlapping shards of two corpora without any sign of it."""
    mine = torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8)
    digests = [bytes(row.tolist()).hex() for row in group.gather(mine)]
    if len(set(digests)) == 1:
        return
    ranks = {found: [rank for rank, one in enumerate(digests) if one == found] for found in dict.fromkeys(digests)}
    raise BrokenInput(
        f"data: the ranks see {len(ranks)} different data sets",
        [f"{found[:12]} on rank {', '.join(map(str, found_by[:20]))}" for found, found_by in ranks.items()],
        hint="the standard library differs between Python patch versions: use the same Python on every node",
    )


def find_start(config: TrainConfig, env: Env, run_dir: Path, parallel: Parallel, group: Group) -> checkpoint.Start:
    """The run's own newest checkpoint, else the weights of the run it is forked from, else nothing."""
    seed_rank(config.seed, group.rank, step=0)
    start = checkpoint.restore(run_dir / "checkpoints", parallel, config, group)
    if start is None and env.init_from is not None:
        start = checkpoint.fork(env.init_from / "checkpoints", parallel, group)
    return start or checkpoint.Start(0, "new")


def warm_up(parallel: Parallel, config: TrainConfig, source: Source, group: Group) -> None:
    """One forward and backward pass without effect, under the long timeout.

    It compiles, opens connections, and lets DDP settle its buckets: where a gradient lies in them is the
    order in which three or more ranks add it, and that must not differ between a resumed and an uninterrupted
    run.
    """
    indices = torch.zeros(config.batch.micro, dtype=torch.int64)
    inputs, targets = on_device(source.train.batch(indices), group.device)
    parallel.warm_up(loss_sum(parallel.module, inputs, targets, config.loop.precision))


def on_device(tensors: tuple[Tensor, Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    """Inputs and targets on the rank's device."""
    inputs, targets = tensors
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
