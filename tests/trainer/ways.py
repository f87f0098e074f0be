"""Run a few steps of one training with every way of parallelizing it, on ranks that connect once.

`python -m jobc.tests.trainer.ways torch`, or `zero` for DeepSpeed's ways, or `compiled`
In   train.json, the environment contract
Out  ways.json in the run folder: {way: {"steps": [[loss, gradient norm] of each step], "off": difference between the
     weights and those of a single rank with the whole batch, "exchanges": how often the last step called reductions
     over ranks, "save": whether a checkpoint from before that step, written after it, is unchanged}}; and the effect
     of an overflow
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from jobc.trainer.build.build import Training, build
from jobc.trainer.checkpoint.save_and_resume import checkpoint_files
from jobc.trainer.checkpoint.snapshot import Snapshot
from jobc.trainer.config import train_json
from jobc.trainer.data.source import IGNORE, DataSource, Split
from jobc.trainer.dist import env
from jobc.trainer.dist.process_group import RankGroup, join_process_group
from jobc.trainer.files import Content
from jobc.trainer.lifecycle.exit_rank import exit_with_error
from jobc.trainer.loop.loop import train_step
from jobc.trainer.loop.step_sums import StopAndSaveRequests
from jobc.trainer.recipe.recipe import Recipe

from .conftest import changed

STEPS = 3
REDUCING = ("c10d::allreduce_", "c10d::_reduce_scatter_base_", "c10d::reduce_", "c10d::reduce_scatter_")  # torch 2.13
FSDP: dict[str, Any] = {
    "kind": "fsdp", "reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "transformer_layer_cls_to_wrap": [], "min_num_params": 1000, "offload_params": False,
    "state_dict_type": "FULL_STATE_DICT", "cpu_ram_efficient_loading": True,
}  # fmt: skip
HSDP = {**FSDP, "kind": "hsdp", "shards": 2}
STATIC = {"kind": "ddp", "bucket_cap_mb": 25, "find_unused_parameters": False, "static_graph": True}
TWICE = {"batch.micro": 4, "batch.accumulation": 2}
ALL = {"loop.activation_checkpointing": 1}
ZERO: dict[str, Any] = {
    "kind": "deepspeed", "zero_stage": 2, "offload_optimizer_device": "none", "offload_param_device": "none",
    "nvme_path": None, "overlap_comm": False, "contiguous_gradients": True, "reduce_bucket_size": 500_000_000,
    "zero_force_ds_cpu_optimizer": False,
}  # fmt: skip
OFFLOADED = {"zero_stage": 3, "offload_optimizer_device": "cpu", "offload_param_device": "cpu"}
WAYS: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp, accumulated": TWICE,
    "ddp, static graph, recomputed": {"parallel": STATIC, **TWICE, **ALL},
    "fsdp": {"parallel": FSDP},
    "fsdp, accumulated, recomputed": {"parallel": FSDP, **TWICE, **ALL},
    "fsdp, by size, weights kept": {
        "parallel": {**FSDP, "auto_wrap_policy": "SIZE_BASED_WRAP", "reshard_after_forward": False}
    },
    "fsdp, by class, offloaded, recomputed": {
        "parallel": {**FSDP, "transformer_layer_cls_to_wrap": ["Attention", "FeedForward"], "offload_params": True},
        **ALL,
    },
    "fsdp, as one": {"parallel": {**FSDP, "auto_wrap_policy": "NO_WRAP"}},
    "hsdp": {"parallel": HSDP},
    "hsdp, accumulated": {"parallel": HSDP, **TWICE},
}
ZEROS: dict[str, dict[str, Any]] = {
    **{f"zero {stage}": {"parallel": {**ZERO, "zero_stage": stage}} for stage in range(4)},
    "zero 1, accumulated": {"parallel": {**ZERO, "zero_stage": 1}, **TWICE},
    "zero 2, accumulated, recomputed": {"parallel": ZERO, **TWICE, **ALL},
    "zero 3, accumulated, recomputed": {"parallel": {**ZERO, "zero_stage": 3}, **TWICE, **ALL},
    "zero 3, offloaded": {"parallel": {**ZERO, **OFFLOADED}},
}
COMPILED: dict[str, dict[str, Any]] = {
    "ddp, model": {"loop.compile": "model"},
    "fsdp, blocks": {"loop.compile": "blocks", "parallel": FSDP, **ALL},
}


@dataclasses.dataclass(frozen=True)
class Uneven:
    """A Split in which the number of counted targets differs between samples, from none to all."""

    split: Split

    def __len__(self) -> int:
        return len(self.split)

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = self.split.batch(indices_B)
        if targets.ndim == 1:
            return inputs, targets.masked_fill(indices_B % 5 == 0, IGNORE)
        places_T = torch.arange(targets.shape[1])
        ignored_BT = places_T[None] >= (indices_B[:, None] % 5) * targets.shape[1] // 4
        return inputs, targets.masked_fill(ignored_BT, IGNORE)


class UnevenRecipe(Recipe):
    """The trainer's own recipe, with samples in which the number of counted targets differs."""

    def build_data(self) -> DataSource:
        source = super().build_data()
        return dataclasses.replace(source, train=Uneven(source.train))


