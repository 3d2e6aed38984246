"""Instance scaling: each window in units of its own location and spread, and back."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from tsformer.batch import Batch
from tsformer.config import Scaling

# A context flatter than this share of the series' own deviation is scaled by the latter, so that a quiet
# stretch does not blow its noise up to the size of the signal.
FLOOR = 0.01
# Under "mean_abs" the quiet stretch is one of zeros, as counts have them: demand that comes back should not stand a
# hundred units high.
FLOOR_OF_SIZE = 0.1


class Scale(NamedTuple):
    """Location and scale of each window and channel, in target units; (B, 1, C) float64."""

    loc: torch.Tensor
    scale: torch.Tensor

    def normalise(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Target units to scaled; 0 where ``mask`` is False or the scale is 0."""
        usable = mask & (self.scale > 0)
        return torch.where(usable, (values - self.loc) / torch.where(self.scale > 0, self.scale, 1.0), 0.0)

    def restore(self, scaled: torch.Tensor) -> torch.Tensor:
        """Scaled (B, T, C) to target units, float64; a scale of 0 gives the location exactly."""
        return scaled.to(self.loc.dtype) * self.scale + self.loc


class InstanceScaler(nn.Module):
    """Location and scale from the observed context alone (Kim et al. 2022, without the affine part).

    ``scale = sqrt(variance of the context + (0.01 x the series' training deviation)^2)``; the location is

    - ``"standard"``: the mean of the context,
    - ``"last_season"``: the mean of its last ``season_length`` steps,
    - ``"last_value"``: its last observed value,
    - ``"none"``: 0, with scale 1;
    - ``"mean_abs"``: 0, with ``scale = sqrt(mean of |x| ^2 + (0.1 x the series' training deviation)^2)``, the mean
      scaling of DeepAR (Salinas et al. 2020) for values that are positive.

    A context without any observed value takes mean and deviation of the series' training rows.
    So ``f(a x + b) = a f(x) + b`` for every a > 0, except under ``"none"``, and under ``"mean_abs"`` with b = 0.
    """

    def __init__(self, scaling: Scaling | None, season_length: int) -> None:
        super().__init__()
        self.scaling = scaling
        self.season_length = season_length

    def forward(self, batch: Batch) -> Scale:
        """Return the windows' scale: loc and scale (B, 1, C), float64, target units."""
        x, mask = batch.context, batch.context_mask  # (B, L, C)
        if self.scaling == "none":
            zero = torch.zeros_like(x[:, :1])
            return Scale(zero, zero + 1.0)
        if self.scaling == "mean_abs":
            size = _masked_mean(x.abs(), mask, batch.series_mean.abs().unsqueeze(1))  # (B, 1, C)
            floor = FLOOR_OF_SIZE * batch.series_deviation.unsqueeze(1)
            return Scale(torch.zeros_like(size), (size.square() + floor.square()).sqrt())
        count = mask.sum(1, keepdim=True)  # (B, 1, C)
        seen = count > 0
        mean = _masked_mean(x, mask, batch.series_mean.unsqueeze(1))  # (B, 1, C)
        variance = torch.where(mask, (x - mean).square(), 0.0).sum(1, keepdim=True) / count.clamp(min=1)
        deviation = batch.series_deviation.unsqueeze(1)
        scale = torch.where(seen, (variance + (FLOOR * deviation).square()).sqrt(), deviation)
        return Scale(self._location(x, mask, mean), scale)

    def _location(self, x: torch.Tensor, mask: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """Centre of the window, (B, 1, C)."""
        if self.scaling == "standard":
            return mean
        if self.scaling == "last_season":
            season = slice(-self.season_length, None)
            return _masked_mean(x[:, season], mask[:, season], mean)
        last = mask.cumsum(1).argmax(1, keepdim=True)  # the first place where the count is complete
        return torch.where(mask.any(1, keepdim=True), x.gather(1, last), mean)


def _masked_mean(x: torch.Tensor, mask: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Mean over the steps that were observed, (B, 1, C); ``otherwise`` where none was."""
    count = mask.sum(1, keepdim=True)
    # Around the first observed value, so that a constant comes out exactly and large levels lose no digits.
    base = x.gather(1, mask.to(torch.uint8).argmax(1, keepdim=True))
    mean = base + torch.where(mask, x - base, 0.0).sum(1, keepdim=True) / count.clamp(min=1)
    return torch.where(count > 0, mean, otherwise)
