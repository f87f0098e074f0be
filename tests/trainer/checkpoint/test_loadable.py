"""What the helper accepts as a state, and that it inspects one without a copy."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.trainer.checkpoint.safe_pickle import require_loadable_state
from jobc.trainer.lifecycle.errors import BrokenInput


class Tagged(torch.Tensor):
    """A tensor of a kind unknown to torch."""


BIG = torch.zeros(4 * 2**20)  # 16 MiB


@pytest.mark.parametrize(
    "state",
    [
        {"model": torch.nn.Linear(2, 2).state_dict(), "list": [BIG, (BIG.bfloat16(), BIG.to(torch.float8_e4m3fn))]},
        {"parameter": torch.nn.Parameter(BIG), "part": BIG[1:], "number": torch.tensor(1.0), "meta": BIG.to("meta")},
        {"sparse": torch.eye(9).to_sparse(), "rows": torch.eye(9).to_sparse_csr(), "complex": BIG[:9].cfloat().conj()},
        {"wraps tensors": torch.nested.nested_tensor([BIG, BIG[1:]], layout=torch.jagged)},
        {"quantized": torch.quantize_per_tensor(torch.zeros(9), 0.1, 0, torch.qint8), "words": ["text", 1, 2.0, None]},
    ],
)
def test_a_state_is_checked_without_a_copy_of_its_tensors(state: dict[str, Any]) -> None:
    tracemalloc.start()
    require_loadable_state("save()", state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("thing", [torch.nn.Linear(2048, 2048), BIG.as_subclass(Tagged), Path("text")])
def test_what_cannot_be_read_without_running_code_is_refused_without_a_copy_as_well(thing: object) -> None:
    tracemalloc.start()
    with pytest.raises(BrokenInput, match="may only contain tensors, numbers and text"):
        require_loadable_state("save()", {"deep": [{"down": thing}]})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
