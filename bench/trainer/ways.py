"""Run one rank of compare.py: several ways to train one model, one block of steps of each in turn.

A way is a generator function. The code before its first `yield` sets it up, and each resumption runs one step.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".dev"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from jobc.trainer.build.build import Training, build  # noqa: E402
from jobc.trainer.build.garbage_collection import collect_garbage  # noqa: E402
from jobc.trainer.config.train_json import load_train_json  # noqa: E402
from jobc.trainer.dist import env as environment  # noqa: E402
from jobc.trainer.dist.hang_watch import HangWatchdog  # noqa: E402
from jobc.trainer.dist.process_group import join_process_group  # noqa: E402
from jobc.trainer.lifecycle.requests import StopSignals  # noqa: E402
from jobc.trainer.loop.hooks import Hooks  # noqa: E402
from jobc.trainer.loop.loop import train_step  # noqa: E402
from jobc.trainer.models.build import build_model  # noqa: E402
from jobc.trainer.recipe.optimizer import build_optimizer, learning_rate_at_step  # noqa: E402

Way = Callable[[Training], Iterator[None]]
NEEDS = {"accelerate": "accelerate", "fabric": "lightning_fabric", "hf_trainer": "transformers"}


class Batches:
    """Batches of this rank, as a user's data loader would return them.

    They come from a permutation that has the same seed on all ranks.
    """

    def __init__(self, training: Training, num_ranks: int) -> None:
        self.split, self.micro, self.rank = training.source.train, training.config.batch.micro, training.group.rank
        self.num_ranks = num_ranks
        self.order_N = torch.randperm(len(self.split), generator=torch.Generator().manual_seed(0))
        self.step = 0

    def next(self) -> tuple[Tensor, Tensor]:
        start = (self.step * self.num_ranks + self.rank) * self.micro % (len(self.order_N) - self.micro)
        self.step += 1
        return self.split.batch(self.order_N[start : start + self.micro])


def model_of(training: Training) -> nn.Module:
    torch.manual_seed(0)
    return build_model(training.config.model, training.source.num_inputs, training.source.num_classes)


def by_hand(training: Training, module: nn.Module, num_ranks: int) -> Iterator[None]:
    """Train with a typical handwritten loop."""
    batches, config = Batches(training, num_ranks), training.config.optim
    optimizer = build_optimizer(module, config)
    step = 0
    while True:
        yield
        inputs, targets = batches.next()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at_step(step, training.total_steps, config)
        loss = F.cross_entropy(module(inputs).flatten(0, -2), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(module.parameters(), config.clip_norm or float("inf"))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        step += 1


def bare(training: Training) -> Iterator[None]:
    return by_hand(training, DistributedDataParallel(model_of(training), gradient_as_bucket_view=True), 2)


def one_rank(training: Training) -> Iterator[None]:
    steps = by_hand(training, model_of(training), 1)
    while True:
        if training.group.is_first:
            next(steps)
        yield


def apart(training: Training) -> Iterator[None]:
    return by_hand(training, model_of(training), 2)


def jobc(training: Training) -> Iterator[None]:
    """Run train() of trainer/loop/loop.py without validation and saves, whose time does not depend on the loop."""
    config, group, phases = training.config, training.group, training.phases
    names = [f"rank {rank}" for rank in range(group.world_size)]
    watch = HangWatchdog(phases, group.rank, names, config.process_group.step_timeout_s, group.board)
    hooks = Hooks(training, StopSignals(), watch)
    with watch:
        step = 0
        while True:
            phases.enter("start")  # the other ways have their turn
            yield
            result = train_step(training, step, hooks.before_step(step))
            step += 1
            hooks.report_metrics(step, result)
            hooks.run_checks(step, result)
            collect_garbage(step)


def accelerate(training: Training) -> Iterator[None]:
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    config, batches, model = training.config.optim, Batches(training, 2), model_of(training)
    module, optimizer = accelerator.prepare(model, build_optimizer(model, config))
    while True:
        yield
        inputs, targets = batches.next()
        loss = F.cross_entropy(module(inputs).flatten(0, -2), targets.flatten())
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(module.parameters(), config.clip_norm or float("inf"))
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


def fabric(training: Training) -> Iterator[None]:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    strategy = DDPStrategy(gradient_as_bucket_view=True, process_group_backend="gloo")
    made = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy=strategy)
    made.launch()
    config, batches, model = training.config.optim, Batches(training, 2), model_of(training)
    module, optimizer = made.setup(model, build_optimizer(model, config))
    while True:
        yield
        inputs, targets = batches.next()
        loss = F.cross_entropy(module(inputs).flatten(0, -2), targets.flatten())
        made.backward(loss)
        made.clip_gradients(module, optimizer, max_norm=config.clip_norm or float("inf"))
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


class WithLoss(nn.Module):
    """A model that returns its loss, as HF Trainer requires."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten())}


