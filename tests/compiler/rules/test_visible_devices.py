"""JC3006: how many GPUs a mask leaves, as CUDA and torch read it."""

from __future__ import annotations

import pytest
import torch

from jobc.compiler.diagnostics.diagnostic import Diagnostic

from ..diagnosed import found

LEAVES = [  # mask, GPUs
    ("", 0),
    ("-1", 0),
    ("-1,1", 0),
    ("none", 0),
    ("3", 1),
    ("0,-1,1", 1),
    ("0,,1", 1),
    ("0,x", 1),
    ("0,0", 0),
    ("0,1,00", 0),
    ("0,1,-1,0", 2),
    ("0,1", 2),
    (" 3, 5", 2),
    ("+0,1", 2),
    ("0,GPU-5a3", 1),
    ("GPU-5a3,0", 1),
    ("GPU-5a3,GPU-5a3", 0),
    ("GPU-5a3,GPU-77b", 2),
    ("MIG-5a3/1/2", 1),
]


def of_mask(mask: str, *words: str) -> list[Diagnostic]:
    return found("JC3006", words=(f'env.CUDA_VISIBLE_DEVICES="{mask}"', *words))


@pytest.mark.parametrize(("mask", "gpus"), LEAVES)
def test_as_many_gpus_are_left_as_torch_sees(mask: str, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert len(torch.cuda._parse_visible_devices()) == gpus
    (told,) = of_mask(mask, "gpus=8")
    assert f" leaves {gpus} GPU" in told.title
    assert [len(of_mask(mask, "gpus=8", f"procs={procs}")) for procs in (gpus, gpus + 1) if procs] == [0, 1][not gpus :]


@pytest.mark.parametrize(("mask", "hint"), [("0,-1,1", "procs=1"), ("-1,1", "gpus=0"), ("0,0", "gpus=0")])
def test_the_second_hint_mends_it_too(mask: str, hint: str) -> None:
    (told,) = of_mask(mask, "gpus=2")
    assert told.hint is not None and told.hint.endswith(f"; or {hint}")
    assert of_mask(mask, "gpus=2", hint) == []
