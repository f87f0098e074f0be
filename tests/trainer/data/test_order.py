"""The order of samples is a pure function, and the ranks' shares together cover all samples."""

import pytest
import torch

from jobc.trainer.data.order import SampleOrder, derive_seed, rank_shard, shuffled_indices


def consumed(order: SampleOrder, step: int, rank: int, world_size: int) -> list[int]:
    """Indices that count, of one rank's share of one step."""
    indices_R, num_real = rank_shard(*order.global_batch(step), rank, world_size)
    return indices_R[:num_real].tolist()


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
@pytest.mark.parametrize("num_samples", [1, 5, 6, 7, 36, 100])
def test_an_epoch_is_every_sample_once(num_samples: int, world_size: int) -> None:
    order = SampleOrder(seed=1, num_samples=num_samples, batch=6, drop_last=False)
    for epoch in (0, 1):
        steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
        seen = [i for step in steps for rank in range(world_size) for i in consumed(order, step, rank, world_size)]
        assert sorted(seen) == list(range(num_samples))


def test_padding_has_weight_0_and_only_in_the_last_batch() -> None:
    order = SampleOrder(seed=0, num_samples=10, batch=4, drop_last=False)
    assert order.steps_per_epoch == 3
    assert [order.global_batch(step)[1] for step in range(6)] == [4, 4, 2, 4, 4, 2]
    assert all(len(order.global_batch(step)[0]) == 4 for step in range(6))


def test_drop_last_leaves_the_incomplete_batch_out() -> None:
    order = SampleOrder(seed=0, num_samples=10, batch=4, drop_last=True)
    assert order.steps_per_epoch == 2
    assert [order.global_batch(step)[1] for step in range(4)] == [4] * 4
    assert SampleOrder(seed=0, num_samples=3, batch=4, drop_last=True).steps_per_epoch == 0


def test_the_global_batch_does_not_depend_on_the_number_of_ranks() -> None:
    order = SampleOrder(seed=0, num_samples=100, batch=12, drop_last=False)
    for step in range(12):
        shares = [sorted(i for r in range(w) for i in consumed(order, step, r, w)) for w in (1, 2, 3, 4)]
        assert all(share == shares[0] for share in shares)


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    first = shuffled_indices(0, 0, 50)
    torch.rand(3)  # another user of the global generator
    shuffled_indices.cache_clear()
    assert torch.equal(shuffled_indices(0, 0, 50), first)
    assert not torch.equal(shuffled_indices(0, 1, 50), first)
    assert not torch.equal(shuffled_indices(1, 0, 50), first)


def test_the_order_is_the_same_in_every_version() -> None:
    # a change here breaks the resume of every run that exists
    assert shuffled_indices(0, 0, 8).tolist() == [7, 5, 6, 0, 3, 4, 1, 2]


def test_seeds_do_not_collide_by_concatenation() -> None:
    assert len({derive_seed(1, 23), derive_seed(12, 3), derive_seed(1, 2, 3), derive_seed("1", "23", "")}) == 4
    assert all(0 <= derive_seed(i) < 2**63 for i in range(100))
