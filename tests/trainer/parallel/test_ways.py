"""Every way to share a model trains the same: one launch of four ranks that tries all, and a run that changes it."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jobc.trainer.config import train_json
from jobc.trainer.data.order import SampleOrder, rank_shard
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop.metrics import last_step_lines
from jobc.trainer.parallel.blocks import apply_checkpointing_and_compile, find_blocks
from jobc.trainer.recipe import recipe
from jobc.trainer.recipe.loss import ModelWithLoss

from ..conftest import Run
from ..ways import COMPILED, FSDP, HSDP, STEPS, WAYS, ZEROS

pytestmark = pytest.mark.xdist_group("ways")

Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]


def tried(run: Run, tree: dict[str, Any], ways: str, **env: str) -> dict[str, Any]:
    """Return what ways.py wrote."""
    run.start(tree, program=["-m", "jobc.tests.trainer.ways", ways], **env)
    codes = run.wait(timeout_s=400)
    assert codes == [0] * tree["world_size"], "\n".join(run.output(rank) for rank in range(tree["world_size"]))
    said: dict[str, Any] = json.loads((run.folder / "ways.json").read_text())
    return said


def is_the_same(found: dict[str, Any], way: str, rel: float = 1e-6) -> None:
    """Assert that the results equal those of one rank with the whole batch, although ranks have different numbers of
    counted items, some none.
    """
    steps, alone = found[way]["steps"], found["alone"]["steps"]
    assert steps[0] == pytest.approx(alone[0], rel=rel)
    for mine, expected in zip(steps, alone, strict=True):  # weights have moved, by sums in another order
        assert mine == [pytest.approx(expected[0], rel=rel), pytest.approx(expected[1], rel=10 * rel)]
    assert found[way]["off"] < 1e-4
    assert found[way]["save"] == "as it was"


@pytest.fixture(scope="module")
def found(gpt: Tree, new_run: NewRun) -> dict[str, Any]:
    tree = gpt({"world_size": 4, "batch.micro": 8, "model.dropout": 0.0, "loop.steps": STEPS})
    return tried(new_run(), tree, "torch")


@pytest.fixture(scope="module")
def zeros(gpt: Tree, new_run: NewRun) -> dict[str, Any]:
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
    tree = gpt({"world_size": 2, "batch.micro": 8, "model.dropout": 0.0, "loop.steps": STEPS})
    return tried(new_run(), tree, "zero")


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS))
def test_loss_gradients_and_weights_are_those_of_one_rank(way: str, found: dict[str, Any]) -> None:
    is_the_same(found, way)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.parametrize("way", list(ZEROS))
def test_and_so_they_are_with_deepspeed(way: str, zeros: dict[str, Any]) -> None:
    is_the_same(zeros, way)


@pytest.mark.slow
def test_accumulated_gradients_are_exchanged_once_a_step(found: dict[str, Any]) -> None:
    for way in ("ddp", "fsdp", "hsdp"):
        once = found[way]["exchanges"]
        assert sum(once.values()) > 1, "gradients, beside the small message of a step"
        twice = [name for name in found if name.startswith(f"{way},") and "accumulated" in name]
        assert twice and all(found[name]["exchanges"] == once for name in twice), (way, found)


@pytest.mark.slow
@pytest.mark.engine
def test_deepspeed_exchanges_gradients_of_accumulated_passes_at_once_where_a_rank_keeps_them(
    zeros: dict[str, Any],
) -> None:
    count = {way: sum(said["exchanges"].values()) for way, said in zeros.items() if "exchanges" in said}
    assert count["zero 1, accumulated"] == count["zero 1"]
    assert count["zero 2, accumulated, recomputed"] == count["zero 2"] + 1, "each pass: no rank keeps whole gradients"
    assert count["zero 3, accumulated, recomputed"] == count["zero 3"] + 1


@pytest.mark.slow
def test_compiled_they_are_the_same_but_for_rounding(digits: Tree, new_run: NewRun) -> None:
    found = tried(new_run(), digits({"loop.steps": STEPS}), "compiled", TORCHINDUCTOR_COMPILE_THREADS="1")
    for way in COMPILED:
        is_the_same(found, way, rel=1e-5)


class Layer(nn.Module):
    """A layer like those of Hugging Face: all inputs but the first have names."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, hidden_BD: Tensor, *, scale: float) -> Tensor:
        return self.linear(hidden_BD).tanh() * scale


