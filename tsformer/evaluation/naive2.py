"""`Naive2`, the benchmark forecast of the M4 competition.

Letters: B windows, T rows of a history, H horizon steps, C channels, m season.
"""

from __future__ import annotations

import numpy as np

from tsformer.data.panel import Panel
from tsformer.evaluation.arrays import forward_fill, rows_at
from tsformer.evaluation.baselines import SeasonalNaive

# Two-sided, 90 %.
NORMAL_QUANTILE = 1.645


class Naive2(SeasonalNaive):
    """The last value, repeated, with the season taken out before and put back after where there is one.

    As the M4 competition defines it (Makridakis, Spiliotis and Assimakopoulos 2020; ``Benchmarks and Evaluation.R``):
    the season is multiplicative, by classical decomposition, and taken out where the autocorrelation at its lag passes
    a 90 % test. Each forecast is made from the whole history before it. A history with a value of 0 or below has no
    multiplicative season and is left as it is.

    Parameters
    ----------
    prediction_length
        Steps to forecast.
    season_length
        m, steps; None: the usual one of the frequency.
    freq, id_col, time_col, target_cols
        How to read frames, as in `TransformerForecaster`.

    Attributes
    ----------
    season_length_
        The season in use, steps.

    Examples
    --------
    >>> import numpy as np
    >>> sales = np.tile([1.0, 2.0, 3.0, 2.0], 10)
    >>> Naive2(prediction_length=4, season_length=4).fit(sales).predict().iloc[:, 0].round(3).tolist()
    [1.0, 2.0, 3.0, 2.0]
    """

    def _learn(self, panel: Panel) -> None:
        super()._learn(panel)
        self.look_back_ = int(panel.lengths.max())

    def forecast_windows(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> np.ndarray:
        """Forecast windows of a panel from all rows before their cut-offs: see `SeasonalNaive.forecast_windows`."""
        forecast = np.empty((len(series), horizon, panel.n_channels))
        for i, cutoff in enumerate(cutoffs):  # one by one: their histories differ in length
            history = rows_at(panel, series[i : i + 1], np.zeros(1, dtype=np.int64), max(int(cutoff), 1))
            forecast[i : i + 1] = self._forecast(forward_fill(history, self.empty_), horizon)
        return forecast

    def _forecast(self, context: np.ndarray, horizon: int) -> np.ndarray:
        forecast = np.empty((len(context), horizon, context.shape[2]))
        for i, window in enumerate(context):
            for c, history in enumerate(window.T):
                season = seasonal_factors(history, self.season_length_)
                phase = (len(history) + np.arange(horizon)) % self.season_length_
                forecast[i, :, c] = history[-1] / season[(len(history) - 1) % self.season_length_] * season[phase]
        return forecast


def seasonal_factors(history: np.ndarray, season_length: int) -> np.ndarray:
    """Return the multiplicative season of a history, all 1 where there is none that counts.

    Parameters
    ----------
    history
        (T,) without missing values.
    season_length
        m, steps.

    Returns
    -------
    np.ndarray
        (m,) factors with mean 1, the first of them that of the first value.
    """
    if history.min() <= 0 or not has_season(history, season_length):
        return np.ones(season_length)
    weights = np.full(season_length + 1 - season_length % 2, 1 / season_length)
    if season_length % 2 == 0:
        weights[[0, -1]] /= 2
    half = len(weights) // 2
    ratio = history[half:-half] / np.convolve(history, weights, mode="valid")
    phase = np.arange(half, half + len(ratio)) % season_length
    factors = np.bincount(phase, ratio, season_length) / np.bincount(phase, minlength=season_length)
    return factors / factors.mean()


def has_season(history: np.ndarray, season_length: int) -> bool:
    """Return whether the autocorrelation at lag m passes the 90 % test of M4, with three seasons or more."""
    if season_length <= 1 or len(history) < 3 * season_length:
        return False
    centred = history - history.mean()
    power = centred @ centred
    if power == 0:
        return False
    correlation = np.array([centred[lag:] @ centred[:-lag] for lag in range(1, season_length + 1)]) / power
    # Bartlett: the variance of the last one if those before it are not zero.
    limit = NORMAL_QUANTILE * np.sqrt((1 + 2 * np.square(correlation[:-1]).sum()) / len(history))
    return bool(abs(correlation[-1]) > limit)
