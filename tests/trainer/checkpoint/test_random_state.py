"""A resumed rank draws the same numbers as an uninterrupted one, from every generator."""

from __future__ import annotations

import io
import random
import sys

import numpy
import pytest
import torch

from jobc.trainer.checkpoint.random_state import capture_random_state, restore_random_state, seed_model, seed_rank

CPU = torch.device("cpu")


def draws() -> list[float]:
    """Draw three normal numbers per generator: NumPy and `random` generate them in pairs, so that one is left over."""
    numbers = [numpy.random.beta(0.4, 0.4), *numpy.random.standard_normal(3), *numpy.random.permutation(5)]
    return [*map(float, numbers), random.random(), *(random.gauss() for _ in range(3)), *torch.randn(3).tolist()]


def through_a_file(packed: torch.Tensor) -> torch.Tensor:
    content = io.BytesIO()
    torch.save([packed], content)
    content.seek(0)
    (loaded,) = torch.load(content, weights_only=True)
    assert isinstance(loaded, torch.Tensor)
    return loaded


@pytest.mark.parametrize("before", range(3))
def test_a_state_that_was_kept_draws_the_same_bits(before: int) -> None:
    seed_rank(7, rank=1, step=0)
    numpy.random.standard_normal(before)  # with and without one that is left
    for _ in range(before):
        random.gauss()
    kept = through_a_file(capture_random_state(CPU))
    expected = draws()
    seed_rank(8, rank=0, step=3)
    assert draws() != expected
    restore_random_state(kept, CPU)
    assert draws() == expected


def test_draws_are_equal_on_all_ranks_for_the_model_and_differ_after_it() -> None:
    seed_model(7)
    first = draws()
    seed_model(7)
    assert draws() == first
    seed_rank(7, rank=0, step=0)
    of_rank_0 = numpy.random.beta(0.4, 0.4)
    seed_rank(7, rank=1, step=0)
    assert numpy.random.beta(0.4, 0.4) != of_rank_0


def test_ranks_with_and_without_numpy_keep_states_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_rank(7, rank=0, step=0)
    kept = capture_random_state(CPU)
    expected = random.random()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "numpy", None)  # as Python has it where an import is not allowed
        seed_rank(8, rank=0, step=0)
        assert len(capture_random_state(CPU)) == len(kept)
        restore_random_state(kept, CPU)
        assert random.random() == expected


def test_a_generator_that_somebody_has_put_in_the_place_of_numpys_own_is_left_alone() -> None:
    own = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(1))
    try:
        state = capture_random_state(CPU)
        expected = numpy.random.random(3).tolist()
        numpy.random.set_bit_generator(numpy.random.PCG64(1))
        restore_random_state(state, CPU)
        assert numpy.random.random(3).tolist() == expected
    finally:
        numpy.random.set_bit_generator(own)
