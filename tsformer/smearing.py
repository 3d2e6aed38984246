"""Means in target units of a network that works in others: smearing over its errors.

The mean of a nonlinear map is not the map of the mean: the exponential of a mean logarithm is too low. Duan (1983)
averages instead the images of the forecast plus each of its past errors. Errors are in units of each series' training
deviation, as in the loss, so that all series share them.

Letters: B windows, H horizon steps, C channels, K errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tsformer.batch import Batch
from tsformer.blend import Blend
from tsformer.data.windows import Windows
from tsformer.nn.decoding import forecast
from tsformer.nn.model import ForecastTransformer
from tsformer.nn.scaling import Scale

# Errors kept: evenly spaced quantiles of all there are.
N_ERRORS = 200
# Steps with fewer errors than this share those of all steps.
ENOUGH_ERRORS = 100


def past_errors(
    network: ForecastTransformer, windows: Windows, batch_size: int, blend: Blend | None = None, limit: int = 1000
) -> np.ndarray:
    """Return the distribution of the errors of forecasts.

    Parameters
    ----------
    network
        In evaluation mode.
    windows
        With their targets; at most ``limit``, evenly spaced, are forecast.
    batch_size
        Windows forecast at a time.
    blend
        What the forecasts of the network are blended with.

    Returns
    -------
    np.ndarray
        (K, H, C), or (K, 1, C) where steps share them: quantiles of truth minus forecast, the mean taken off
        (but of a blend with compressed values, whose closed forms do not see them compressed).
    """
    numbers = np.unique(np.linspace(0, len(windows) - 1, limit).astype(np.int64))
    parts = []
    for chunk in np.array_split(numbers, -(-len(numbers) // batch_size)):
        batch = windows.batch(chunk)
        scale = network.scaler(batch)
        decode = forecast if blend is None else blend.forecast
        values = decode(network, batch, windows.horizon)
        error = _scaled(scale, batch.target) - _scaled(scale, values)
        parts.append(torch.where(batch.target_mask, error / _unit(scale, batch), torch.nan).numpy())
    errors = np.concatenate(parts)  # (B, H, C)
    n_channels = errors.shape[2]
    if np.count_nonzero(~np.isnan(errors), axis=0).min() < ENOUGH_ERRORS:
        errors = errors.reshape(-1, 1, n_channels)
    empty = np.isnan(errors).all(axis=0)
    errors[:, empty] = 0.0  # a channel that is missing in all of these windows
    levels = (np.arange(N_ERRORS) + 0.5) / N_ERRORS
    if blend is None or not scale.compressed:  # else closed forms are means already, before the values are compressed
        errors -= np.nanmean(errors, axis=0)
    return np.nanquantile(errors, levels, axis=0)


def smeared_mean(
    values: torch.Tensor, batch: Batch, scale: Scale, errors: np.ndarray, inverse: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the mean of forecasts in target units.

    Parameters
    ----------
    values
        (B, H, C) forecasts in the units that ``scale`` restores.
    batch, scale
        The windows, and their scale.
    errors
        As `past_errors` returns; steps beyond theirs take those of the last.
    inverse
        To target units.

    Returns
    -------
    np.ndarray
        (B, H, C) float64.
    """
    steps = np.minimum(np.arange(values.shape[1]), errors.shape[1] - 1)
    centre, unit = _scaled(scale, values), _unit(scale, batch)
    total = np.zeros(values.shape)
    for error in torch.from_numpy(errors).to(values.device):  # (1 or H, C)
        total += inverse(scale.restore(centre + error[steps] * unit).cpu().numpy()) / len(errors)
    return total


def _unit(scale: Scale, batch: Batch) -> torch.Tensor:
    """Return what a series' deviation is in scaled units, (B, 1, C); 1 where it has none, and of compressed ones."""
    deviation = batch.series_deviation.unsqueeze(1)
    usable = (deviation > 0) & (scale.scale > 0) & (not scale.compressed)
    return torch.where(usable, deviation / torch.where(usable, scale.scale, 1.0), 1.0)


def _scaled(scale: Scale, values: torch.Tensor) -> torch.Tensor:
    """Return values without gaps in scaled units."""
    return scale.normalise(values, torch.ones_like(values, dtype=torch.bool))
