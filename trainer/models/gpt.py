"""A small GPT: pre-norm blocks, causal attention, tied input and output embeddings.

Shapes: B batch, T context, C width, H heads, D = C / H, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config.schema import GptConfig


class Attention(nn.Module):
    """Causal self-attention. x_BTC -> x_BTC."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width, bias=False)
        self.project = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BTC: Tensor) -> Tensor:
        B, T, C = x_BTC.shape
        q_BHTD, k_BHTD, v_BHTD = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.query_key_value(x_BTC).split(C, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y_BHTD = F.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, dropout_p=dropout, is_causal=True)
        y_BTC: Tensor = self.project(y_BHTD.transpose(1, 2).reshape(B, T, C))
        return y_BTC


class FeedForward(nn.Module):
    """MLP with a hidden width of 4C. x_BTC -> x_BTC."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.width, 4 * config.width, bias=False)
        self.project = nn.Linear(4 * config.width, config.width, bias=False)

    def forward(self, x_BTC: Tensor) -> Tensor:
        y_BTC: Tensor = self.project(F.gelu(self.widen(x_BTC), approximate="tanh"))
        return y_BTC


class Block(nn.Module):
    """Attention, then feed-forward, each with a residual connection. x_BTC -> x_BTC."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, bias=False)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, bias=False)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTC: Tensor) -> Tensor:
        x_BTC = x_BTC + self.dropout(self.attention(self.attention_norm(x_BTC)))
        y_BTC: Tensor = x_BTC + self.dropout(self.feed_forward(self.feed_forward_norm(x_BTC)))
        return y_BTC


class Gpt(nn.Module):
    """tokens_BT int64, T <= context -> logits_BTV."""

    def __init__(self, config: GptConfig, vocabulary: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, config.width)
        self.place_embedding = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, bias=False)
        self._initialise_weights(config.layers)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        places_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x_BTC = self.dropout(self.token_embedding(tokens_BT) + self.place_embedding(places_T))
        for block in self.blocks:
            x_BTC = block(x_BTC)
        return F.linear(self.norm(x_BTC), self.token_embedding.weight)

    def _initialise_weights(self, layers: int) -> None:
        """Initialize as in GPT-2: normal(0, 0.02), scaled down for projections into the residual stream."""
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                scale = math.sqrt(2 * layers) if name.endswith("project.weight") else 1.0
                nn.init.normal_(parameter, std=0.02 / scale)
