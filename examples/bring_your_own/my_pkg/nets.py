"""A model: any torch.nn.Module. Shapes: B waves, P points, K kinds."""

from torch import Tensor, nn


class Net(nn.Module):
    """Classifier: waves_BP -> logits_BK. A resume restores the state of its BatchNorm and dropout."""

    def __init__(self, width: int, points: int = 32, kinds: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(points, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, kinds),
        )

    def forward(self, waves_BP: Tensor) -> Tensor:
        logits_BK: Tensor = self.layers(waves_BP)
        return logits_BK
