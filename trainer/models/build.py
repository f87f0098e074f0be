"""Build the model that the config selects. This is the only module that lists the models."""

from typing import Protocol

from torch import nn

from ..config.instantiate import instantiate_target
from ..config.schema import GptConfig, MlpConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from .gpt import Gpt
from .mlp import Mlp


class ModelDataSizes(Protocol):
    """The data sizes that a model needs; data.source.DataSource provides them."""

    @property
    def num_inputs(self) -> int: ...

    @property
    def num_classes(self) -> int: ...


def build_model(config: GptConfig | MlpConfig | Target, sizes: ModelDataSizes) -> nn.Module:
    """Return a newly initialized model on the CPU. Uses torch's global random generator.

    Raises BrokenInput if config._target_ does not return a torch.nn.Module.
    """
    if isinstance(config, Target):
        model = instantiate_target(config, "model")
        if not isinstance(model, nn.Module):
            raise BrokenInput(f"model: {config.name} must return a torch.nn.Module, not {type(model).__name__}")
        return model
    if isinstance(config, GptConfig):
        return Gpt(config, vocabulary=sizes.num_classes)
    return Mlp(config, sizes.num_inputs, sizes.num_classes)
