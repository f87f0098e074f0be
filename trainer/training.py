"""Everything that a step needs, built once: data, model, optimizer and where to begin."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from . import checkpoint, recipe
from .buffers import Buffers
from .config import TrainConfig, kind_of
from .data import alike
from .data.copier import Copier
from .data.loader import Fed, Loader, all_of, read_apart, training_slots
from .data.mapped import Mapped
from .data.order import Order
from .data.proof import Proof
from .data.source import Source
from .distributed import Group
from .env import Env
from .errors import BrokenInput
from .evaluating import evaluating
from .garbage import uncollected
from .instantiate import failed, guarded, may_pass
from .loadable import refuse_what_cannot_be_read
from .own_loss import buffers_of_loss, place_loss, refuse_other_buffers
from .parallel.way import Parallel, share
from .phases import Phases
from .random_state import seed_model, seed_rank
from .recipe import Recipe
from .target import Target


@dataclass(frozen=True)
class Training:
    """One training, ready to run.

    parallel     the model and its optimizer, as the ranks share them
    total_steps  optimizer steps from the very beginning
    loader       the batches of this rank, from the first step of this attempt on
    proof        what the ranks have been fed
    flops_per_sample  as the recipe says; None where it is not known
    items_per_sample  of rank 0's first batch: the same on all ranks and in each attempt, so that steps can expect it
    parts        what else each checkpoint keeps, as JSON under its owner's name; a resumed run has it again
    """

    config: TrainConfig
    env: Env
    run_dir: Path
    group: Group
    recipe: Recipe
    source: Source
    order: Order
    total_steps: int
    parallel: Parallel
    start: checkpoint.Start
    loader: Loader
    proof: Proof
    flops_per_sample: float | None
    items_per_sample: float
    parts: dict[str, Any]

    @property
    def phases(self) -> Phases:
        """What this rank is doing at the moment."""
        return self.group.phases

    @property
    def checkpoints(self) -> Path:
        """Where this run keeps its checkpoints."""
        return self.run_dir / "checkpoints"


def build(config: TrainConfig, env: Env, group: Group) -> Training:
    """Read the data, build the model, continue from a checkpoint when the run folder has one.

    A rank takes a turn of its phases before each message to the others: who has not got there holds them up.
    """
    assert env.run_dir is not None
    phases = group.phases
    phases.begin_part("data")
    use_one_way_of_computing(config, group.device)
    made = recipe.make(config)
    place_loss(made, group.device)
    source = open_data(made)
    phases.enter("exchange")
    refuse_different_data(source.digest, group)
    order = Order(config.seed, len(source.train), config.batch.global_, config.loop.drop_last)
    refuse_too_few(order, group, len(source.validation))
    phases.begin_part("model")
    seed_model(config.seed)
    model = new_model(made, source)
    if (line := train_as_float32(model)) and group.is_first:
        print(line, flush=True)
    phases.enter("exchange")
    parallel = share(model, made, config, env, group)
    flops = known_flops(made, parallel.num_parameters)
    num_items = warm_up(parallel, made, config, source, group)
    samples = known_samples(made, config, source, group)
    phases.begin_part("restore")
    start = find_start(config, env, env.run_dir, parallel, group)
    refuse_changed_data(source, start)
    phases.enter("exchange")
    of_first = group.start_sum([num_items if group.is_first else 0.0])()[0]
    told = alike.warning(group, samples, start.parts.get(SOURCE, {}).get("samples"))
    if told and group.is_first:
        print(told, flush=True)
    slots = training_slots(order, group.rank, group.world_size, config.batch.micro, start.step)
    return Training(
        config=config,
        env=env,
        run_dir=env.run_dir,
        group=group,
        recipe=made,
        source=source,
        order=order,
        total_steps=config.loop.steps or (config.loop.epochs or 0) * order.steps_per_epoch,
        parallel=parallel,
        start=start,
        loader=Loader(source.train, slots, config.batch.accumulation, config.loader, group.device, phases.moves),
        proof=Proof(order, group, start.step, start.parts.get("data")),
        flops_per_sample=flops,
        items_per_sample=of_first / config.batch.micro if of_first > 0 else 1.0,
        parts={**start.parts, SOURCE: {**known(source), "samples": samples}},
    )


def open_data(made: Recipe) -> Source:
    """The recipe's data, with the score that its loss can tell: of a loss of one's own that is the loss itself."""
    source = guarded(made.build_data, "recipe: build_data()")
    if not isinstance(source, Source):
        hint = "return self.source(train, val), which makes one of data sets"
        raise BrokenInput(f"recipe: build_data() gave no Source, but {type(source).__name__}", hint=hint)
    is_usual = made.items_of is recipe.cross_entropy and type(made).loss is Recipe.loss
    score = made.score
    if score is not None and not isinstance(score, str):
        raise BrokenInput(f"recipe: score is {score!r:.60}, and names in a word what measure() gives")
    if score is None and type(made).measure is Recipe.measure:
        score = "loss" if not is_usual else "accuracy" if source.score == "loss" else None
    return source if score is None else dataclasses.replace(source, score=score)


def new_model(made: Recipe, source: Source) -> nn.Module:
    """The recipe's model, which can be trained.

    One in eval mode, as from_pretrained() of transformers 5.23 gives it, is put into train mode. Else modules keep the
    modes that they were made with: a BatchNorm may be frozen by eval().
    """
    model = guarded(lambda: made.build_model(source), "recipe: build_model()")
    if not isinstance(model, nn.Module):
        raise BrokenInput(f"recipe: build_model() gave no torch.nn.Module, but {type(model).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BrokenInput(f"model: {kind_of(made.config.model)} has no parameters that are trained")
    refuse_unfillable(model)
    refuse_what_cannot_be_read("the model's state_dict", model.state_dict())  # as each save does, before the first step
    return model if model.training else model.train()


def train_as_float32(model: nn.Module) -> str:
    """Parameters and buffers of 16 bits, as from_pretrained() may give them, become float32: small updates would be
    lost in them, and the moments of an optimizer are of their type. The line that says so, or ""."""
    tensors = [
        each for each in (*model.parameters(), *model.buffers()) if each.dtype in (torch.bfloat16, torch.float16)
    ]
    if not tensors:
        return ""
    came_as = " and ".join(sorted({str(each.dtype).removeprefix("torch.") for each in tensors}))
    computes_in = "bf16" if "bfloat16" in came_as else "fp16"
    for each in tensors:
        each.data = each.data.float()  # the same object: tied ones stay tied
    num_parameters = sum(each.numel() for each in tensors if isinstance(each, nn.Parameter))
    what = f"{num_parameters:,} parameters" if num_parameters else "buffers"
    hint = f"loop.precision={computes_in} computes in {computes_in}"
    return f"model: {what} came as {came_as} and are trained as float32; {hint}"


def refuse_unfillable(model: nn.Module) -> None:
    """Tensors into which nothing can be copied, as the first message of rank 0 and each resume would."""
    lazy = [name for name, parameter in model.named_parameters() if isinstance(parameter, UninitializedParameter)]
    if lazy:
        hint = "give their sizes, or pass one batch through the model where it is made"
        raise BrokenInput(f"model: parameters have no shape yet: {', '.join(lazy[:8])}", hint=hint)
    empty = [name for name, value in (*model.named_parameters(), *model.named_buffers()) if value.is_meta]
    if empty:
        hint = "make it on the CPU, and not on the device `meta`; or to_empty(device='cpu') and first values there"
        raise BrokenInput(f"model: tensors have a shape and no values: {', '.join(empty[:8])}", hint=hint)
    shared = [name for name, value in (*model.named_parameters(), *model.named_buffers()) if is_expanded(value)]
    if shared:
        hint = "expand() makes such a tensor; .clone() gives each element a place of its own"
        raise BrokenInput(f"model: elements share a place in memory: {', '.join(shared[:8])}", hint=hint)


def is_expanded(tensor: Tensor) -> bool:
    """Along one of its dimensions all elements are the same one."""
    if tensor.layout != torch.strided:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def refuse_too_few(order: Order, group: Group, num_held_out: int = 0) -> None:
    """A rank without a sample would wait for the others in every step, for nothing."""
    if order.num_samples < group.world_size:
        hint = "more data, or fewer nodes and procs" if order.num_samples else "is the path of the data right?"
        if num_held_out and order.num_samples:
            hint += f"; {num_held_out:,} more are held out"
        elif num_held_out:
            hint = f"data.val holds out all {num_held_out:,}: more data, or a smaller share"
        samples = f"{order.num_samples:,} sample{'s' * (order.num_samples != 1)}"
        raise BrokenInput(f"data: {samples} for {group.world_size:,} ranks", hint=hint)
    if order.steps_per_epoch == 0:
        raise BrokenInput(
            f"data: {order.num_samples:,} samples do not fill one batch of {order.batch:,}, and"
            " loop.drop_last leaves incomplete batches out"
        )


def use_one_way_of_computing(config: TrainConfig, device: torch.device) -> None:
    """Equal inputs give equal bits: fixed threads; deterministic kernels where they cost nothing or are asked for."""
    torch.set_num_threads(config.threads_per_rank)
    if device.type == "cpu" or config.loop.deterministic:
        with uncollected():
            torch.use_deterministic_algorithms(True)  # torch 2.13 imports its compiler here, half of its modules
        # a debugging aid that costs time
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type != "cpu":  # TF32 beside half precision; on a CPU it would be slow bfloat16 emulation
        is_half = config.loop.precision != "fp32"
        torch.set_float32_matmul_precision("high" if is_half else torch.get_float32_matmul_precision())
        torch.backends.cudnn.allow_tf32 = is_half  # of torch 2.13 it is on unasked


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


SOURCE = "source"  # the part of a checkpoint that says of which data it is


def known(source: Source) -> dict[str, str]:
    return {"digest": source.digest, "summary": source.summary}


def refuse_changed_data(source: Source, start: checkpoint.Start) -> None:
    """The step is a place in the order of the samples, which is another one when their number has changed."""
    saved = start.parts.get(SOURCE)  # older checkpoints do not say
    if saved is not None and saved["digest"] != source.digest:
        raise BrokenInput(
            "data: they are not those that this run began with",
            [
                f"{saved['summary']}, digest {saved['digest'][:12]}, in {start.words}",
                f"{source.summary}, digest {source.digest[:12]}, now",
            ],
            hint="put them back, or start a new run; --fork takes these weights",
        )


def known_samples(made: Recipe, config: TrainConfig, source: Source, group: Group) -> str:
    """What can be known of the user's data without reading all of it; of ours the digest tells all."""
    if not isinstance(source.train, Mapped):
        return ""
    group.phases.begin_part("data")
    read = partial(read_apart, source.train, config=config.loader, device=group.device)
    digest_of = partial(alike.digest_of_samples, len(source.train), read)
    return str(of_the_user(digest_of, made, "data: its first, middle and last sample cannot be read"))