def built(tree: dict[str, Any], values: env.RankEnvironment, group: RankGroup) -> Training:
    return build(
        train_json.parse_train_config({**tree, "recipe": "jobc.tests.trainer.ways.UnevenRecipe"}), values, group
    )


def steps(training: Training, expected: Mapping[str, Tensor] | None) -> dict[str, Any]:
    """Run the steps. expected: the weights after them"""
    results = [train_step(training, step, StopAndSaveRequests()) for step in range(STEPS - 1)]
    files = saved_beside(training)
    before = written(files)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        results.append(train_step(training, STEPS - 1, StopAndSaveRequests()))
    exchanges = Counter(event.name for event in profiled.events() or () if event.name in REDUCING)
    weights = training.parallel.weights()
    off = max(float((weights[name] - value).abs().max()) for name, value in expected.items()) if expected else 0.0
    return {
        "steps": [[result.loss, result.update.grad_norm] for result in results],
        "off": off, "exchanges": exchanges, "save": "as it was" if written(files) == before else "changed by a step",
    }  # fmt: skip


def saved_beside(training: Training) -> Mapping[str, Content]:
    """Return the files of a checkpoint that rank 0 writes while the training continues. A gathered state is kept as it
    is, because another copy would waste memory.
    """
    parallel, memory = training.parallel, Snapshot()

    def keep(tree: Any) -> Any:
        assert not parallel.gathers
        return memory.copy_tree(tree)

    return checkpoint_files(STEPS - 1, parallel, training.config, training.group, {}, keep)


def written(files: Mapping[str, Content]) -> str:
    """Return a digest of the files as written now."""
    digest = hashlib.sha256()
    for content in files.values():
        file = io.BytesIO()
        if callable(content):
            content(file)
        digest.update(file.getvalue())
    return digest.hexdigest()


def overflow(training: Training) -> dict[str, Any]:
    """Run one pass whose gradients overflow only on the last rank, then a valid one."""
    group, parallel, said = training.group, training.parallel, []
    before = {name: value.clone() for name, value in parallel.weights().items()}
    for factor in (float("inf") if group.rank == group.world_size - 1 else 1.0, 1e-3):
        with parallel.pass_context(True):
            loss, _ = parallel.module(training.loader.take_step()[0].batch)
            parallel.backward(loss * factor, True)
        norm = parallel.gradient_norm()
        update = parallel.update(1e-3, 1.0, None if norm is None else float(norm), factor=1.0, loss=0.0)
        same = all(torch.equal(value, before[name]) for name, value in parallel.weights().items())
        told = torch.tensor([float(update.skipped), update.loss_scale, float(same)], dtype=torch.float64)
        said.append([row.tolist() for row in group.all_gather(told)])
    return {"overflow": said[0], "sound": said[1], "state": parallel.optimizer_state()["loss_scale"]}


def logits(training: Training) -> Tensor:
    """Return the model's output for one batch, as a loss receives it."""
    inputs, _ = training.loader.take_step()[0].batch
    outputs: Tensor = cast(nn.Module, training.parallel.evaluated.model)(inputs)
    return outputs


def main(chosen: str) -> None:
    values = env.parse_environment(os.environ, ("JOBC_RUN_DIR", "JOBC_TRAIN_JSON"))
    assert values.run_dir is not None and values.train_json is not None
    tree = json.loads(values.train_json.read_text())
    found: dict[str, Any] = {}
    with join_process_group(values, 60, even_alone=True) as group:
        expected = None
        if group.is_first:
            alone = changed(tree, {"world_size": 1, "batch.micro": tree["batch"]["global"]})
            training = built(alone, values, RankGroup(0, 1, torch.device("cpu")))
            found["alone"] = steps(training, None)
            expected = training.parallel.weights()
        for way, changes in {"torch": WAYS, "zero": ZEROS, "compiled": COMPILED}[chosen].items():
            found[way] = steps(built(changed(tree, changes), values, group), expected)
        for kind, parallel in {"ddp": tree["parallel"], "fsdp": FSDP}.items() if chosen == "torch" else ():
            for precision in ("bf16", "fp16"):
                training = built(changed(tree, {"parallel": parallel, "loop.precision": precision}), values, group)
                found[f"{kind}, {precision}"] = steps(training, expected)
                found[f"{kind}, {precision}"]["logits"] = str(logits(training).dtype)
            found[f"{kind}, overflow"] = overflow(training)
        if group.is_first:
            (values.run_dir / "ways.json").write_text(json.dumps(found))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BaseException as error:
        exit_with_error(error)
