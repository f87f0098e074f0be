"""A multilayer perceptron for classification. Shapes: B batch, P inputs, K classes."""

from itertools import pairwise

from torch import Tensor, nn

from ..config.schema import MlpConfig


class Mlp(nn.Module):
    """inputs_BP float32 -> logits_BK."""

    def __init__(self, config: MlpConfig, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        widths = [num_inputs] + [config.hidden] * config.layers
        hidden = [part for i, o in pairwise(widths) for part in (nn.Linear(i, o), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(widths[-1], num_classes))

    @property
    def blocks(self) -> list[nn.Module]:
        """Return the layers, each of which is sharded, compiled and recomputed as a unit."""
        return [part for part in self.layers if isinstance(part, nn.Linear)]

    def forward(self, inputs_BP: Tensor) -> Tensor:
        logits_BK: Tensor = self.layers(inputs_BP)
        return logits_BK
