"""A sweep's points are composed from what they share, and equal the configs that Hydra composes for each point
alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.diagnostics.origin import TextWithOrigin
from jobc.compiler.frontend.compose import ComposedConfig, _read, compose_hydra_config, compose_job, hydra_session
from jobc.compiler.frontend.overrides import Override, read_overrides
from jobc.compiler.frontend.plain_values import split_plain_values
from jobc.compiler.pipeline.compile import all_config_keys, config_search_path
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.spec.job_spec import open_keys

WORDS = [  # of random points
    "nodes=2", "env.B=null", "name=a", "name=b", "env.A=1", "env.A=${name}", "env.B=${env.A}-${seed}", "env.B=x y",
    "seed=3", "optim.lr=0.5", "optim=adamw", "optim=sgd", "time=null", "time=2h", "hosts=[a,b]", "hosts=a",
    "labels={x: y}", "labels.x=z", "~env.A", "site.nodes=4", "site.nodes=9", "env=x", "nods=1", "optim.rl=1",
    "optim=none", "+new=1", 'env.A="it\'s"', "env.C=\\${HOME}", "env.D=${nothing}", "env.D=${site}", "parallel=fsdp",
    "backend.partitions=[a]",
]  # fmt: skip


def test_random_points_are_what_hydra_composes() -> None:
    draw = random.Random(0)
    points = [("backend=skypilot", *draw.sample(WORDS, draw.randrange(1, 5))) for _ in range(50)]
    with hydra_session(config_search_path(CompileRequest(points[0])), has_points=True) as loader:
        for words in points:
            overrides = read_overrides(words, open_keys(words))
            got = answer(partial(compose_job, loader, "config", overrides, all_config_keys))
            assert got == answer(partial(alone, loader, overrides)), words


@pytest.mark.parametrize(
    ("words", "by_hydra"),
    [
        (("nodes=2", "env.A=1"), []),
        (("backend=slurm", "nodes=2"), ["backend=slurm"]),
        (("~optim.lr", "optim.lr=1", "optim.kind=a"), ["~optim.lr", "optim.lr=1"]),  # their order counts
        (("env.A=1", "env.B=null", "seed=1"), ["env.A=1", "env.B=null"]),  # the order of their entries counts
        (("hosts=[a,b]", "time=null", "seed=1"), ["hosts=[a,b]", "time=null"]),
    ],
)
def test_hydra_applies_whatever_is_not_plain_text_at_a_key(words: Sequence[str], by_hydra: list[str]) -> None:
    folders = tuple(folder.path for folder in config_search_path(CompileRequest(tuple(words))))
    others, plain = split_plain_values(folders, read_overrides(words, open_keys(words)))
    assert [o.typed for o in others] == by_hydra
    assert {o.typed for o in plain} == {*words} - {*by_hydra}


def test_points_share_the_sections_that_do_not_differ() -> None:
    with hydra_session(config_search_path(CompileRequest(("backend=local",))), has_points=True) as loader:
        one, two = (
            compose_job(loader, "config", read_overrides(("backend=local", f"env.A={n}"), ("env",)), all_config_keys)
            for n in (1, 2)
        )
    assert one.tree["optim"] is two.tree["optim"]
    assert (one.tree["env"], two.tree["env"]) == ({"A": "1"}, {"A": "2"})


def alone(loader: Any, overrides: Sequence[Override]) -> ComposedConfig:
    return _read(compose_hydra_config(loader, "config", overrides, all_config_keys)[0], tuple(overrides))


def answer(composing: Any) -> object:
    try:
        composed = composing()
    except CompileError as error:
        return error.diagnostics
    return placed(composed.written), placed(composed.tree), composed.choices


def placed(tree: Any) -> Any:
    """The tree with the position of each value, and the order of each mapping."""
    if isinstance(tree, dict):
        return [(name, placed(inner)) for name, inner in tree.items()]
    if isinstance(tree, list):
        return [placed(inner) for inner in tree]
    return (tree, tree.origin, tree.null, tree.quoted) if isinstance(tree, TextWithOrigin) else tree
