"""Scores of forecasts: pure arithmetic on arrays, observed truth only.

Letters: B windows, H steps, C channels, N series, T rows. A missing truth (NaN) is skipped; a missing
*forecast* where the truth is observed makes the score NaN, so that it cannot pass unseen.
"""

from __future__ import annotations

import math

import numpy as np


def mae(truth: np.ndarray, forecast: np.ndarray) -> float:
    """Mean absolute error, in the unit of the arguments; NaN when no truth is observed."""
    return _observed_mean(np.abs(truth - forecast), truth)


def mse(truth: np.ndarray, forecast: np.ndarray) -> float:
    """Mean squared error, in the squared unit of the arguments; NaN when no truth is observed."""
    return _observed_mean(np.square(truth - forecast), truth)


def rmse(truth: np.ndarray, forecast: np.ndarray) -> float:
    """Root of the mean squared error, in the unit of the arguments; NaN when no truth is observed."""
    return math.sqrt(mse(truth, forecast))


def pinball(truth: np.ndarray, forecast: np.ndarray, level: float) -> float:
    """Mean pinball loss of a quantile forecast: ``level`` times an error from above, ``1 - level`` from below.

    Parameters
    ----------
    truth, forecast
        Arrays of one shape, in one unit.
    level
        The quantile forecast, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> pinball(np.array([10.0]), np.array([8.0]), level=0.9)
    1.8
    """
    error = truth - forecast
    return _observed_mean(np.maximum(level * error, (level - 1.0) * error), truth)


def smape(truth: np.ndarray, forecast: np.ndarray) -> float:
    """Symmetric mean absolute percentage error as in M4: mean of ``200 |y - f| / (|y| + |f|)``, 0 where both are 0.

    Examples
    --------
    >>> import numpy as np
    >>> smape(np.array([100.0, 0.0]), np.array([300.0, 0.0]))
    50.0
    """
    size = np.abs(truth) + np.abs(forecast)
    return _observed_mean(200.0 * np.abs(truth - forecast) / np.where(size == 0, 1.0, size), truth)


def _observed_mean(loss: np.ndarray, truth: np.ndarray) -> float:
    """Mean of the losses whose truth is observed."""
    observed = loss[~np.isnan(truth)]
    return float(observed.mean()) if observed.size else math.nan


def seasonal_scale(values: np.ndarray, indptr: np.ndarray, season_length: int) -> np.ndarray:
    """Mean change over one season, the unit of MASE (Hyndman and Koehler 2006): mean of ``|x[t] - x[t - m]|``.

    Parameters
    ----------
    values
        (T, C) float, target units; NaN where missing. The training rows, series after series.
    indptr
        (N + 1,) int: series ``i`` is rows ``indptr[i]:indptr[i + 1]``.
    season_length
        m, steps.

    Returns
    -------
    np.ndarray
        (N, C) float64, target units; NaN for a series without an observed pair.
    """
    n_series = len(indptr) - 1
    series = np.repeat(np.arange(n_series), np.diff(indptr))
    change = np.abs(values[season_length:] - values[:-season_length])  # (T - m, C)
    # A pair that straddles two series is no pair.
    change[series[season_length:] != series[:-season_length]] = np.nan
    total, count = _sums_by_series(change, series[season_length:], n_series)
    return divide(total, count)


def divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return the quotient, NaN (and no warning) where the denominator is 0 or NaN."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    quotient = np.full(shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=np.asarray(denominator) > 0)
    return quotient


