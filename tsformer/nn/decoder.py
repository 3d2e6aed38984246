"""The decoder: causal self-attention over decoded patches, cross-attention to the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import nn

from tsformer.config import ModelConfig
from tsformer.nn.attention import KeysValues, KVCache, MultiHeadAttention, Rotation
from tsformer.nn.dropout import Dropout
from tsformer.nn.encoder import FeedForward


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each with a residual and a norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.norm_first = config.norm_first
        self.self_attention = MultiHeadAttention(d, config.nhead, config.attention_dropout)
        self.cross_attention = MultiHeadAttention(d, config.nhead, config.attention_dropout)
        self.feed_forward = FeedForward(d, config.dim_feedforward, config.dropout, config.activation)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: torch.Tensor,
        memory: KeysValues,
        rotation: Rotation,
        key_mask: torch.Tensor | None,
        cache: KVCache | None,
    ) -> torch.Tensor:
        """(R, T, D) to (R, T, D)."""
        if self.norm_first:
            x = x + self.dropout(self.self_attention(self.norm1(x), rotation, causal=True, cache=cache))
            x = x + self.dropout(self.cross_attention.cross(self.norm2(x), memory, rotation, key_mask))
            return x + self.dropout(self.feed_forward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.self_attention(x, rotation, causal=True, cache=cache)))
        x = self.norm2(x + self.dropout(self.cross_attention.cross(x, memory, rotation, key_mask)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class Decoder(nn.Module):
    """A stack of decoder layers; pre-norm stacks end in a norm of their own."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def project_memory(self, memory: torch.Tensor, rotation: Rotation) -> list[KeysValues]:
        """Keys and values of the encoder's output for each layer."""
        layers = cast("list[DecoderLayer]", list(self.layers))
        return [layer.cross_attention.project_memory(memory, rotation) for layer in layers]

    def forward(
        self,
        x: torch.Tensor,
        memory: Sequence[KeysValues],
        rotation: Rotation,
        key_mask: torch.Tensor | None,
        caches: Sequence[KVCache] | None,
    ) -> torch.Tensor:
        """(R, T, D) to (R, T, D); with caches the tokens before these are remembered."""
        for i, layer in enumerate(self.layers):
            x = layer(x, memory[i], rotation, key_mask, None if caches is None else caches[i])
        return self.norm(x)
