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
# The interquartile range of a normal distribution, in deviations.
NORMAL_IQR = 1.349
# Under "asinh" an output this far out is 1e43 scales: a forecast stays finite, whatever the network says.
ASINH_LIMIT = 100.0
# Under "mean_abs" the quiet stretch is one of zeros, as counts have them: demand that comes back should not stand a
# hundred units high.
FLOOR_OF_SIZE = 0.1


class Scale(NamedTuple):
    """Location and scale of each window and channel, in target units; (B, 1, C) float64."""

    loc: torch.Tensor
    scale: torch.Tensor
    compressed: bool = False
    """Whether asinh of the scaled value takes its place: linear around 0, logarithmic far from it."""

    def normalise(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Target units to scaled; 0 where ``mask`` is False or the scale is 0."""
        usable = mask & (self.scale > 0)
        scaled = torch.where(usable, (values - self.loc) / torch.where(self.scale > 0, self.scale, 1.0), 0.0)
        return scaled.asinh() if self.compressed else scaled

    def restore(self, scaled: torch.Tensor) -> torch.Tensor:
        """Scaled (B, T, C) to target units, float64; a scale of 0 gives the location exactly."""
        scaled = scaled.to(self.loc.dtype)
        if self.compressed:
            scaled = scaled.clamp(-ASINH_LIMIT, ASINH_LIMIT).sinh()
        return scaled * self.scale + self.loc


class InstanceScaler(nn.Module):
    """Location and scale from the observed context alone (Kim et al. 2022, without the affine part).

    ``scale = sqrt(variance of the context + (0.01 x the series' training deviation)^2)``; the location is

    - ``"standard"``: the mean of the context,
    - ``"last_season"``: the mean of its last ``season_length`` steps,
    - ``"last_value"``: its last observed value,
    - ``"robust"``, ``"asinh"``: its median,
    - ``"none"``: 0, with scale 1;
    - ``"mean_abs"``: 0, with ``scale = sqrt(mean of |x| ^2 + (0.1 x the series' training deviation)^2)``, the mean
      scaling of DeepAR (Salinas et al. 2020) for values that are positive.

    Under ``"robust"`` and ``"asinh"`` the interquartile range / 1.349 takes the place of the context's deviation where
    it is not 0, so that a few large values do not widen the scale. ``"asinh"`` also takes asinh of the scaled values.

    A context without any observed value takes mean and deviation of the series' training rows, one with a single value
    that deviation.
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
        varies = count > 1  # one value says nothing of how far others are from it
        mean = _masked_mean(x, mask, batch.series_mean.unsqueeze(1))  # (B, 1, C)
        variance = torch.where(mask, (x - mean).square(), 0.0).sum(1, keepdim=True) / count.clamp(min=1)
        deviation = batch.series_deviation.unsqueeze(1)
        if self.scaling in ("robust", "asinh"):
            low, location, high = _masked_quantiles(x, mask, (0.25, 0.5, 0.75), mean)
            variance = torch.where(high > low, ((high - low) / NORMAL_IQR).square(), variance)
        else:
            location = self._location(x, mask, mean)
        scale = torch.where(varies, (variance + (FLOOR * deviation).square()).sqrt(), deviation)
        # The scale is a unit: no gradient, which a flat context would make infinite.
        return Scale(location, scale.detach(), compressed=self.scaling == "asinh")

    def _location(self, x: torch.Tensor, mask: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """Centre of the window, (B, 1, C)."""
        if self.scaling == "standard":
            return mean
        if self.scaling == "last_season":
            season = slice(-self.season_length, None)
            return _masked_mean(x[:, season], mask[:, season], mean)
        last = mask.cumsum(1).argmax(1, keepdim=True)  # the first place where the count is complete
        return torch.where(mask.any(1, keepdim=True), x.gather(1, last), mean)


def series_unit(batch: Batch) -> torch.Tensor:
    """Deviation of each series (B, 1, C), target units; of its context where training did not see it."""
    x, mask = batch.context, batch.context_mask
    count = mask.sum(1, keepdim=True).clamp(min=1)
    mean = _masked_mean(x, mask, torch.zeros_like(x[:, :1]))
    variance = torch.where(mask, (x - mean).square(), 0.0).sum(1, keepdim=True) / count
    deviation = batch.series_deviation.unsqueeze(1)
    return torch.where(deviation > 0, deviation, variance.sqrt())


def _masked_mean(x: torch.Tensor, mask: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Mean over the steps that were observed, (B, 1, C); ``otherwise`` where none was."""
    count = mask.sum(1, keepdim=True)
    # Around the first observed value, so that a constant comes out exactly and large levels lose no digits.
    base = x.gather(1, mask.to(torch.uint8).argmax(1, keepdim=True))
    mean = base + torch.where(mask, x - base, 0.0).sum(1, keepdim=True) / count.clamp(min=1)
    return torch.where(count > 0, mean, otherwise)


def _masked_quantiles(
    x: torch.Tensor, mask: torch.Tensor, levels: tuple[float, ...], otherwise: torch.Tensor
) -> list[torch.Tensor]:
    """Quantiles over the steps that were observed, (B, 1, C) each, linear between two; ``otherwise`` of none."""
    ordered = torch.where(mask, x, torch.inf).sort(1).values  # what is missing comes last
    last = mask.sum(1, keepdim=True) - 1  # (B, 1, C)
    quantiles = []
    for level in levels:
        place = level * last.clamp(min=0)
        below, above = (ordered.gather(1, index.long()) for index in (place.floor(), place.ceil()))
        between = below + (above - below) * place.frac()
        quantiles.append(torch.where(last >= 0, torch.where(above > below, between, below), otherwise))
    return quantiles
