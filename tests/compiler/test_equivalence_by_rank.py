"""What is true of several ranks is told once, with their numbers in order."""

from __future__ import annotations

from jobc.compiler.equivalence.by_rank import by_rank


def test_ranks_of_the_same_difference_are_told_together() -> None:
    of_each = [f'JOBC_PROCS: rank {rank} has "4", the plan "8"' for rank in (10, 9, 2, 3, 4)]
    assert by_rank([*of_each, "X: rank 3 does not get it", "X: rank 1 does not get it"]) == [
        'JOBC_PROCS: ranks 2-4, 9-10 have "4", the plan "8"',
        "X: ranks 1, 3 do not get it",
    ]


def test_one_rank_and_no_rank_stay_as_they_are_without_repetitions() -> None:
    told = ["node: rank 4 has 1, the plan 0", "rendezvous.port: the ranks have 1, the plan 2"]
    assert by_rank([*told, *told]) == told
