"""1,797 images of handwritten digits, 8 x 8 pixels, shipped in digits.b85 (origin and license: NOTICE.txt).

Shapes: N images, B batch, 64 pixels. A sample is one image; its target is the digit.
"""

import base64
import hashlib
import zlib
from importlib.resources import files

import torch
from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass
from ..config.schema import DigitsConfig
from .source import DataSource

NUM_IMAGES, NUM_PIXELS, BRIGHTEST = 1797, 64, 16


@dataclass(frozen=True)
class DigitImages:
    """Split of the digit images. pixels_NP: float32, 0 to 1; labels_N: int64, 0 to 9"""

    pixels_NP: Tensor
    labels_N: Tensor

    def __len__(self) -> int:
        return len(self.labels_N)

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        return self.pixels_NP[indices_B], self.labels_N[indices_B]


def open_source(config: DigitsConfig) -> DataSource:
    """Return both splits. Held-out images are chosen only by position, evenly spread over the file."""
    columns = zlib.decompress(base64.b85decode(files(__package__).joinpath("digits.b85").read_text().replace("\n", "")))
    rows = torch.frombuffer(bytearray(columns), dtype=torch.uint8).view(NUM_PIXELS + 1, NUM_IMAGES).T
    pixels_NP = rows[:, :NUM_PIXELS].float() / BRIGHTEST
    labels_N = rows[:, NUM_PIXELS].long()

    num_held_out = min(max(round(NUM_IMAGES * config.val_fraction), 1), NUM_IMAGES - 1)
    held_out_N = torch.zeros(NUM_IMAGES, dtype=torch.bool)
    held_out_N[torch.arange(num_held_out) * NUM_IMAGES // num_held_out] = True
    return DataSource(
        name="digits",
        train=DigitImages(pixels_NP[~held_out_N], labels_N[~held_out_N]),
        validation=DigitImages(pixels_NP[held_out_N], labels_N[held_out_N]),
        num_inputs=NUM_PIXELS,
        num_classes=10,
        tokens_per_sample=1,
        score="accuracy",
        summary=f"{NUM_IMAGES - num_held_out:,} + {num_held_out:,} held-out images",
        digest=hashlib.sha256(columns + str(num_held_out).encode()).hexdigest(),
    )
