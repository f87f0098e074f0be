"""An optimizer step is torch's own, with torch's clipping, whatever other factors the gradients have."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from jobc.trainer.parallel.stepper import Stepper


def with_gradients() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
    model(torch.randn(16, 8)).square().sum().backward()
    return model


def stepper_of(model: nn.Module) -> Stepper:
    return Stepper(model, torch.optim.SGD(model.parameters(), lr=1e-3), "fp32")


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("factor", [1.0, 0.25, 3.0])
@pytest.mark.parametrize("share", [0.1, 0.999, 1.001, 10.0, None])
def test_a_step_is_torchs_with_torchs_clipping(factor: float, share: float | None) -> None:
    """share: the limit, of the norm; None: there is no limit"""
    model = with_gradients()
    expected, stepper = copy.deepcopy(model), stepper_of(model)
    for mine, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert mine.grad is not None
        theirs.grad = mine.grad * factor
    norm = float(stepper.gradient_norm())
    limit = None if share is None else share * norm * factor
    nn.utils.clip_grad_norm_(expected.parameters(), limit or math.inf)
    torch.optim.SGD(expected.parameters(), lr=1e-3).step()

    update = stepper.update(1e-3, limit, norm, factor, loss=1.0)
    assert update.grad_norm == pytest.approx(norm * factor) and not update.skipped
    assert torch.allclose(weights(model), weights(expected), rtol=1e-6, atol=1e-8)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_gradients_below_the_limit_are_as_they_were() -> None:
    model = with_gradients()
    expected, stepper = copy.deepcopy(model), stepper_of(model)
    for mine, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        theirs.grad = mine.grad
    torch.optim.SGD(expected.parameters(), lr=1e-3).step()
    norm = float(stepper.gradient_norm())
    stepper.update(1e-3, 2 * norm, norm, factor=1.0, loss=1.0)
    assert torch.equal(weights(model), weights(expected))


def test_what_is_thawed_later_and_what_is_not_the_models_is_scaled_as_well() -> None:
    model, own = with_gradients(), nn.Parameter(torch.ones(3))
    thawed = next(model.parameters()).requires_grad_(False)
    gradient, thawed.grad = thawed.grad, None
    stepper = Stepper(model, torch.optim.SGD([*model.parameters(), own], lr=1.0), "fp32")
    thawed.requires_grad_(True)
    assert gradient is not None
    thawed.grad, own.grad = gradient, torch.ones(3)
    before, step = (
        weights(model).clone(),
        torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]),
    )
    stepper.update(1.0, None, float(stepper.gradient_norm()), factor=0.5, loss=1.0)
    assert torch.allclose(weights(model), before - 0.5 * step)
    assert own.tolist() == [0.5] * 3


@pytest.mark.parametrize(("norm", "loss"), [(math.inf, 1.0), (math.nan, 1.0), (1.0, math.nan), (1.0, math.inf)])
def test_what_is_not_finite_moves_no_weight(norm: float, loss: float) -> None:
    model = with_gradients()
    before, stepper = weights(model).clone(), stepper_of(model)
    assert not math.isfinite(stepper.update(1e-3, 1.0, norm, factor=1.0, loss=loss).grad_norm)
    assert torch.equal(weights(model), before)
