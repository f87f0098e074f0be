"""The figures of `jobc plan` for a built-in model are correct: its parameters, and what autograd keeps of a sample."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jobc.compiler.estimate.memory import ACTIVATION_ERROR, estimate_rank_memory, optimizer_bytes_per_parameter
from jobc.compiler.estimate.parameters import BYTES, DIGITS, PIXELS, gathered_parameters, model_size_from_train_json
from jobc.trainer.config.parse import to_json_types
from jobc.trainer.config.schema import FsdpConfig, GptConfig, MlpConfig
from jobc.trainer.models.gpt import Attention, Gpt
from jobc.trainer.models.mlp import Mlp
from jobc.trainer.parallel.fsdp import modules_to_shard
from jobc.trainer.recipe.loss import autocast_context
from jobc.trainer.recipe.recipe import cross_entropy


def kept(model: nn.Module, inputs: Tensor, targets: Tensor, precision: str) -> int:
    """Return the bytes of all tensors that a forward pass keeps for the backward pass, except weights and their 16-bit
    copies.
    """
    shapes = {parameter.shape for parameter in model.parameters()} | {
        p.mT.shape for p in model.parameters() if p.ndim == 2
    }
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, int] = {}
    alive = []

    def pack(tensor: Tensor) -> Tensor:
        place, is_copy = tensor.untyped_storage().data_ptr(), tensor.dtype == torch.bfloat16 and tensor.shape in shapes
        if place not in weights and not is_copy:
            found[place] = tensor.untyped_storage().nbytes()
            alive.append(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, autocast_context(inputs.device, precision):  # type: ignore[arg-type]
        cross_entropy(model(inputs), targets)
    return sum(found.values())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "config", [GptConfig("gpt", 4, 4, 128, 64, 0.0), GptConfig("gpt", 2, 6, 192, 128, 0.0)], ids=["tiny", "wider"]
)
def test_a_gpt_has_and_keeps_what_is_said(config: GptConfig, precision: str) -> None:
    model = Gpt(config, BYTES)
    train = {
        "model": to_json_types(config),
        "data": {"kind": "stdlib_bytes"},
        "loop": {"precision": precision, "activation_checkpointing": 0},
    }
    said = model_size_from_train_json(train)
    assert said is not None
    assert said.parameters == sum(parameter.numel() for parameter in model.parameters())
    tokens = torch.randint(0, BYTES, (3, config.context))
    found = kept(model, tokens, tokens, precision) / 3
    assert said.saved_per_sample == pytest.approx(found, rel=ACTIVATION_ERROR / 5)


class DropoutOfGpus(nn.Module):
    """CUDA's operator keeps a mask with one byte per number; the CPU's keeps the mask's numbers."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        dropped: Tensor = torch.native_dropout(x, self.p, True)[0]
        return dropped


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_masks_of_dropout_are_counted(precision: str) -> None:
    found, said = [], []
    for dropout in (0.0, 0.3):
        config = GptConfig("gpt", 4, 4, 128, 64, dropout)
        model = Gpt(config, BYTES)
        for module in model.modules():
            if isinstance(module, Attention):
                module.dropout = 0.0  # its kernels of GPUs keep the seed alone
            for name, child in module.named_children():
                if dropout and isinstance(child, nn.Dropout):
                    setattr(module, name, DropoutOfGpus(dropout))
        loop = {"precision": precision, "activation_checkpointing": 0}
        size = model_size_from_train_json(
            {"model": to_json_types(config), "data": {"kind": "stdlib_bytes"}, "loop": loop}
        )
        assert size is not None and size.saved_per_sample is not None
        tokens = torch.randint(0, BYTES, (3, config.context))
        found.append(kept(model, tokens, tokens, precision) / 3)
        said.append(size.saved_per_sample)
    assert said[1] - said[0] == found[1] - found[0] == (2 * 4 + 1) * 128 * 64


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("AdamW", {"amsgrad": True}),
        ("NAdam", {}), ("RAdam", {}), ("Adamax", {}),
    ],
)  # fmt: skip
def test_an_optimizer_of_torch_keeps_what_is_said(name: str, arguments: dict[str, Any]) -> None:
    weight = nn.Parameter(torch.zeros(100))
    optimizer = getattr(torch.optim, name)([weight], lr=0.1, **arguments)
    weight.grad = torch.ones(100)
    optimizer.step()
    numbers = [value for value in optimizer.state[weight].values() if isinstance(value, Tensor) and value.numel() > 1]
    assert optimizer_bytes_per_parameter({"_target_": f"torch.optim.{name}", **arguments}) == 4 * len(numbers)
    assert optimizer_bytes_per_parameter({"_target_": "torch.optim.LBFGS"}) is None


