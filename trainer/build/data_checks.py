"""Check the data: enough samples for all ranks, identical on all ranks, and identical to the checkpoint's data."""

import hashlib

import torch

from ..checkpoint.save_and_resume import StartingPoint
from ..config.schema import TrainConfig
from ..data.duplicate_batches import batch_digest
from ..data.loader import fully_counted_slots, read_extra_batches
from ..data.map_style import MapStyleSplit
from ..data.order import SampleOrder
from ..data.source import DataSource
from ..dist.process_group import RankGroup, format_ranks
from ..lifecycle.errors import BrokenInput
from ..recipe.recipe import Recipe
from .checks import call_user_code

SOURCE = "source"  # the part of a checkpoint that identifies its data


def check_enough_samples(order: SampleOrder, group: RankGroup, num_held_out: int = 0) -> None:
    """Raise BrokenInput if there are fewer samples than ranks or, with drop_last, fewer than one batch."""
    if order.num_samples < group.world_size:
        hint = "use more data, or fewer nodes and procs" if order.num_samples else "check the path of the data"
        if num_held_out and order.num_samples:
            hint += f"; {num_held_out:,} more are held out"
        elif num_held_out:
            hint = f"data.val holds out all {num_held_out:,} samples: use more data or a smaller share"
        samples = f"{order.num_samples:,} sample{'s' * (order.num_samples != 1)}"
        raise BrokenInput(f"data: {samples} for {group.world_size:,} ranks", hint=hint)
    if order.steps_per_epoch == 0:
        problem = f"{order.num_samples:,} samples do not fill one batch of {order.batch:,}"
        raise BrokenInput(f"data: {problem}, and loop.drop_last skips incomplete batches")


def check_same_data(digest: str, group: RankGroup) -> None:
    """Raise BrokenInput if the ranks have different data; otherwise, they would silently train on mixed shards."""
    digests = [content.hex() for content in group.all_gather_bytes(bytes.fromhex(digest))]
    ranks = {digest: [rank for rank, other in enumerate(digests) if other == digest] for digest in digests}
    if len(ranks) > 1:
        raise BrokenInput(
            f"data: the ranks have {len(ranks)} different data sets",
            [f"{digest[:12]} on {format_ranks(numbers)}" for digest, numbers in ranks.items()],
            hint="the standard library differs between Python patch versions: use the same Python on every node",
        )


def check_same_data_as_before(source: DataSource, start: StartingPoint) -> None:
    """Raise BrokenInput if the data differs from the checkpoint's, whose step is a position in the sample order."""
    saved = start.parts.get(SOURCE)
    if saved is not None and saved.get("digest") != source.digest:
        raise BrokenInput(
            "data: the data set differs from the one that this run started with",
            [
                f"{saved.get('summary')}, digest {str(saved.get('digest'))[:12]}, in {start.words}",
                f"{source.summary}, digest {source.digest[:12]}, now",
            ],
            hint="restore the data, or start a new run; --fork starts it from these weights",
        )


def compute_sample_digest(recipe: Recipe, config: TrainConfig, source: DataSource, group: RankGroup) -> str:
    """Return hex digests of the first, a middle and the last sample of a user's data set, which is read twice.

    If both reads return the same bytes, a sample depends only on its index, and every other rank and attempt should
    read the same bytes. Returns "" if they differ, and for built-in data, whose own digest covers all of it.
    """
    train = source.train
    if not isinstance(train, MapStyleSplit):
        return ""
    group.phases.begin_outside_steps("data")
    indices = sorted({0, len(train) // 2, len(train) - 1})
    slots = [fully_counted_slots(torch.tensor([index])) for index in indices]  # not as one batch: shapes may differ

    def read_twice() -> list[str]:
        batches = read_extra_batches(train, [*slots, *slots], config.loader, group.device)
        return [batch_digest(fed.batch).hex() for fed in batches]

    digests = call_user_code(read_twice, recipe, "data: cannot read the first, middle or last sample")
    once, again = digests[: len(indices)], digests[len(indices) :]
    return "".join(once) if once == again else ""


def different_samples_warning(group: RankGroup, mine: str, before: str | None) -> str:
    """Return a warning if the samples' digests differ between ranks or from `before`, or "". All ranks call it.

    They differ, for example, if a folder is listed in a different order. It is only a warning because another CPU or
    library may round differently.
    """
    unknown = bytes(8)
    digests = group.all_gather_bytes(hashlib.blake2b(mine.encode(), digest_size=8).digest() if mine else unknown)
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    hint = "sort file lists from os.listdir() or glob() with sorted(), so that the order is the same everywhere"
    if others and unknown not in digests:
        names = format_ranks(others)
        return f"warning: data: {names} and rank 0 read different bytes for the same sample numbers; {hint}"
    if before and mine and before != mine:
        return f"warning: data: sample numbers refer to different bytes than when this run was saved; {hint}"
    return ""
