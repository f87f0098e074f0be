"""Choose how ranks share one model: DDP, FSDP or DeepSpeed."""

from torch import nn

from ..config.schema import DdpConfig, DeepspeedConfig, TrainConfig
from ..dist.env import RankEnvironment
from ..dist.process_group import RankGroup
from ..recipe.recipe import Recipe
from .interface import Parallel


def parallelize(
    model: nn.Module, recipe: Recipe, config: TrainConfig, env: RankEnvironment, group: RankGroup
) -> Parallel:
    """Wrap `model` (on the CPU) and its optimizer for config.parallel. Imports only the selected kind."""
    if isinstance(config.parallel, DdpConfig):
        from .ddp import Ddp

        return Ddp(model, recipe, config, config.parallel, group)
    if isinstance(config.parallel, DeepspeedConfig):
        from .zero import Zero

        return Zero(model, recipe, config, config.parallel, env, group)
    from .fsdp import Fsdp

    return Fsdp(model, recipe, config, config.parallel, group)