def mean_or_nan(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Return the mean of the numbers that are not NaN, NaN (and no warning) when there are none."""
    known = ~np.isnan(values)
    return divide(np.where(known, values, 0.0).sum(axis), known.sum(axis))


def as_json(value: float | np.ndarray) -> float | None:
    """Return a score as JSON knows it: None (null) for one that is not defined."""
    number = float(value)
    return number if math.isfinite(number) else None


class ErrorSums:
    """Pooled errors of many windows, summed batch by batch: nothing else is kept.

    Parameters
    ----------
    n_series, n_channels
        N and C: each has its own sums.
    """

    def __init__(self, n_series: int, n_channels: int) -> None:
        self.absolute = np.zeros((n_series, n_channels))
        self.squared = np.zeros((n_series, n_channels))
        self.count = np.zeros((n_series, n_channels))

    def add(self, series: np.ndarray, truth: np.ndarray, forecast: np.ndarray) -> None:
        """Add windows: ``series`` (B,), ``truth`` and ``forecast`` (B, H, C), NaN where the truth is missing."""
        if truth.shape != forecast.shape:
            raise ValueError(f"truth has shape {truth.shape}, the forecast {forecast.shape}: they must be the same")
        error = truth - forecast
        observed = ~np.isnan(truth)
        error[~observed] = 0.0
        n_series = len(self.count)
        self.absolute += _sum_windows(np.abs(error).sum(1), series, n_series)
        self.squared += _sum_windows(np.square(error).sum(1), series, n_series)
        self.count += _sum_windows(observed.sum(1), series, n_series)

    @property
    def mae(self) -> np.ndarray:
        """(N, C) mean absolute error, target units; NaN where nothing was observed."""
        return divide(self.absolute, self.count)

    @property
    def rmse(self) -> np.ndarray:
        """(N, C) root mean squared error, target units; NaN where nothing was observed."""
        return np.sqrt(divide(self.squared, self.count))

    def standardised(self, deviation: np.ndarray) -> dict[str, float | None]:
        """Return MSE and MAE in units of ``deviation`` (N, C), a plain mean over windows, steps and channels."""
        known = deviation > 0
        total = self.count[known].sum()
        squared = (self.squared[known] / np.square(deviation[known])).sum()
        absolute = (self.absolute[known] / deviation[known]).sum()
        return {"mse": as_json(divide(squared, total)), "mae": as_json(divide(absolute, total))}

    def by_target(
        self, targets: tuple[str, ...], deviation: np.ndarray, season_scale: np.ndarray
    ) -> dict[str, dict[str, float | None]]:
        """Return MAE, RMSE and MASE of each target, and their ``"mean"``.

        Parameters
        ----------
        targets
            The C channels' names.
        deviation
            (N, C) population deviation of the training rows, target units: the unit of ``"mean"``.
        season_scale
            (N, C) mean change over one season in the training rows, target units: the unit of MASE.

        Returns
        -------
        dict
            ``{target: {"mae", "rmse", "mase"}}``: MAE and RMSE in the target's unit over all windows, steps and
            series; MASE by series, then their mean. ``"mean"``: every error of every series in its unit of
            scale, the mean over series, then over targets, each with equal weight. A series or target whose
            scale is 0 is left out of a mean; None when nothing is left.
        """
        if "mean" in targets:
            raise ValueError("a target cannot be called 'mean', the name of the mean over targets: rename that column")
        pooled_mae = divide(self.absolute.sum(0), self.count.sum(0))  # (C,)
        pooled_rmse = np.sqrt(divide(self.squared.sum(0), self.count.sum(0)))
        mase = mean_or_nan(divide(self.mae, season_scale), axis=0)
        scores: dict[str, dict[str, float | None]] = {
            target: {"mae": as_json(pooled_mae[c]), "rmse": as_json(pooled_rmse[c]), "mase": as_json(mase[c])}
            for c, target in enumerate(targets)
        }
        scores["mean"] = {
            "mae": as_json(scaled_mean(self.mae, deviation)),
            "rmse": as_json(scaled_mean(self.rmse, deviation)),
            "mase": as_json(mean_or_nan(mase)),
        }
        return scores


def scaled_mean(error: np.ndarray, scale: np.ndarray) -> float:
    """Return the mean over channels of the mean over series of ``error / scale``, both (N, C); NaN without a scale."""
    return float(mean_or_nan(mean_or_nan(divide(error, scale), axis=0)))


def _sums_by_series(values: np.ndarray, series: np.ndarray, n_series: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum and count, (N, C) each, of the values (T, C) that are not NaN."""
    observed = ~np.isnan(values)
    total = _sum_windows(np.where(observed, values, 0.0), series, n_series)
    return total, _sum_windows(observed, series, n_series)


def _sum_windows(values: np.ndarray, series: np.ndarray, n_series: int) -> np.ndarray:
    """Sum rows (B, C) by their series (B,) into (N, C)."""
    n_channels = values.shape[1]
    cell = series[:, None] * n_channels + np.arange(n_channels)
    return np.bincount(cell.ravel(), weights=values.ravel(), minlength=n_series * n_channels).reshape(n_series, -1)
