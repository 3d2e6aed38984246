"""The encoder: self-attention over the patches of the context."""

from __future__ import annotations

import torch
from torch import nn

from tsformer.config import Activation, ModelConfig
from tsformer.nn.attention import MultiHeadAttention, Rotation
from tsformer.nn.dropout import Dropout


class FeedForward(nn.Sequential):
    """Two linear maps around an activation, the same for every token."""

    def __init__(self, d_model: int, dim_feedforward: int, dropout: float, activation: Activation) -> None:
        act: nn.Module = nn.GELU() if activation == "gelu" else nn.ReLU()
        super().__init__(
            nn.Linear(d_model, dim_feedforward), act, Dropout(dropout), nn.Linear(dim_feedforward, d_model)
        )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with a residual and a norm before it (pre-norm) or after it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.norm_first = config.norm_first
        self.attention = MultiHeadAttention(d, config.nhead, config.attention_dropout)
        self.feed_forward = FeedForward(d, config.dim_feedforward, config.dropout, config.activation)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: torch.Tensor, rotation: Rotation, key_mask: torch.Tensor | None) -> torch.Tensor:
        """(R, P, D) to (R, P, D)."""
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), rotation, key_mask=key_mask))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, rotation, key_mask=key_mask)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class Encoder(nn.Module):
    """A stack of encoder layers; pre-norm stacks end in a norm of their own."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def forward(self, x: torch.Tensor, rotation: Rotation, key_mask: torch.Tensor | None) -> torch.Tensor:
        """(R, P, D) to (R, P, D)."""
        for layer in self.layers:
            x = layer(x, rotation, key_mask)
        return self.norm(x)
