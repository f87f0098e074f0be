"""The one place that knows which models there are."""

from torch import nn

from ..config import GptConfig, MlpConfig
from ..data.source import Source
from ..errors import BrokenInput
from ..instantiate import instantiate
from ..target import Target
from .gpt import Gpt
from .mlp import Mlp


def build_model(config: GptConfig | MlpConfig | Target, source: Source) -> nn.Module:
    """A freshly initialised model on the CPU; draws from torch's global random state."""
    if isinstance(config, Target):
        model = instantiate(config, "model")
        if not isinstance(model, nn.Module):
            raise BrokenInput(f"model: {config.name} gave no torch.nn.Module, but {type(model).__name__}")
        return model
    if isinstance(config, GptConfig):
        return Gpt(config, vocabulary=source.num_classes)
    return Mlp(config, source.num_inputs, source.num_classes)
