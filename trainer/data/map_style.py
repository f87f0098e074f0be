"""The user's map-style data sets: any object with __len__ and __getitem__.

Random numbers that __getitem__ draws from `random`, `torch` and `numpy.random` depend only on (seed, epoch, index), so
they are the same in a resumed run and with any number of ranks and workers. This does not cover numbers from the data
set's own generator.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from ..config.instantiate import import_dotted_name, instantiate_target, run_user_code
from ..config.schema import DATA_KEYS, TrainConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from .order import derive_seed, seed_random_draws
from .source import DataSource

Collate = Callable[[list[Any]], Any]


class MapStyleSplit:
    """Split of a map-style data set. indices_N: the samples in this split; None = all"""

    def __init__(self, dataset: Any, indices_N: Tensor | None, collate: Collate, seed: int) -> None:
        self.dataset = dataset
        self._indices_N = indices_N
        self._collate = collate
        self._seed = seed

    def __len__(self) -> int:
        return len(self.dataset) if self._indices_N is None else len(self._indices_N)

    def batch(self, indices_B: Tensor, epoch: int = 0) -> Any:
        """Return the collated samples, using this epoch's random numbers."""
        selected_B = indices_B if self._indices_N is None else self._indices_N[indices_B]
        samples = []
        with preserve_random_state():
            for index in selected_B.tolist():
                seed_random_draws(derive_seed(self._seed, "sample", epoch, index))
                try:
                    samples.append(self.dataset[index])
                except Exception as error:
                    if hasattr(error, "add_note"):  # Python 3.11: a line below the traceback
                        error.add_note(f"in sample {index} of the data set, epoch {epoch}")
                    raise
            return self._collate(samples)


def open_source(config: TrainConfig) -> DataSource:
    """Open `data: {_target_: …, val: …, collate: …}`. Raises BrokenInput if an import or a call fails."""
    assert isinstance(config.data, Target)
    data = {key: value for key, value in config.data.items() if key not in DATA_KEYS}
    val, collate = (config.data.get(key) for key in DATA_KEYS)
    return source_from_datasets(
        config.data.name,
        instantiate_target(data, "data"),
        instantiate_target(val, "data.val") if isinstance(val, Mapping) else val,
        config.seed,
        import_dotted_name(collate, "data.collate") if collate else None,
    )


def source_from_datasets(
    name: str, train: Any, validation: Any, seed: int, collate: Collate | None = None
) -> DataSource:
    """Return both splits. validation: a data set, the fraction of `train` to hold out (evenly spread), or None"""
    total = _dataset_length(train, name)
    collate = collate or default_collate
    if isinstance(validation, float):
        num_held_out = min(max(round(total * validation), 1), total)
        held_out_N = torch.zeros(total, dtype=torch.bool)
        held_out_N[torch.arange(num_held_out) * total // num_held_out] = True
        splits = [MapStyleSplit(train, mask.nonzero().flatten(), collate, seed) for mask in (~held_out_N, held_out_N)]
    else:
        held_out = () if validation is None else validation
        _dataset_length(held_out, f"{name}, val")
        splits = [MapStyleSplit(part, None, collate, seed) for part in (train, held_out)]
    sizes = f"{len(splits[0]):,} + {len(splits[1]):,} held-out samples"
    return DataSource(
        name=name,
        train=splits[0],
        validation=splits[1],
        num_inputs=0,
        num_classes=0,
        tokens_per_sample=1,
        score="loss",
        summary=sizes,
        digest=hashlib.sha256(f"{name} {sizes}".encode()).hexdigest(),  # nothing else is known without reading the data
    )


def _dataset_length(dataset: Any, name: str) -> int:
    because = "the trainer reads samples by index, so that every rank and every resume gets the same ones"
    hint = "a map-style data set, with __len__ and __getitem__; or your own script after ` -- `"
    if isinstance(dataset, IterableDataset) or type(dataset).__name__ == "IterableDataset":  # torch's or datasets'
        raise BrokenInput(f"data: {name} is a streaming (iterable) data set", [because], hint)
    missing = [method for method in ("__len__", "__getitem__") if not hasattr(dataset, method)]
    if missing:
        raise BrokenInput(f"data: {name} has no {' and no '.join(missing)}", [because], hint)
    return int(run_user_code(lambda: len(dataset), f"data: len({name}) failed"))


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the random state on exit, so that dropout does not depend on which process reads the data."""
    numpy = sys.modules.get("numpy")
    python_state, torch_state = random.getstate(), torch.default_generator.get_state()
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python_state)
        torch.default_generator.set_state(torch_state)
        if numpy:
            numpy.random.set_state(numpy_state)
