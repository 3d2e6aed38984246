"""Seasons in the data: the lags at which series resemble themselves."""

from __future__ import annotations

import numpy as np

from tsformer.data.panel import Panel
from tsformer.evaluation.arrays import forward_fill

# A season is believed that the rows have seen so often ...
MIN_CYCLES = 10
# ... and that is the usual one, seven of them (a week of hours), or among the lags with the highest autocorrelation.
N_PEAKS = 3
# Series that are looked at, and steps of each.
MAX_SERIES, MAX_STEPS = 100, 2**15
# A lag is a strong season when series resemble themselves there so much, and so much more than at a lag before it.
STRONG, RISE = 0.4, 0.5
# Multiples of a season are about as strong as it is: within this, the shortest counts.
TIE = 0.05
# Lags within this share of a season are the season.
WIDTH = 0.25
# A strong season has been seen so often, and is no longer than this: a year of days.
MIN_STRONG_CYCLES, MAX_SEASON = 3, 366


def some_series(panel: Panel) -> list[np.ndarray]:
    """Return the values of some channels of some series, evenly spaced, missing ones filled."""
    numbers = np.unique(np.linspace(0, panel.n_series * panel.n_channels - 1, MAX_SERIES).astype(np.int64))
    found = []
    for series, channel in zip(*np.divmod(numbers, panel.n_channels), strict=True):
        values = panel.values[panel.indptr[series] : panel.indptr[series + 1], channel]
        if not np.isnan(values).all():
            found.append(forward_fill(values[None, :, None], np.zeros(1))[0, :, 0])
    return found


def candidate_periods(series: list[np.ndarray], usual: int, longest: int) -> list[int]:
    """Return seasons worth trying, in steps: 1 (the last value), and those of which there are ``MIN_CYCLES``.

    Parameters
    ----------
    series
        Training values of some series, without missing values.
    usual
        Season of the frequency.
    longest
        Of what fits the context.
    """
    longest = min(longest, _median_length(series) // MIN_CYCLES)
    correlation = _autocorrelation(series, longest)
    peaks = sorted(_peaks(correlation), key=lambda lag: -correlation[lag])[:N_PEAKS]
    periods = {1, usual, 7 * usual, *peaks}
    return sorted(period for period in periods if period == 1 or period <= longest)


def strong_seasons(series: list[np.ndarray]) -> list[int]:
    """Return the lags at which series resemble themselves far more than at shorter ones, the strongest first.

    Parameters
    ----------
    series
        Values of some series, without missing values.

    Returns
    -------
    list of int
        Steps; a season and not its multiples, unless they are stronger.
    """
    correlation = _autocorrelation(series, min(_median_length(series) // MIN_STRONG_CYCLES, MAX_SEASON))
    lowest = np.minimum.accumulate(correlation)
    strong = [lag for lag in _peaks(correlation) if correlation[lag] >= max(STRONG, lowest[lag] + RISE)]
    found: list[int] = []
    while strong:
        highest = max(correlation[lag] for lag in strong)
        best = next(lag for lag in strong if correlation[lag] == highest)
        parts = [lag for lag in strong if lag <= (1 - WIDTH) * best and correlation[lag] >= highest - TIE]
        season = min((lag for lag in parts if _is_multiple(best, lag)), default=best)
        found.append(int(season))
        strong = [lag for lag in strong if not _is_multiple(lag, season)]
    return found


def _is_multiple(lag: int, season: int) -> bool:
    """Return whether a lag is about a whole number of seasons."""
    return abs(lag - round(lag / season) * season) <= WIDTH * season and lag >= season * (1 - WIDTH)


def _median_length(series: list[np.ndarray]) -> int:
    return int(np.median([len(values) for values in series])) if series else 0


def _autocorrelation(series: list[np.ndarray], longest: int) -> np.ndarray:
    """Return the mean autocorrelation at lags 0 to ``longest`` + 1; zeros where no series is long enough."""
    total, n = np.zeros(longest + 2), 0
    for values in series:
        values = values[-MAX_STEPS:] - values[-MAX_STEPS:].mean()
        if len(values) < 2 * len(total) or not values.any():
            continue
        values = np.ldexp(values, -np.frexp(np.abs(values).max())[1])  # squares stay finite, digits as they are
        spectrum = np.abs(np.fft.rfft(values, 2 * len(values))) ** 2
        correlation = np.fft.irfft(spectrum)[: len(total)] / (len(values) - np.arange(len(total)))
        total += correlation / correlation[0]
        n += 1
    return total / max(n, 1)


def _peaks(correlation: np.ndarray) -> np.ndarray:
    """Return the lags above 1 that are highest among their neighbours, and positive."""
    inner = correlation[1:-1]
    is_peak = (inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > 0)
    lags = np.flatnonzero(is_peak) + 1
    return lags[lags > 1]
