"""Random generators: while the model is built, all ranks have the same seed; then each rank has its own. Checkpoints
contain the state of every rank's generators.

Covers `random`, torch, and `numpy.random` if NumPy is imported (torch imports it if it is installed).
"""

import random
import struct
import sys
from typing import Any

import torch
from torch import Tensor

from ..data.order import derive_seed, seed_random_draws

# random.getstate(): 624 words and the position; then, for random.gauss, which generates pairs, whether it has a number
# left, and its bits
PYTHON_WORDS = 627
NUMPY_WORDS = 628  # the same for NumPy, after a word that indicates whether NumPy was imported
MT19937 = "MT19937"  # NumPy's name for its generator


def seed_model(seed: int) -> None:
    """Give all ranks the same seed before the model is built, so that they have the same initial weights."""
    _seed_generators(derive_seed(seed, "model"))


def seed_rank(seed: int, rank: int, step: int) -> None:
    """After the model is built, seed each rank differently, for example for dropout. step: where training starts"""
    _seed_generators(derive_seed(seed, "rank", rank, step))


def _seed_generators(number: int) -> None:
    seed_random_draws(number)
    torch.cuda.manual_seed_all(number)


def capture_random_state(device: torch.device) -> Tensor:
    """Return this rank's random state as one uint8 tensor with the same length on every rank, so that it can be
    gathered: the states of `random` (int64), torch's CPU, the GPU if there is one, and NumPy (int64).
    """
    _, words, next_gauss = random.getstate()
    python = [*words, next_gauss is not None, _float_bits(next_gauss or 0.0)]
    python_bytes, numpy_bytes = (torch.tensor(state).view(torch.uint8) for state in (python, _numpy_state()))
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.empty(0, dtype=torch.uint8)
    return torch.cat([python_bytes, torch.get_rng_state(), cuda, numpy_bytes])


def restore_random_state(packed: Tensor, device: torch.device) -> None:
    """Restore the result of capture_random_state()."""
    sizes = [8 * PYTHON_WORDS, len(torch.get_rng_state()), 8 * NUMPY_WORDS]
    sizes.insert(2, len(packed) - sum(sizes))
    python, cpu, cuda, numpy_state = (part.clone() for part in packed.split_with_sizes(sizes))
    *words, has_left, bits = python.view(torch.int64).tolist()
    random.setstate((3, tuple(words), _bits_to_float(bits) if has_left else None))
    torch.set_rng_state(cpu)
    if device.type == "cuda" and len(cuda):
        torch.cuda.set_rng_state(cuda, device)
    is_kept, *words, position, has_left, bits = numpy_state.view(torch.int64).tolist()
    if is_kept and (numpy := sys.modules.get("numpy")):
        numpy.random.set_state((MT19937, words, position, has_left, _bits_to_float(bits)))


def _numpy_state() -> list[int]:
    """Return the state of NumPy's global generator; zeros if NumPy is not imported or uses another generator."""
    numpy = sys.modules.get("numpy")
    state: dict[str, Any] = numpy.random.get_state(legacy=False) if numpy else {"bit_generator": None}
    if state["bit_generator"] != MT19937:
        return [0] * NUMPY_WORDS
    return [1, *state["state"]["key"].tolist(), state["state"]["pos"], state["has_gauss"], _float_bits(state["gauss"])]


def _float_bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _bits_to_float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
