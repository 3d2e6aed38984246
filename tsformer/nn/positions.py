"""Where a token stands: positions in patches on one absolute time, and the calendar."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn

from tsformer.config import ModelConfig

# Wavelengths from 2 pi to 2 pi x 1000 patches. The 10,000 of language models would leave most pairs of features
# standing still over the tens of patches of a look-back.
ROTARY_BASE = 1000.0
SINUSOIDAL_BASE = 10000.0


class Positions(NamedTuple):
    """What tells a run of T tokens apart: a term added to them, or an angle that turns queries and keys."""

    added: torch.Tensor | None = None
    """(T, D) or (R, T, D): added to the embedded tokens."""
    rotation: tuple[torch.Tensor, torch.Tensor] | None = None
    """For `rotate`: cosines and signed sines, each (T, head features)."""

    def tokens(self, begin: int, end: int) -> Positions:
        """Return the positions of tokens begin..end - 1."""
        added = None if self.added is None else self.added[..., begin:end, :]
        rotation = None if self.rotation is None else (self.rotation[0][begin:end], self.rotation[1][begin:end])
        return Positions(added, rotation)

    def paths(self, rows: int) -> Positions:
        """Repeat what belongs to a row for each of its sample paths, which are ``rows`` in all."""
        if self.added is None or self.added.ndim == 2 or len(self.added) == rows:
            return self
        return self._replace(added=self.added.repeat_interleave(rows // len(self.added), 0))


class PositionalEncoding(nn.Module):
    """Positions of encoder and decoder tokens on one axis.

    Token 0 is the oldest patch of the context. The decoder's first token holds the last observed patch, so
    it stands where the encoder's last token stands; decoder token i holds the patch i steps later.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.positional_encoding
        self.d_model = config.d_model
        self.head_features = config.d_model // config.nhead
        if self.kind == "learned":
            n = config.n_context_patches - 1 + config.max_decoder_patches
            self.table = nn.Parameter(torch.empty(n, config.d_model).normal_(std=0.02))

    def forward(self, n: int, like: torch.Tensor) -> Positions:
        """Return the positions of the first ``n`` tokens, in the dtype and on the device of ``like``."""
        if self.kind == "none":
            return Positions()
        if self.kind == "learned":
            if n > len(self.table):
                raise ValueError(
                    f"positional_encoding='learned' has {len(self.table)} positions and the forecast needs {n}: "
                    f"ask for a shorter horizon, or train with positional_encoding='rotary', which has no last one"
                )
            return Positions(added=self.table[:n])
        position = torch.arange(n, dtype=torch.float64, device=like.device)
        if self.kind == "sinusoidal":
            angle = _angles(position, self.d_model, SINUSOIDAL_BASE)  # (n, D / 2)
            return Positions(added=torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(like.dtype))
        angle = _angles(position, self.head_features, ROTARY_BASE)  # (n, head features / 2)
        cosine, sine = angle.cos().to(like.dtype), angle.sin().to(like.dtype)
        return Positions(rotation=(torch.cat([cosine, cosine], -1), torch.cat([-sine, sine], -1)))


def _angles(position: torch.Tensor, features: int, base: float) -> torch.Tensor:
    """Angle of each position at geometrically spaced frequencies, (T, features / 2)."""
    exponent = torch.arange(0, features, 2, dtype=position.dtype, device=position.device) / features
    return position[:, None] * torch.exp(-math.log(base) * exponent)


def rotate(x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor] | None) -> torch.Tensor:
    """Turn pairs of features by their token's angle (Su et al. 2021); x (R, heads, T, head features).

    A feature's partner lies half of them away: (a, b) becomes (a cos - b sin, b cos + a sin).
    """
    if rotation is None:
        return x
    cosine, sine = rotation  # (T, head features)
    return torch.addcmul(x * cosine, x.roll(x.shape[-1] // 2, -1), sine)


class CalendarEmbedding(nn.Module):
    """Learned vectors for hour, weekday, month ...: their sum tells a token its place in the calendar."""

    def __init__(self, sizes: tuple[int, ...], d_model: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, d_model) for size in sizes)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.02)

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        """(B, P, F) calendar fields to (B, P, D)."""
        parts = [table(fields[..., i]) for i, table in enumerate(self.tables)]
        return torch.stack(parts).sum(0)
