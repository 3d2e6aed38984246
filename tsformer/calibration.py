"""Intervals that hold: conformal calibration on validation windows, pure arithmetic on arrays.

Errors are in units of the *scale* of their window (the deviation of its context), so that quiet and wild windows share
one calibration. Letters: B windows, H horizon steps, C channels, K coverages, Q quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsformer.config import quantile_pairs
from tsformer.metrics import divide

# Coverages in percent that split conformal keeps margins of; others lie between them.
COVERAGES = tuple(float(coverage) for coverage in range(1, 100))
# Scores that a step should have of its own; with fewer it borrows those of its neighbours. 400 place the end of an
# 80 % interval within 2 points of coverage.
ENOUGH_SCORES = 400
# With fewer than these over all steps, channels are calibrated together: a 95 % interval needs 19 at least.
FEW_SCORES = 40


@dataclass(frozen=True)
class ConformalCalibration:
    """Margins that give intervals their coverage, for each horizon step and channel.

    For point forecasts the interval is ``forecast ± margin * scale`` (`interval`): split conformal prediction (Vovk et
    al. 2005; Lei et al. 2018) on scaled errors. For quantile forecasts, each central interval is widened (or narrowed)
    by ``margin * scale`` on both sides (`adjust`): conformalised quantile regression (Romano et al. 2019).

    A margin is the ``ceil((n + 1) * coverage)``-th smallest of n validation errors, which covers a new window of the
    same kind with at least that probability. Steps with few errors share those of their neighbours.

    Parameters
    ----------
    levels
        (K,) coverages in percent, increasing.
    margins
        (K, H, C) in units of the scale; infinite where there are too few errors for so wide an interval.

    Examples
    --------
    >>> import numpy as np
    >>> residuals = np.random.default_rng(0).normal(size=(1000, 1, 1))
    >>> calibration = ConformalCalibration.fit(residuals)
    >>> low, high = calibration.interval(np.array([[[10.0]]]), scale=2.0, level=95)
    >>> [round(float(end), 1) for end in (low[0, 0, 0], high[0, 0, 0])]
    [6.2, 13.8]
    """

    levels: tuple[float, ...]
    margins: np.ndarray

    @classmethod
    def fit(cls, residuals: np.ndarray, levels: Sequence[float] = COVERAGES) -> ConformalCalibration:
        """Calibrate the intervals of a point forecast.

        Parameters
        ----------
        residuals
            (B, H, C) truth minus forecast, divided by the scale of the window; what is not finite (truth missing,
            scale 0) is left out.
        levels
            Coverages in percent to keep margins of.

        Raises
        ------
        ValueError
            When nothing is finite.
        """
        ordered = tuple(sorted(float(level) for level in levels))
        return cls(ordered, _margins(np.abs(residuals), ordered))

    @classmethod
    def fit_quantiles(
        cls,
        truth: np.ndarray,
        quantiles: np.ndarray,
        quantile_levels: Sequence[float],
        scale: np.ndarray | float = 1.0,
    ) -> ConformalCalibration:
        """Calibrate the central intervals of a quantile forecast.

        Parameters
        ----------
        truth
            (B, H, C) target units, NaN where missing.
        quantiles
            (B, H, C, Q) forecasts, target units.
        quantile_levels
            (Q,) their levels in (0, 1), increasing. Each pair q, 1 - q is an interval of coverage 1 - 2 q.
        scale
            Of each window, broadcast to (B, H, C), target units; windows of scale 0 are left out.

        Raises
        ------
        ValueError
            When there is no pair, or nothing to calibrate on.
        """
        pairs = _pairs(quantile_levels)
        scale = np.broadcast_to(scale, truth.shape)
        margins = []
        for level, (low, high) in pairs.items():
            outside = np.maximum(quantiles[..., low] - truth, truth - quantiles[..., high])  # below 0: inside
            margins.append(_margins(divide(outside, scale), (level,)))
        return cls(tuple(pairs), np.concatenate(margins))

    @property
    def widest(self) -> float:
        """Largest coverage in percent that the validation errors support at every step; 0 when none."""
        usable = np.isfinite(self.margins).all(axis=(1, 2))
        return max((level for level, is_usable in zip(self.levels, usable, strict=True) if is_usable), default=0.0)

    def interval(self, forecast: np.ndarray, scale: np.ndarray | float, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval around a point forecast.

        Parameters
        ----------
        forecast
            (B, H, C) target units. Steps beyond the calibrated horizon take the margins of its last step.
        scale
            Of each window, broadcast to (B, H, C), target units.
        level
            Coverage in percent; between two calibrated ones the margin is interpolated.

        Returns
        -------
        low, high
            (B, H, C) each, target units. An interval of higher coverage contains one of lower coverage.

        Raises
        ------
        ValueError
            When the validation errors are too few for so wide an interval.
        """
        reach = self._margin(level, forecast.shape[1]) * scale  # (B, H, C)
        return forecast - reach, forecast + reach

    def quantile(self, forecast: np.ndarray, scale: np.ndarray | float, q: float) -> np.ndarray:
        """Return quantile q of a point forecast (B, H, C): the end of a central interval; of 0.5 the forecast."""
        coverage = round(abs(200 * q - 100), 6)
        if not coverage:
            return forecast
        low, high = self.interval(forecast, scale, coverage)
        return low if q < 0.5 else high

    def adjust(self, quantiles: np.ndarray, quantile_levels: Sequence[float], scale: np.ndarray | float) -> np.ndarray:
        """Return quantile forecasts whose central intervals are calibrated.

        Parameters
        ----------
        quantiles
            (B, H, C, Q) target units.
        quantile_levels
            (Q,) their levels in (0, 1), increasing, as in `fit_quantiles`.
        scale
            Of each window, broadcast to (B, H, C), target units.

        Returns
        -------
        np.ndarray
            (B, H, C, Q) target units, increasing over Q, so that intervals are nested. The median stays, and so does
            a pair that the validation errors are too few for.
        """
        adjusted = quantiles.astype(np.float64)
        scale = np.broadcast_to(scale, quantiles.shape[:-1])
        place = {level: number for number, level in enumerate(self.levels)}
        steps = np.minimum(np.arange(quantiles.shape[1]), self.margins.shape[1] - 1)
        for level, (low, high) in _pairs(quantile_levels).items():
            if level not in place:
                raise ValueError(f"the {level:g} % interval was not calibrated: the levels are {self.levels}")
            margin = self.margins[place[level]][steps]  # (H, C)
            reach = np.where(np.isfinite(margin), margin, 0.0) * scale
            adjusted[..., low] -= reach
            adjusted[..., high] += reach
        # Outwards from the middle: no end of an interval inside a narrower one, and the median where it was.
        n_below = int(np.searchsorted(quantile_levels, 0.5))
        adjusted[..., n_below:] = np.maximum.accumulate(adjusted[..., n_below:], axis=-1)
        downwards = adjusted[..., n_below::-1]
        adjusted[..., n_below::-1] = np.minimum.accumulate(downwards, axis=-1)
        return adjusted

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a file keeps: ``levels`` (K,) and ``margins`` (K, H, C)."""
        return {"levels": np.array(self.levels), "margins": self.margins}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> ConformalCalibration:
        """Return the calibration that `to_arrays` wrote."""
        return cls(tuple(float(level) for level in arrays["levels"]), np.asarray(arrays["margins"]))

    def _margin(self, level: float, horizon: int) -> np.ndarray:
        """Return the margins (H, C) of one coverage."""
        if not 0 < level < 100:
            raise ValueError(f"level is a coverage in percent, such as 80 or 95, got {level!r}")
        if level > self.widest:
            raise ValueError(
                f"a {level:g} % interval needs more validation errors than there are: the widest is {self.widest:g} %. "
                f"Raise validation_size, or ask for a lower level"
            )
        steps = np.minimum(np.arange(horizon), self.margins.shape[1] - 1)
        levels = (0.0, *self.levels)  # an interval of coverage 0 has no width
        margins = [np.zeros_like(self.margins[0]), *self.margins]
        above = int(np.searchsorted(levels, level))
        share = (level - levels[above - 1]) / (levels[above] - levels[above - 1])
        if share == 1:  # also where the next narrower one is not known
            return margins[above][steps]
        return ((1 - share) * margins[above - 1] + share * margins[above])[steps]


def _pairs(quantile_levels: Sequence[float]) -> dict[float, tuple[int, int]]:
    """Return the pairs of `quantile_pairs`, one at least."""
    pairs = quantile_pairs(quantile_levels)
    if not pairs:
        raise ValueError(f"no two of the quantiles {tuple(quantile_levels)} are the ends of a central interval")
    return pairs


def _margins(scores: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return the margin of each level, (K, H, C), from scores (B, H, C); what is not finite is left out."""
    scores = np.where(np.isfinite(scores), scores, np.nan)
    n_steps, n_channels = scores.shape[1:]
    n_known = np.count_nonzero(~np.isnan(scores), axis=(0, 1))  # (C,)
    if not n_known.any():
        raise ValueError("nothing to calibrate on: no validation window has an observed truth and a scale above 0")
    margins = _margins_by_step(scores, levels)
    is_few = n_known < FEW_SCORES
    if is_few.any() and n_channels > 1:
        together = scores.transpose(0, 2, 1).reshape(-1, n_steps, 1)
        margins[..., is_few] = _margins_by_step(together, levels)
    return margins