def find_start(config: TrainConfig, env: Env, run_dir: Path, parallel: Parallel, group: Group) -> checkpoint.Start:
    """The run's own newest checkpoint, else the weights of the run it is forked from, else nothing."""
    seed_rank(config.seed, group.rank, step=0)
    start = checkpoint.restore(run_dir / "checkpoints", parallel, config, group)
    if start is None and env.init_from is not None:
        start = checkpoint.fork(env.init_from / "checkpoints", parallel, group)
    return start or checkpoint.Start(0, "new")


def warm_up(parallel: Parallel, made: Recipe, config: TrainConfig, source: Source, group: Group) -> float:
    """One forward and backward pass without effect, under the long timeout. How many items the first batch has.

    With code of the user's, held-out data are measured once as well.

    It compiles, opens connections, and lets DDP settle its buckets: where a gradient lies in them is the
    order in which three or more ranks add it, and that must not differ between a resumed and an uninterrupted
    run. And it is where data that cannot be read, and a model that does not fit them, are found. Raises BrokenInput for
    those.
    """
    group.phases.begin_part("data")
    indices_B = torch.arange(config.batch.micro) % len(source.train)
    read = partial(read_apart, config=config.loader, device=group.device)
    (fed,) = of_the_user(lambda: read(source.train, [all_of(indices_B)]), made, "data: there is no first batch")
    fed_held_out: list[Fed] = []
    if num_held_out := len(source.validation):  # read here, so that what makes no batch is found before the training
        number = min(config.batch.micro, num_held_out)
        held_out = all_of(torch.arange(number) * num_held_out // number)
        title = "data: there is no first held-out batch"
        fed_held_out = of_the_user(lambda: read(source.validation, [held_out]), made, title)
    expected = of_the_user(lambda: made.count(fed.batch), made, "recipe: count() of the first batch failed")
    refuse_no_count(expected, "count()", most_dims=1)
    buffers = Buffers(parallel.module)
    buffers.keep()
    of_loss = buffers_of_loss(made)
    group.phases.enter("forward")
    loss, num_items = first_pass(parallel, made, Copier(group.device).finish(fed.batch))
    refuse_other_buffers(made, of_loss)
    refuse_no_count(num_items, "loss()")
    if expected is None and num_items is None:
        raise BrokenInput("recipe: neither count() nor loss() says how many items a batch has")
    if expected is not None and num_items is not None and not math.isclose(expected, float(num_items), rel_tol=1e-6):
        says = f"count() says {expected:g} items, and loss() {float(num_items):g} for the same batch"
        raise BrokenInput(f"recipe: {says}")
    group.phases.enter("backward")
    parallel.warm_up(loss, counted=expected is not None)
    del loss  # of which not every way makes a backward pass
    for held_out_batch in fed_held_out if is_of_the_user(made) else ():
        first_measure(parallel, made, Copier(group.device).finish(held_out_batch.batch))
    buffers.put_back()
    return float(num_items if expected is None else expected)


def known_flops(made: Recipe, num_parameters: int) -> float | None:
    """Of training on one sample, as the recipe says."""
    found = guarded(lambda: made.flops_per_sample(num_parameters), "recipe: flops_per_sample()")
    if found is None:
        return None
    with contextlib.suppress(OverflowError):
        if isinstance(found, Real) and 0 < float(found) < math.inf:
            return float(found)
    hint = "return None where it is not known"
    raise BrokenInput(f"recipe: flops_per_sample() gave {found!r:.60}, and no number above 0", hint=hint)


def first_pass(parallel: Parallel, made: Recipe, batch: Any) -> tuple[Tensor, Any]:
    """The first loss."""
    what = kind_of(made.config.model) if type(made) is Recipe else made.config.recipe
    found = of_the_user(lambda: parallel.module(batch), made, f"model: the first batch does not go through {what}")
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Tensor) and found[0].ndim == 0):
        raise BrokenInput("recipe: loss() gives (sum, count), the sum a tensor with one number, as sum() gives it")
    if not found[0].requires_grad:
        raise BrokenInput("loss: nothing that is trained has an influence on it")
    return found


