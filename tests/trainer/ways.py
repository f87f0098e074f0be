"""A few steps of one training in every way to share it, by ranks that meet once. `python -m jobc.tests.trainer.ways`

In   train.json of four ranks, the environment contract
Out  ways.json in the run folder: {way: [[loss, gradient norm] of each step]}, and what became of an overflow
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jobc.trainer import config, env
from jobc.trainer.data.source import IGNORE, Source, Split
from jobc.trainer.distributed import Group, join
from jobc.trainer.leave import leave
from jobc.trainer.parallel.blocks import blocks_of
from jobc.trainer.recipe import Recipe
from jobc.trainer.step import Wishes, train_step
from jobc.trainer.training import Training, build

from .conftest import changed

STEPS = 3
FSDP: dict[str, Any] = {
    "kind": "fsdp", "reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "transformer_layer_cls_to_wrap": [], "min_num_params": 1000, "offload_params": False,
    "state_dict_type": "FULL_STATE_DICT", "cpu_ram_efficient_loading": True,
}  # fmt: skip
HSDP = {**FSDP, "kind": "hsdp", "shards": 2}
STATIC = {"kind": "ddp", "bucket_cap_mb": 25, "find_unused_parameters": False, "static_graph": True}
TWICE = {"batch.micro": 4, "batch.accumulation": 2}
ALL = {"loop.activation_checkpointing": 1}
WAYS: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp, accumulated": TWICE,
    "ddp, static graph, recomputed": {"parallel": STATIC, **TWICE, **ALL},
    "fsdp": {"parallel": FSDP},
    "fsdp, accumulated, recomputed": {"parallel": FSDP, **TWICE, **ALL},
    "fsdp, by size, weights kept": {
        "parallel": {**FSDP, "auto_wrap_policy": "SIZE_BASED_WRAP", "reshard_after_forward": False}
    },
    "fsdp, by class, offloaded": {
        "parallel": {**FSDP, "transformer_layer_cls_to_wrap": ["Attention", "FeedForward"], "offload_params": True}
    },
    "fsdp, as one": {"parallel": {**FSDP, "auto_wrap_policy": "NO_WRAP"}},
    "hsdp": {"parallel": HSDP},
    "hsdp, accumulated": {"parallel": HSDP, **TWICE},
}


@dataclasses.dataclass(frozen=True)
class Uneven:
    """A Split whose samples have from no target that counts to all of them."""

    split: Split

    def __len__(self) -> int:
        return len(self.split)

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        tokens_BT, targets_BT = self.split.batch(indices_B)
        places_T = torch.arange(targets_BT.shape[1])
        ignored_BT = places_T[None] >= (indices_B[:, None] % 5) * targets_BT.shape[1] // 4
        return tokens_BT, targets_BT.masked_fill(ignored_BT, IGNORE)


class UnevenRecipe(Recipe):
    """The trainer's own, over samples that differ in how many targets count."""

    def build_data(self) -> Source:
        source = super().build_data()
        return dataclasses.replace(source, train=Uneven(source.train))


def built(tree: dict[str, Any], values: env.Env, group: Group) -> Training:
    return build(config.parse({**tree, "recipe": "jobc.tests.trainer.ways.UnevenRecipe"}), values, group)


def steps(training: Training) -> list[list[float]]:
    results = [train_step(training, step, Wishes(stop=False, save=False)) for step in range(STEPS)]
    return [[result.loss, result.update.grad_norm] for result in results]


def overflow(training: Training) -> dict[str, Any]:
    """One pass whose gradients overflow on the last rank alone; then one that is sound."""
    group, parallel, said = training.group, training.parallel, []
    before = {name: value.clone() for name, value in parallel.weights().items()}
    for factor in (float("inf") if group.rank == group.world_size - 1 else 1.0, 1e-3):
        with parallel.passes(True):
            loss, _ = parallel.module(training.loader.take()[0].batch)
            parallel.backward(loss * factor, True)
        update = parallel.update(1e-3, 1.0)
        same = all(torch.equal(value, before[name]) for name, value in parallel.weights().items())
        told = torch.tensor([float(update.skipped), update.loss_scale, float(same)], dtype=torch.float64)
        said.append([row.tolist() for row in group.gather(told)])
    return {"overflow": said[0], "sound": said[1], "state": parallel.optimizer_state()["loss_scale"]}


def main() -> None:
    values = env.read(os.environ, ("JOBC_RUN_DIR", "JOBC_TRAIN_JSON"))
    assert values.run_dir is not None and values.train_json is not None
    tree = json.loads(values.train_json.read_text())
    found: dict[str, Any] = {}
    with join(values, 60) as group:
        for way, changes in WAYS.items():
            found[way] = steps(built(changed(tree, changes), values, group))
        for kind, parallel in {"ddp": tree["parallel"], "fsdp": FSDP}.items():
            for precision in ("bf16", "fp16"):
                training = built(changed(tree, {"parallel": parallel, "loop.precision": precision}), values, group)
                found[f"{kind}, {precision}"] = steps(training)
            found[f"{kind}, overflow"] = overflow(training)
        if group.is_first:
            alone = changed(tree, {"world_size": 1, "batch.micro": tree["batch"]["global"]})
            training = built(alone, values, Group(0, 1, torch.device("cpu")))
            found["alone"] = steps(training)
            found["blocks"] = len(blocks_of(training.parallel.evaluated.model))  # type: ignore[arg-type]
            (Path(values.run_dir) / "ways.json").write_text(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        leave(error)
