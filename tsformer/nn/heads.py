"""Heads: a decoder state to a forecast of one patch. A head owns projection, loss and forecast."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import nn

from tsformer.config import ModelConfig
from tsformer.losses import elementwise_loss, pinball
from tsformer.nn.distributions import HEADS, DistributionHead


class PointHead(nn.Module):
    """One value for each step and channel of the patch."""

    levels: tuple[float, ...] = ()
    is_distribution = False

    def __init__(self, d_model: int, width: int, loss: str | Callable[..., Any]) -> None:
        super().__init__()
        self.projection = nn.Linear(d_model, width)
        self._loss = elementwise_loss(loss)

    def forward(
        self, x: torch.Tensor, unit: torch.Tensor | None = None, base: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(R, P, D) to (R, P, W), scaled; ``base`` (R, P, W) is what the forecast starts from."""
        output = self.projection(x)
        return output if base is None else output + base

    def reset(self) -> None:
        """Make the forecast 0 whatever the state."""
        nn.init.zeros_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Return what the decoder is fed with: the forecast itself."""
        return output

    def loss(self, output: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Error of each element of ``target`` in units of ``weight``, same shape."""
        return self._loss(output * weight, target * weight)


class QuantileHead(nn.Module):
    """Quantiles that cannot cross: the median, and positive gaps outwards from it.

    The rollout feeds back the median. Sampling goes along the quantiles, linear in the normal score between them and
    beyond the outer two.
    """

    is_distribution = False
    counts = False
    level_tensor: torch.Tensor
    level_scores: torch.Tensor
    copula: torch.Tensor

    def __init__(self, d_model: int, width: int, levels: tuple[float, ...]) -> None:
        super().__init__()
        self.levels = levels
        self.median = levels.index(0.5)
        self.projection = nn.Linear(d_model, width * len(levels))
        scores = [NormalDist().inv_cdf(level) for level in levels]
        self.register_buffer("level_tensor", torch.tensor(levels), persistent=False)
        self.register_buffer("level_scores", torch.tensor(scores), persistent=False)
        self.register_buffer("copula", torch.eye(width))

    def forward(
        self, x: torch.Tensor, unit: torch.Tensor | None = None, base: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(R, P, D) to (R, P, W, Q), scaled, increasing along Q; ``base`` (R, P, W) is what they start from."""
        raw = self.projection(x).unflatten(-1, (-1, len(self.levels)))
        m = self.median
        median = raw[..., m : m + 1]
        gaps = nn.functional.softplus(raw) / len(self.levels)
        above = median + gaps[..., m + 1 :].cumsum(-1)
        below = median - gaps[..., :m].flip(-1).cumsum(-1).flip(-1)
        output = torch.cat([below, median, above], -1)
        return output if base is None else output + base.unsqueeze(-1)

    def reset(self) -> None:
        """Make the median 0 whatever the state."""
        for parameter in (self.projection.weight, self.projection.bias):
            parameter.unflatten(0, (-1, len(self.levels)))[:, self.median].zero_()

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Return what the decoder is fed with: the median, (..., Q) to (...)."""
        return output[..., self.median]

    def loss(self, output: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Mean pinball loss of each element of ``target`` in units of ``weight``, same shape."""
        return pinball(output * weight.unsqueeze(-1), target * weight, self.level_tensor.to(output.dtype))

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z`` (...), broadcast against ``output`` (..., Q)."""
        knots = self.level_scores.to(output.dtype)
        above = torch.searchsorted(knots, z.contiguous()).clamp(1, len(knots) - 1)
        values = output.expand(*z.shape, -1)
        low, high = (values.gather(-1, i.unsqueeze(-1)).squeeze(-1) for i in (above - 1, above))
        return low + (high - low) * (z - knots[above - 1]) / (knots[above] - knots[above - 1])

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target`` (...), the inverse of `sample`."""
        knots = self.level_scores.to(output.dtype)
        above = (target.unsqueeze(-1) > output).sum(-1).clamp(1, len(knots) - 1)
        low, high = (output.gather(-1, i.unsqueeze(-1)).squeeze(-1) for i in (above - 1, above))
        share = (target - low) / (high - low).clamp(min=torch.finfo(output.dtype).tiny)
        return knots[above - 1] + share * (knots[above] - knots[above - 1])


Head = PointHead | QuantileHead | DistributionHead


def build_head(config: ModelConfig, loss: str | Callable[..., Any]) -> Head:
    """Return the head that the configuration asks for."""
    width = config.patch_length * config.n_channels
    if config.distribution is not None:
        return HEADS[config.distribution](config.d_model, width)
    if config.quantiles:
        return QuantileHead(config.d_model, width, config.quantiles)
    return PointHead(config.d_model, width, loss)
