"""Forecasts in closed form that stand beside the network: an autoregressive linear map, and the last season.

All of them shift and scale with the data, and see the context that the network sees.

Letters: R rows (one window of one channel each), L context steps, P steps of a patch, H horizon steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Candidates of the penalty: on the scale of the data's variance, and the power of the lag it grows with. A long lag has
# to earn its weight where the second is not 0.
PENALTIES = tuple(10.0**power for power in range(-5, 1))
LAG_POWERS = (0, 2)
# A season is believed that the training rows have seen so often ...
MIN_CYCLES = 10
# ... and that is the usual one, seven of them (a week of hours), or among the lags with the highest autocorrelation.
N_PEAKS = 3
# Rows that the autocorrelation is measured on, and steps of each.
MAX_SERIES, MAX_STEPS = 100, 2**15


def moments(rows: Iterator[tuple[np.ndarray, np.ndarray]], n_steps: int) -> np.ndarray:
    """Return the weighted mean of products of all steps, (L + P, L + P), of chunks of rows.

    Parameters
    ----------
    rows
        Pairs (R, L + P) around the last value of the context, and (R,) weights.
    n_steps
        L + P.

    Returns
    -------
    np.ndarray
        Zeros when there is no row.
    """
    total, count = np.zeros((n_steps, n_steps)), 0.0
    for x, weight in rows:
        total += (x * weight[:, None]).T @ x
        count += weight.sum()
    return total / count if count else total


def linear_maps(products: np.ndarray, patch_length: int) -> Iterator[list[np.ndarray]]:
    """Return maps from context to next patch by ridge regression, for each centring those of all penalties.

    The centre of a window, the mean of all of it or of its last patch, is taken off before and added after; both are
    linear, so that each map is one matrix whose columns sum to 1.

    Parameters
    ----------
    products
        (L + P, L + P) moments of context and patch, around whatever level.
    patch_length
        P.

    Yields
    ------
    list of np.ndarray
        (L, P): ``patch = context @ weights``.
    """
    length = len(products) - patch_length
    xx, xy = products[:length, :length], products[:length, length:]
    lag = np.arange(length, 0, -1) / patch_length
    for n_centre in (length, patch_length):
        centre = np.where(np.arange(length) >= length - n_centre, 1 / n_centre, 0.0)  # (L,)
        off = np.eye(length) - centre[:, None]  # x @ off is the window around its centre
        centred = off.T @ xx @ off
        target = off.T @ (xy - (xx @ centre)[:, None])
        solved = [
            np.linalg.solve(centred + np.diag(penalty * lag**power), target)
            for power in LAG_POWERS
            for penalty in PENALTIES
        ]
        yield [off @ weights + centre[:, None] for weights in solved]


def linear_forecast(
    context: np.ndarray, weights: np.ndarray, horizon: int, given: np.ndarray | None = None
) -> np.ndarray:
    """Roll a linear map out: each patch is made from the steps before it, its own among them.

    Parameters
    ----------
    context
        (R, L) without missing values.
    weights
        (L, P), as `linear_maps` returns.
    horizon
        H.
    given
        (R, H) values to go on from, NaN where the map decides; None: everywhere.

    Returns
    -------
    np.ndarray
        (R, H). No further from the last value than the spread of the context, plus as much every L steps: enough for
        any trend that the context has, too little for an unstable map to run away.
    """
    length, patch_length = weights.shape
    last = context[:, -1:]
    n_patches = -(-horizon // patch_length)
    path = np.empty((len(context), length + n_patches * patch_length))
    path[:, :length] = context - last
    spread = np.ptp(path[:, :length], axis=1, keepdims=True)
    forced = np.full((len(context), n_patches * patch_length), np.nan) if given is not None else None
    if forced is not None:
        forced[:, :horizon] = given - last
        spread = np.fmax(spread, np.fmax.reduce(np.abs(forced), axis=1, keepdims=True))
    for begin in range(0, n_patches * patch_length, patch_length):
        steps = np.arange(begin, begin + patch_length)
        reach = spread * (1 + (steps + 1) / length)
        patch = np.clip(path[:, begin : begin + length] @ weights, -reach, reach)
        if forced is not None:
            patch = np.where(np.isnan(forced[:, steps]), patch, forced[:, steps])
        path[:, length + steps] = patch
    return last + path[:, length : length + horizon]


def seasonal_forecast(context: np.ndarray, period: int, horizon: int, given: np.ndarray | None = None) -> np.ndarray:
    """Repeat the last ``period`` steps of contexts (R, L); as in `linear_forecast`, going on from ``given`` values."""
    path = np.concatenate([context[:, -period:], np.empty((len(context), horizon))], axis=1)
    for begin in range(0, horizon, period):
        block = slice(begin, min(begin + period, horizon))
        season = path[:, block]
        path[:, block.start + period : block.stop + period] = (
            season if given is None else np.where(np.isnan(given[:, block]), season, given[:, block])
        )
    return path[:, period:]


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
    n_rows = int(np.median([len(values) for values in series])) if series else 0
    longest = min(longest, n_rows // MIN_CYCLES)
    periods = {1, usual, 7 * usual, *_peaks(series, longest)}
    return sorted(period for period in periods if period == 1 or period <= longest)


def _peaks(series: list[np.ndarray], longest: int) -> list[int]:
    """Return the lags whose autocorrelation is highest among their neighbours, (``N_PEAKS``,) at most."""
    total = np.zeros(longest + 2)
    for values in series:
        values = values[-MAX_STEPS:] - values[-MAX_STEPS:].mean()
        if len(values) < 2 * len(total) or not values.any():
            continue
        spectrum = np.abs(np.fft.rfft(values, 2 * len(values))) ** 2
        correlation = np.fft.irfft(spectrum)[: len(total)]
        total += correlation / correlation[0]
    inner = total[1:-1]
    is_peak = (inner > total[:-2]) & (inner >= total[2:]) & (inner > 0)
    lags = np.flatnonzero(is_peak) + 1
    return sorted(lags[lags > 1], key=lambda lag: -total[lag])[:N_PEAKS]
