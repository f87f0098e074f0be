"""Build the model that the config selects. This is the only module that lists the models."""

from torch import nn

from ..config.instantiate import instantiate_target
from ..config.schema import GptConfig, MlpConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from .gpt import Gpt
from .mlp import Mlp


def build_model(config: GptConfig | MlpConfig | Target, num_inputs: int, num_classes: int) -> nn.Module:
    """Return a newly initialized model on the CPU. Uses torch's global random generator.

    num_inputs, num_classes: sizes of the data; see data.source.DataSource.
    Raises BrokenInput if config._target_ does not return a torch.nn.Module.
    """
    if isinstance(config, Target):
        model = instantiate_target(config, "model")
        if not isinstance(model, nn.Module):
            raise BrokenInput(f"model: {config.name} must return a torch.nn.Module, not {type(model).__name__}")
        return model
    if isinstance(config, GptConfig):
        return Gpt(config, vocabulary=num_classes)
    return Mlp(config, num_inputs, num_classes)
