"""`why` is exact: change each spec leaf in turn; the lines that change are the lines attributed to it."""

from __future__ import annotations

import pytest

from jobc.prove.why import BASES, PRECISION, measure


@pytest.mark.parametrize("base", BASES)
def test_changed_lines_are_the_attributed_lines(base: str) -> None:
    found = measure(BASES[base])
    print("\n".join([*found.missed, *(f"noise: {line}" for line in found.noise)]))
    assert not found.missed
    assert found.precision >= PRECISION
    assert len(found.leaves) >= 40
