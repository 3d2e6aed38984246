"""The network blended with closed-form forecasts: a convex combination with weights from the validation rows.

Averages of forecasts that err in different ways are hard to beat (Bates and Granger 1969). Where a season is exact, or
a series is a random walk, the closed forms take over, and the forecast is never much worse than theirs.

Letters: B windows, R rows (one window of one channel each), L context steps, H horizon steps, C channels, K forecasts
blended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tsformer.batch import Batch
from tsformer.experts import Experts
from tsformer.nn.decoding import forecast
from tsformer.nn.linear_path import fill_gaps
from tsformer.nn.model import ForecastTransformer


@dataclass(frozen=True)
class Blend:
    """What the network and each closed form weigh.

    Parameters
    ----------
    weights
        (K,) at least 0, of sum 1: of the network, then in the order of the closed forms.
    experts
        The K - 1 closed forms.
    """

    weights: np.ndarray
    experts: Experts

    @property
    def shares(self) -> dict[str, float]:
        """How much of the forecast is whose; of sum 1."""
        network, *linear, seasonal = self.weights.tolist()
        return {"network": network, "linear": sum(linear), "seasonal": seasonal}

    def forecast(
        self, network: ForecastTransformer, batch: Batch, horizon: int, given: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Forecast as `nn.decoding.forecast` does, by all forecasts together.

        Parameters
        ----------
        network
            In evaluation mode, with a point or quantile head; the quantiles of a step move with their median.
        batch, horizon
            The windows, and H.
        given
            (B, H, C) target units: values to go on from, NaN where the model decides. Each forecast is fed with its own
            plus what the given values differ from the blend, so that the blend goes through them, and stays what it is
            when they are its own.

        Returns
        -------
        torch.Tensor
            (B, H, C) or (B, H, C, Q), target units. Where all forecasts are the same, so is the blend, to the last
            digit.
        """
        plain, effect = without_effect(network, batch)
        context = contexts_of(plain, network)
        values = forecast(network, batch, horizon)
        experts = [expert + effect for expert in self.experts.forecast(context, horizon)]
        blended = values + self._shift(values, experts, network)
        if given is None:
            return blended
        surprise = given - point_of(blended, network)  # (B, H, C)
        values = forecast(network, batch, horizon, point_of(values, network) + surprise)
        moved = [expert + effect for expert in self.experts.forecast(context, horizon, rows_of(surprise))]
        return values + self._shift(values, moved, network)

    def _shift(self, values: torch.Tensor, experts: list[np.ndarray], network: ForecastTransformer) -> torch.Tensor:
        """Return what takes the forecast of the network to the blend, (B, H, C) or (B, H, C, 1)."""
        point = point_of(values, network)
        ours = rows_of(point)  # (R, H)
        shift = sum(weight * (expert - ours) for weight, expert in zip(self.weights[1:], experts, strict=True))
        n_windows, horizon, n_channels = point.shape
        moved = torch.from_numpy(shift).view(n_windows, n_channels, horizon).transpose(1, 2).to(values.device)
        return moved if values.ndim == 3 else moved.unsqueeze(-1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a file keeps."""
        return {"weights": self.weights} | self.experts.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Blend:
        """Return the blend that `to_arrays` wrote."""
        return cls(arrays["weights"], Experts.from_arrays(arrays))


def without_effect(network: ForecastTransformer, batch: Batch) -> tuple[Batch, np.ndarray | float]:
    """Return windows less the effect of known covariates, which closed forms do not see, and that on targets (R, H)."""
    with torch.inference_mode():
        plain, effect = network.without_effect(batch)
    if effect is None:
        return batch, 0.0
    if batch.target.shape[1]:
        plain = plain._replace(target=torch.where(batch.target_mask, batch.target - effect, 0.0))
    return plain, rows_of(effect)


def contexts_of(batch: Batch, network: ForecastTransformer) -> np.ndarray:
    """Return contexts (R, L), missing values filled; those without any with the mean of the series."""
    if batch.is_context_complete:
        return rows_of(batch.context)
    values = torch.where(batch.context_mask, batch.context, batch.series_mean.unsqueeze(1))
    filled = fill_gaps(values.transpose(1, 2), batch.context_mask.transpose(1, 2), network.config.season_length)
    return filled.flatten(0, 1).cpu().numpy()


def point_of(values: torch.Tensor, network: ForecastTransformer) -> torch.Tensor:
    """Return the point forecast (B, H, C) of what the network forecasts: the median of quantiles."""
    return values[..., network.head.levels.index(0.5)] if network.head.levels else values


def weights_of(batch: Batch) -> torch.Tensor:
    """Return what an error at each target step counts, (B, H, C): 0 where it is missing."""
    counts = batch.target_mask.to(batch.target.dtype)
    return counts if batch.weight is None else counts * batch.weight


def rows_of(values: torch.Tensor) -> np.ndarray:
    """Return (B, H, C) as (R, H)."""
    return values.transpose(1, 2).flatten(0, 1).cpu().numpy()