def test_a_classifier_has_and_keeps_what_is_said() -> None:
    config = MlpConfig("mlp", 64, 2)
    model = Mlp(config, PIXELS, DIGITS)
    said = model_size_from_train_json(
        {"model": to_json_types(config), "data": {"kind": "digits"}, "loop": {"precision": "fp32"}}
    )
    assert said is not None
    assert said.parameters == sum(parameter.numel() for parameter in model.parameters())
    found = kept(model, torch.rand(32, PIXELS), torch.randint(0, DIGITS, (32,)), "fp32") / 32
    assert said.saved_per_sample == pytest.approx(found, rel=ACTIVATION_ERROR)


SMALL_GPT, SMALL_MLP = GptConfig("gpt", 3, 4, 64, 32, 0.0), MlpConfig("mlp", 96, 3)


@pytest.mark.parametrize("model", [SMALL_GPT, SMALL_MLP], ids=["gpt", "mlp"])
@pytest.mark.parametrize(
    ("policy", "least"),
    [
        ("TRANSFORMER_BASED_WRAP", 0), ("NO_WRAP", 0),
        *(("SIZE_BASED_WRAP", least) for least in (1, 5000, 10_000, 30_000, 100_000, 10**8)),
    ],
)  # fmt: skip
def test_what_fsdp_has_whole_is_what_the_trainer_wraps(model: GptConfig | MlpConfig, policy: Any, least: int) -> None:
    sharding = FsdpConfig("fsdp", True, policy, (), least, False, "FULL_STATE_DICT", True)
    data = {"kind": "stdlib_bytes" if model.kind == "gpt" else "digits"}
    size = model_size_from_train_json(
        {"model": to_json_types(model), "data": data, "loop": {"precision": "fp32", "activation_checkpointing": 0}}
    )
    made = Gpt(model, BYTES) if isinstance(model, GptConfig) else Mlp(model, PIXELS, DIGITS)
    taken: set[nn.Parameter] = set()
    units = []
    for part in modules_to_shard(made, sharding):  # inner ones first
        own = set(part.parameters()) - taken
        units.append(sum(parameter.numel() for parameter in own))
        taken |= own
    assert size is not None
    rest = size.parameters - sum(units)
    assert gathered_parameters(to_json_types(sharding), size) == min(2 * max(units, default=0) + rest, size.parameters)
    kept = FsdpConfig("fsdp", False, policy, (), least, False, "FULL_STATE_DICT", True)
    assert gathered_parameters(to_json_types(kept), size) == size.parameters


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_states_are_those_of_accelerates_estimator(precision: str) -> None:
    """`accelerate estimate-memory`, accelerate 1.15.0 (commands/estimate.py). It takes models of the hub, so its own
    functions are asked: their parts add up to ours. Its column for training is the largest part, `step`: with fp32
    all of it, 16 n; with bf16 the optimizer alone, 8 n of 18 n. Neither counts activations there.
    """
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    config = GptConfig("gpt", 12, 12, 768, 1024, 0.0)
    with torch.device("meta"):
        model = Gpt(config, 50257)
    theirs, (largest, _) = calculate_maximum_sizes(model)
    parts = estimate_training_usage(theirs, {"fp32": "float32", "bf16": "bfloat16"}[precision])
    train = {
        "model": to_json_types(config),
        "data": {"kind": "random_tokens", "vocabulary": 50257},
        "loop": {"precision": precision, "activation_checkpointing": 0},
        "parallel": {"kind": "ddp"},
        "batch": {"micro": 1, "accumulation": 1},
        "optim": {"kind": "adamw"},
    }
    size = model_size_from_train_json(train)
    assert size is not None and size.largest_unit is not None
    ours = estimate_rank_memory(train, size, 1)
    assert 4 * size.parameters == theirs
    assert 4 * size.largest_unit == pytest.approx(largest, rel=0.03), "its largest layer; ours has the places as well"
    assert (ours.weights, ours.optimizer) == (parts["model"], parts["optimizer"])
    assert ours.gradients + ours.buffers == parts["gradients"], "there the copies of 16 bits count as gradients"
    assert ours.states == parts["model"] + parts["optimizer"] + parts["gradients"]
    assert parts["step"] / ours.states == pytest.approx({"fp32": 1, "bf16": 8 / 18}[precision])