def hf_trainer(training: Training) -> Iterator[None]:
    """Run HF Trainer in a thread, because it has its own loop.

    A turn ends only when the next step would begin, because HF Trainer may log after a step, and its ranks communicate
    to do so.
    """
    from transformers import Trainer, TrainerCallback, TrainingArguments

    may_step, waits = threading.Semaphore(0), threading.Semaphore(0)

    class Turns(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            waits.release()
            may_step.acquire()

    split, micro = training.source.train, training.config.batch.micro
    model = WithLoss(model_of(training))
    arguments = TrainingArguments(
        output_dir=str(training.run_dir / "hf"), per_device_train_batch_size=micro, max_steps=training.total_steps,
        use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", logging_steps=10, log_level="error",
        max_grad_norm=training.config.optim.clip_norm or 0.0, lr_scheduler_type="cosine",
        remove_unused_columns=False, ddp_find_unused_parameters=False, dataloader_num_workers=0,
    )  # fmt: skip

    def collate(indices: list[int]) -> dict[str, Tensor]:
        inputs, targets = split.batch(torch.tensor(indices))
        return {"inputs": inputs, "targets": targets}

    class Numbers(torch.utils.data.Dataset[int]):
        def __len__(self) -> int:
            return len(split)

        def __getitem__(self, index: int) -> int:
            return index

    optimizers = (build_optimizer(model, training.config.optim), None)
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Numbers(), data_collator=collate, callbacks=[Turns()],
        optimizers=optimizers,
    )  # fmt: skip
    threading.Thread(target=trainer.train, daemon=True).start()
    while True:
        waits.acquire()
        yield
        may_step.release()


def main() -> None:
    names, num_rounds, num_steps = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    env = environment.parse_environment(os.environ)
    assert env.train_json is not None
    with join_process_group(env, 300) as group:
        training = build(load_train_json(env.train_json), env, group)
        torch.use_deterministic_algorithms(True)
        missing = [name for name in names if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None]
        ways = {name: globals()[name](training) for name in names if name not in missing}
        if missing and group.is_first:
            print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        for way in ways.values():  # setup, and two steps for one-time initialization
            for _ in range(3):
                next(way)
        for number in range(num_rounds):
            turns = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
            for name in turns:
                cpu_ms, wall_ms = block(ways[name], num_steps, name == "jobc")
                if group.is_first:
                    print(json.dumps({"way": name, "round": number, "cpu_ms": cpu_ms, "wall_ms": wall_ms}), flush=True)
    os._exit(0)  # HF Trainer still waits for its next turn


def block(way: Iterator[None], num_steps: int, collects_itself: bool) -> tuple[float, float]:
    """Return the (CPU, wall) milliseconds per step. jobc collects garbage itself between steps, as in its own loop."""
    dist.barrier()
    if collects_itself:
        gc.disable()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(num_steps):
        next(way)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    gc.enable()
    return 1000 * cpu_s / num_steps, 1000 * wall_s / num_steps


if __name__ == "__main__":
    main()
