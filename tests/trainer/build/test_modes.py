"""Train and eval mode of a model and its modules: as the user made them, before and after a validation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jobc.trainer.build.build import build
from jobc.trainer.config import train_json
from jobc.trainer.dist import env
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.loop.validation import Validator

pytestmark = pytest.mark.usefixtures("settings_of_torch")


class Frozen(nn.Sequential):
    """A model of which one module is frozen by eval()."""

    def __init__(self) -> None:
        super().__init__(nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10))
        self[0].eval()


class InEvalMode(Frozen):
    def __init__(self) -> None:
        super().__init__()
        self.eval()


@pytest.mark.parametrize(("model", "modes"), [(Frozen, [False, True, True]), (InEvalMode, [True, True, True])])
def test_a_validation_gives_every_module_its_mode_back(
    model: type[nn.Module], modes: list[bool], digits: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    tree = digits({"model": {"_target_": f"{__name__}.{model.__name__}"}})
    values = env.parse_environment({"JOBC_RUN_DIR": str(tmp_path)})
    training = build(train_json.parse_train_config(tree), values, RankGroup(0, 1, torch.device("cpu")))
    made: Any = training.parallel.evaluated.model
    assert [module.training for module in made] == modes, "in the first step"
    before = made[0].running_mean.clone()
    assert Validator(training).validate() is not None
    assert [module.training for module in made] == modes, "in the step after a validation"
    assert torch.equal(made[0].running_mean, before)
