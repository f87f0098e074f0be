"""Memory of one rank: the terms of the ZeRO paper, and DeepSpeed's own estimator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from jobc.compiler.estimate.memory import estimate_rank_memory, host_memory
from jobc.compiler.estimate.parameters import ModelSize

from ..conftest import Plan


def train(**parallel: Any) -> dict[str, Any]:
    return {"parallel": parallel, "loop": {"precision": "fp32"}, "batch": {"micro": 1, "accumulation": 1}, "optim": {}}


def zero(stage: int, offload: str = "none", bucket: int = 0, precision: str = "fp32") -> dict[str, Any]:
    of_parallel = train(
        kind="deepspeed",
        zero_stage=stage,
        reduce_bucket_size=bucket,
        contiguous_gradients=True,
        overlap_comm=False,
        offload_optimizer_device=offload,
        offload_param_device="none",
    )
    return {**of_parallel, "loop": {"precision": precision}}


def test_a_recipe_may_build_another_model_than_the_config_names(plan: Plan) -> None:
    assert "give or take" in plan("task=gpt2_124m")[1]
    assert "weights" not in plan("task=gpt2_124m", "recipe=my_pkg.Mine")[1]
    said = plan("task=gpt2_124m", "recipe=my_pkg.Mine", "estimate.parameters=7e9")[1]
    assert "weights" in said and "give or take" not in said


SEVEN_B = ModelSize(7_000_000_000, 200_000_000, None, 1)


def test_each_rank_of_a_node_reads_a_whole_checkpoint(plan: Plan) -> None:
    sharded = estimate_rank_memory(
        train(kind="fsdp", reshard_after_forward=True, auto_wrap_policy="NO_WRAP", offload_params=False), SEVEN_B, 64
    )
    assert host_memory(train(kind="fsdp"), sharded, procs=8, uses_trainer=True) == 8 * 20 * SEVEN_B.parameters
    assert host_memory(train(kind="fsdp"), sharded, procs=8, uses_trainer=False) is None
    assert host_memory(train(kind="ddp"), sharded, procs=8, uses_trainer=True) is None
    assert "resuming needs" in plan("gpus=2", "parallel=fsdp", "estimate.parameters=1e9")[1]


def test_each_stage_divides_one_part_more() -> None:
    stages = [estimate_rank_memory(zero(stage), SEVEN_B, 64) for stage in range(4)]
    n = SEVEN_B.parameters
    assert [stage.weights for stage in stages] == [4 * n, 4 * n, 4 * n, 4 * n // 64]
    assert [stage.gradients for stage in stages] == [4 * n, 4 * n, 4 * n // 64, 4 * n // 64]
    assert [stage.optimizer for stage in stages] == [8 * n, 12 * n // 64, 12 * n // 64, 12 * n // 64]


def test_the_shares_are_those_of_deepspeeds_estimator() -> None:
    """DeepSpeed 0.19.8 reckons 2 bytes a weight, of which ours are 4: 2 n + 18 n / N there, 4 n + 16 n / N here."""
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    n, ranks = SEVEN_B.parameters, 64
    _, theirs = estimate_zero2_model_states_mem_needs(n, num_gpus_per_node=8, num_nodes=8, cpu_offload=False)
    ours = estimate_rank_memory(zero(2), SEVEN_B, ranks).states
    assert theirs == 2 * n + 18 * n // ranks
    assert ours == 4 * n + 16 * n // ranks
    of_eight = estimate_rank_memory(zero(2), SEVEN_B, 8).states
    _, theirs_of_eight = estimate_zero2_model_states_mem_needs(n, num_gpus_per_node=8, num_nodes=1, cpu_offload=False)
    assert (ours / theirs, of_eight / theirs_of_eight) == pytest.approx((1.86, 1.41), abs=0.01), "as docs/plan.md says"


def test_a_program_of_ones_own_has_weights_of_16_bits_with_deepspeed() -> None:
    """To the byte what DeepSpeed 0.19.8 reckons of stage 2: 2 n + 18 n / N. Of stage 3 it forgets the 16-bit gradients,
    2 n / N, and takes the largest layer with its gradients, 4 bytes, where ours are the parameters that stay whole.
    """
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    n, ranks, nowhere = SEVEN_B.parameters, 64, {"cpu_offload": False, "num_gpus_per_node": 8, "num_nodes": 8}
    of = [estimate_rank_memory(zero(stage, precision="bf16"), SEVEN_B, ranks, uses_trainer=False) for stage in range(4)]
    assert [one.weights for one in of] == [2 * n, 2 * n, 2 * n, 2 * n // ranks]
    assert [one.gradients for one in of] == [2 * n, 2 * n, 2 * n // ranks, 2 * n // ranks]
    assert [one.optimizer for one in of] == [12 * n, *[12 * n // ranks] * 3]
    assert (of[0].buffers, of[2].buffers) == (4 * n, 4 * n // ranks), "gradients of 4 bytes for the update"
    _, second = estimate_zero2_model_states_mem_needs(n, **nowhere)
    assert of[2].states == second
    _, third, layer = estimate_zero3_model_states_mem_needs(n, 900_000_000, cpu_offload_params=False, **nowhere)
    assert third == 18 * n // ranks + layer
    large = estimate_rank_memory(
        zero(3, precision="bf16"), ModelSize(n, 900_000_000, None, 1), ranks, uses_trainer=False
    )
    assert (large.states, large.gathered) == (16 * n // ranks + layer // 2, layer // 2)
    away = estimate_rank_memory(zero(2, "cpu", precision="bf16"), SEVEN_B, ranks, uses_trainer=False)
    _, theirs = estimate_zero2_model_states_mem_needs(n, num_gpus_per_node=8, num_nodes=8, cpu_offload=True)
    assert away.states == theirs == 2 * n and away.host == 18 * n // ranks


def test_the_bucket_of_zero_is_as_large_as_it_may_be() -> None:
    small, large = ModelSize(1000, 100, None, 1), 500_000_000
    of = {stage: estimate_rank_memory(zero(stage, bucket=large), small, 2).buffers for stage in range(4)}
    assert of == {0: 0, 1: 4 * large, 2: 4 * large, 3: 4 * large}
    assert (
        estimate_rank_memory(zero(2, bucket=large, precision="bf16"), small, 2, uses_trainer=False).buffers == 2 * large
    )
    assert (
        estimate_rank_memory(zero(2, bucket=large, precision="bf16"), small, 2).buffers
        == 4 * large + 2 * small.parameters
    )
    assert estimate_rank_memory(zero(3, bucket=large, precision="bf16"), small, 2).buffers == 2 * large, (
        "no copies of autocast"
    )
    twice = zero(2, bucket=large)
    twice["parallel"] |= {"overlap_comm": True}
    assert estimate_rank_memory(twice, small, 2).buffers == 8 * large
    twice["parallel"] |= {"contiguous_gradients": False}
    assert estimate_rank_memory(twice, small, 2).buffers == 0


def test_zero_3_keeps_half_a_billion_parameters_whole() -> None:
    def gathered(parameters: int, unit: int | None, ranks: int = 2) -> int | None:
        return estimate_rank_memory(zero(3), ModelSize(parameters, unit, None, 1), ranks).gathered

    assert gathered(1000, None) == 4 * 1000, "all of it"
    assert gathered(1000, 10, ranks=1) == 0, "nobody shares it"
    assert gathered(7_000_000_000, None) is None
    assert gathered(7_000_000_000, 200_000_000) == 4 * 500_000_000
    assert gathered(7_000_000_000, 900_000_000) == 4 * 900_000_000


def test_a_large_model_of_ones_own_fits_where_deepspeed_shares_all(plan: Plan) -> None:
    words = ("backend=accelerate", "hosts=n[1-16]", "nodes=16", "gpus=8", "parallel=deepspeed", "parallel.zero_stage=3")
    words = (*words, "estimate.parameters=70e9", "estimate.largest_unit=900000000", "estimate.gpu_mem=80GiB")
    status, printed, said = plan(*words, "loop.precision=bf16", "--format", "json", "--", "train.py")
    assert (status, said) == (0, "")
    (size,) = json.loads(printed)
    states, bucket, in_update = 16 * 70e9 / 128, 2 * 500e6, 4 * 70e9 / 128
    assert size["memory"]["total"] == pytest.approx(states + bucket + in_update, rel=1e-6), "11.1 GiB"


def sharded(kind: Mapping[str, Any], **said: Any) -> dict[str, Any]:
    wrapped = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": [], "min_num_params": 1}
    return train(**kind, **{"offload_params": False, "reshard_after_forward": True, **wrapped, **said})


def test_fsdp_divides_all_by_its_ranks_and_hsdp_by_its_shards() -> None:
    n, low = SEVEN_B.parameters, 200_000_000
    for kind, shares in ({"kind": "fsdp"}, 64), ({"kind": "hsdp", "shards": 8}, 8):
        found = estimate_rank_memory(sharded(kind), SEVEN_B, 64)
        assert (found.weights, found.gradients, found.optimizer) == (4 * n // shares, 4 * n // shares, 8 * n // shares)
        assert found.gathered == 2 * 4 * low
        accumulated = {**sharded(kind), "batch": {"micro": 1, "accumulation": 2}}
        assert estimate_rank_memory(accumulated, SEVEN_B, 64).gradients == 4 * n, "exchanged once, so whole until then"
        assert (
            estimate_rank_memory(sharded(kind, offload_params=True), SEVEN_B, 64).host
            == 3 * found.weights + found.gradients
        )


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ({}, 2 * 200_000_000),
        ({"reshard_after_forward": False}, 7_000_000_000),
        ({"auto_wrap_policy": "NO_WRAP"}, 7_000_000_000),
        ({"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 8_000_000_000}, 7_000_000_000),
        ({"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 100_000_000}, 2 * 200_000_000),
        ({"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}, 2 * 200_000_000),
    ],
)
def test_the_keys_of_fsdp_say_what_is_whole(said: dict[str, Any], whole: int) -> None:
    for precision, low in ("fp32", 4), ("bf16", 2):
        train = {**sharded({"kind": "fsdp"}, **said), "loop": {"precision": precision}}
        assert estimate_rank_memory(train, SEVEN_B, 8).gathered == low * whole
        assert estimate_rank_memory(train, ModelSize(300_000_000, 200_000_000, None, 1), 8).gathered == low * min(
            whole, 300_000_000
        )


def test_classes_that_a_built_in_model_may_not_have_leave_what_is_gathered_open(plan: Plan) -> None:
    words = ("task=gpt2_124m", "parallel=fsdp", "loop.compile=blocks", "procs=2")
    assert "total" in plan(*words)[1] and "total" in plan(*words, "parallel.auto_wrap_policy=NO_WRAP")[1]
    printed = plan(*words, "parallel.transformer_layer_cls_to_wrap=[Attention]")[1]
    assert "without largest_unit" in printed and "give or take" not in printed


def test_what_is_offloaded_lies_with_the_cpu() -> None:
    there, here = estimate_rank_memory(zero(2), SEVEN_B, 8), estimate_rank_memory(zero(2, "cpu"), SEVEN_B, 8)
    assert here.optimizer == here.gradients == 0
    assert here.host == there.optimizer + there.gradients
