"""Heads: a decoder state to a forecast of one patch. A head owns projection, loss and forecast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tsformer.config import ModelConfig
from tsformer.losses import elementwise_loss, pinball


class PointHead(nn.Module):
    """One value for each step and channel of the patch."""

    levels: tuple[float, ...] = ()

    def __init__(self, d_model: int, width: int, loss: str | Callable[..., Any]) -> None:
        super().__init__()
        self.projection = nn.Linear(d_model, width)
        self._loss = elementwise_loss(loss)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(R, P, D) to (R, P, W), scaled."""
        return self.projection(x)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Return what the decoder is fed with: the forecast itself."""
        return output

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Error of each element of ``target``, same shape."""
        return self._loss(output, target)


class QuantileHead(nn.Module):
    """Quantiles that cannot cross: the median, and positive gaps outwards from it.

    The rollout feeds back the median.
    """

    level_tensor: torch.Tensor

    def __init__(self, d_model: int, width: int, levels: tuple[float, ...]) -> None:
        super().__init__()
        self.levels = levels
        self.median = levels.index(0.5)
        self.projection = nn.Linear(d_model, width * len(levels))
        self.register_buffer("level_tensor", torch.tensor(levels), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(R, P, D) to (R, P, W, Q), scaled, increasing along Q."""
        raw = self.projection(x).unflatten(-1, (-1, len(self.levels)))
        m = self.median
        median = raw[..., m : m + 1]
        gaps = nn.functional.softplus(raw) / len(self.levels)
        above = median + gaps[..., m + 1 :].cumsum(-1)
        below = median - gaps[..., :m].flip(-1).cumsum(-1).flip(-1)
        return torch.cat([below, median, above], -1)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Return what the decoder is fed with: the median, (..., Q) to (...)."""
        return output[..., self.median]

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean pinball loss of each element of ``target``, same shape."""
        return pinball(output, target, self.level_tensor.to(output.dtype))


def build_head(config: ModelConfig, loss: str | Callable[..., Any]) -> PointHead | QuantileHead:
    """Return the head that the configuration asks for."""
    width = config.patch_length * config.n_channels
    if config.quantiles:
        return QuantileHead(config.d_model, width, config.quantiles)
    return PointHead(config.d_model, width, loss)