def _margins_by_step(scores: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return margins (K, H, C): of the scores of each step, and of as many neighbours as it needs for enough."""
    n_steps, n_channels = scores.shape[1:]
    count = np.count_nonzero(~np.isnan(scores), axis=0)  # (H, C)
    # Scores in the steps before each: of the channel that has the fewest, those with hardly any aside.
    until = np.concatenate([[0], np.cumsum(count[:, count.sum(0) >= FEW_SCORES].min(axis=1, initial=len(scores)))])
    margins = np.empty((len(levels), n_steps, n_channels))
    radius = np.arange(n_steps)
    for step in range(n_steps):
        begin, end = np.maximum(step - radius, 0), np.minimum(step + radius + 1, n_steps)
        has_enough = until[end] - until[begin] >= ENOUGH_SCORES
        chosen = int(has_enough.argmax()) if has_enough.any() else -1
        near = scores[:, begin[chosen] : end[chosen]].reshape(-1, n_channels)
        margins[:, step] = _conformal_quantiles(near, np.array(levels) / 100)
    return margins


def _conformal_quantiles(scores: np.ndarray, coverages: np.ndarray) -> np.ndarray:
    """Return the ``ceil((n + 1) * coverage)``-th smallest (K, C) of scores (B, C); infinite beyond the n-th."""
    ordered = np.sort(scores, axis=0)  # NaN at the end
    n = np.count_nonzero(~np.isnan(ordered), axis=0)
    rank = np.ceil(np.round(coverages[:, None] * (n + 1), 9)).astype(np.int64)  # (K, C)
    picked = np.take_along_axis(ordered, np.clip(rank, 1, len(ordered)) - 1, axis=0)
    return np.where(rank <= n, picked, np.inf)