def first_measure(parallel: Parallel, made: Recipe, batch: Any) -> None:
    """What a validation does, on one batch: one that fails in a day would fail in each attempt."""
    with evaluating(parallel.evaluated):
        title = "validation: the first held-out batch cannot be measured"
        found = of_the_user(lambda: parallel.evaluated(batch, measure=True), made, title)
    if not (isinstance(found, tuple | list) and len(found) == 3 and all(map(is_number, found))):
        raise BrokenInput("recipe: measure() gives (loss, score, count), each added over the batch to one number")


def refuse_no_count(found: Any, who: str, most_dims: int = 0) -> None:
    if found is not None and not is_number(found, most_dims):
        raise BrokenInput(f"recipe: {who} says that a batch has {found!r:.60} items, which is no number")


def is_number(found: Any, most_dims: int = 0) -> bool:
    """Whether a tensor can be made of it that holds one number, with no more dimensions."""
    try:
        made = torch.as_tensor(found, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return False
    return made.numel() == 1 and made.ndim <= most_dims


def of_the_user(work: Callable[[], Any], made: Recipe, title: str) -> Any:
    """What `work` gives. What the user's code raises is one line and its place: the next attempt would raise it again;
    unless it had no memory or no connection."""
    try:
        return work()
    except Exception as error:
        if may_pass(error) or not is_of_the_user(made):
            raise
        raise failed(title, error) from error


def is_of_the_user(made: Recipe) -> bool:
    """Whether some of what the first pass runs is not the trainer's."""
    return type(made) is not Recipe or any(
        isinstance(section, Target) for section in (made.config.model, made.config.data, made.config.loss)
    )