class Layered(nn.Module):
    """A model that names no blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, hidden_BD: Tensor) -> Tensor:
        for layer in self.layers:
            hidden_BD = layer(hidden_BD, scale=0.5)
        return hidden_BD


def test_blocks_may_be_named_by_their_class_and_called_with_keywords(gpt: Tree) -> None:
    loop = train_json.parse_train_config(gpt({"loop.activation_checkpointing": 1})).loop
    torch.manual_seed(0)
    plain = Layered()
    again = copy.deepcopy(plain)
    with pytest.raises(BrokenInput, match="does not name any"):
        apply_checkpointing_and_compile(again, loop)
    with pytest.raises(BrokenInput, match="no module of class Layr"):
        apply_checkpointing_and_compile(again, loop, ["Layr"])
    apply_checkpointing_and_compile(again, loop, ["Layer"])
    for model in (plain, again):
        model(torch.ones(2, 4)).sum().backward()
    gradients = [[parameter.grad for parameter in model.parameters()] for model in (plain, again)]
    assert all(map(torch.equal, *gradients))


class Pretrained(Layered):
    """A model from transformers names the classes of its blocks, and may lack some of them."""

    _no_split_modules = ("Layer", "VisionLayer")


def test_a_model_of_transformers_names_its_blocks_by_class() -> None:
    assert [type(block) for block in find_blocks(Pretrained())] == [Layer, Layer]
    assert [type(block) for block in find_blocks(nn.Sequential(Pretrained()))] == [Layer, Layer]


def test_twelve_lengths_are_compiled_twice(gpt: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend=lambda graph, _: graphs.append(graph) or graph)
    )
    model = Layered()
    loop = train_json.parse_train_config(gpt({"loop.compile": "blocks"})).loop
    apply_checkpointing_and_compile(model, loop, ["Layer"])
    for length in range(5, 29, 2):
        model.layers[0](torch.ones(2, length, 4), scale=0.5)
    assert len(graphs) == 2


@pytest.mark.parametrize("every", [0, 1])
def test_a_compiled_pass_is_one_graph(every: int, gpt: Tree) -> None:
    """A graph break is reported nowhere, and costs speed."""
    configured = train_json.parse_train_config(gpt({"loop.precision": "bf16", "loop.activation_checkpointing": every}))
    made = recipe.build_recipe(configured)
    source = made.build_data()
    model = made.build_model(source)
    apply_checkpointing_and_compile(model, configured.loop)
    module = ModelWithLoss(model, made, configured.loop.precision)
    batch = source.train.batch(torch.arange(3))
    whole = torch.compile(module, dynamic=False, fullgraph=True, backend="eager")
    torch.manual_seed(0)
    loss, _ = whole(batch)
    loss.backward()
    torch.manual_seed(0)
    assert float(loss.detach()) == float(module(batch)[0].detach())


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_16_bits_come_near(kind: str, precision: str, found: dict[str, Any]) -> None:
    for mine, expected in zip(found[f"{kind}, {precision}"]["steps"], found["alone"]["steps"], strict=True):
        assert mine == pytest.approx(expected, rel=2e-2)
        assert mine != expected
    assert found[f"{kind}, {precision}"]["logits"] == "torch.float32"  # in which a loss of one's own is computed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_an_overflow_on_one_rank_is_skipped_by_all_and_costs_half_the_scale(kind: str, found: dict[str, Any]) -> None:
    said = found[f"{kind}, overflow"]
    assert [row[:2] for row in said["overflow"]] == [[1.0, 2.0**15]] * 4
    assert said["overflow"][0][2] == 1.0, "weights are as before"
    assert [row[:2] for row in said["sound"]] == [[0.0, 2.0**15]] * 4
    assert said["sound"][0][2] == 0.0, "weights have moved"
    assert said["state"] == {"factor": 2.0**15, "good_steps": 1}


@pytest.mark.slow
def test_a_run_goes_on_with_other_ranks_and_another_way(gpt: Tree, new_run: NewRun) -> None:
    """2 ranks with ddp, then 4 with fsdp, then 1 with ddp, compared with 1 rank that did all steps."""
    tree = {"batch.micro": 16, "batch.global": 32, "model.dropout": 0.0, "loop.steps": 12, "optim.lr": 1e-3}
    alone = new_run()
    assert alone.run(gpt({**tree, "batch.accumulation": 2})) == [0], alone.output(0)
    run, eight = new_run(), {"batch.micro": 8}
    assert run.run(gpt({**tree, "world_size": 2, "loop.steps": 4})) == [0, 0], run.output(0)
    assert run.run(gpt({**tree, **eight, "world_size": 4, "loop.steps": 8, "parallel": FSDP})) == [0] * 4, run.output(0)
    assert "resumed from checkpoints/step_00000004, saved by 2 ranks" in run.output(0)
    assert run.run(gpt({**tree, "batch.accumulation": 2})) == [0], run.output(0)
    assert "resumed from checkpoints/step_00000008, saved by 4 ranks" in run.output(0)
    mine, whole = (last_step_lines(one.folder / "metrics" / "rank_00.jsonl") for one in (run, alone))
    assert mine.keys() == whole.keys() == set(range(1, 13))
    assert [line["world_size"] for line in mine.values()] == [2] * 4 + [4] * 4 + [1] * 4
    for step, line in mine.items():
        assert line["loss"] == pytest.approx(whole[step]["loss"], rel=1e-4)
    got, expected = (torch.load(one.folder / "final" / "weights.pt", weights_only=True) for one in (run, alone))
    assert list(got) == list(expected)
    assert all(torch.allclose(got[name], expected[name], atol=1e-4) for name in expected)


@pytest.mark.slow
@pytest.mark.parametrize(("parallel", "world_size"), [(FSDP, 2), (HSDP, 4)], ids=["fsdp", "hsdp"])
def test_a_rank_that_shares_is_killed_and_the_resumed_run_is_bit_identical(
    parallel: dict[str, Any], world_size: int, gpt: Tree, new_run: NewRun
) -> None:
    tree = gpt(
        {
            "world_size": world_size, "batch.micro": 2, "batch.global": 2 * world_size, "loop.steps": 12,
            "checkpoint.every_steps": 4, "parallel": parallel,
        }
    )  # fmt: skip
    assert tree["model"]["dropout"] > 0, "or the random states would not matter"
    whole, killed = new_run(), new_run()
    assert whole.run(tree) == [0] * world_size, whole.output(0)
    killed.start(tree)
    killed.wait_for_step(6)
    killed.ranks[-1].kill()
    assert 0 not in killed.wait()
    assert killed.run(tree) == [0] * world_size, killed.output(0)
    assert "resumed from checkpoints/step_0000000" in killed.output(0)
    mine, theirs = (run.folder / "final" / "weights.pt" for run in (killed, whole))
    assert mine.read_bytes() == theirs.read_bytes()


def test_the_samples_of_a_run_are_the_same_whoever_reads_them() -> None:
    order = SampleOrder(seed=0, num_samples=100, batch=32, drop_last=False)

    def seen(world_size_of_step: Callable[[int], int]) -> Counter[int]:
        samples: Counter[int] = Counter()
        for step in range(12):
            for rank in range(world := world_size_of_step(step)):
                indices_R, num_real = rank_shard(*order.global_batch(step), rank, world)
                samples.update(indices_R[:num_real].tolist())
        return samples

    assert seen(lambda step: (2, 4, 1)[step // 4]) == seen(lambda step: 1) == Counter(dict.fromkeys(range(100), 3))
