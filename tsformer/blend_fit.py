"""The closed forms of a blend fitted on training rows, and weighed beside the network on validation rows.

Letters: R rows (one window of one channel each), L context steps, H horizon steps, K forecasts, N values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tsformer.blend import Blend, contexts_of, point_of, rows_of, weights_of, without_effect
from tsformer.data.windows import Windows
from tsformer.evaluation.arrays import forward_fill, in_chunks
from tsformer.experts import Experts, linear_forecast, linear_maps, moments, seasonal_forecast
from tsformer.nn.decoding import forecast
from tsformer.nn.model import ForecastTransformer
from tsformer.seasonality import candidate_periods, some_series

# Rows that the linear maps are fitted on, evenly spaced: more change them by less than their noise. Of long windows
# fewer: so many products.
MAX_ROWS, MAX_PRODUCTS = 50_000, 2 * 10**10
# Weight of the network before anything was seen, which starts from the closed forms; they share the rest.
PRIOR_OF_NETWORK = 0.5
# So many windows beside each other say as much as that. Channels of a series are not counted one by one: they rise and
# fall together.
PRIOR_WINDOWS = 12
# Share of a target that must be observed for its row to count; what is missing is the last value before it.
MIN_OBSERVED = 0.5
# Products that each map may cost to be tried on validation rows.
MAX_TRIED = 5 * 10**8
# Values that the weights are fitted on.
MAX_VALUES = 2**19
# Below this mean error, in deviations, there is nothing left to weigh.
ALL_BUT_EXACT = 1e-100
# Steps of the search for the weights, and how far the first goes.
N_STEPS, FIRST_STEP = 200, 5.0


class _HeldOut(NamedTuple):
    """Rows that decide, each around the last value of its context in units of its series' training deviation."""

    context: np.ndarray
    """(R, L)."""
    target: np.ndarray
    """(R, H); 0 where it does not count."""
    weight: np.ndarray
    """(R, H) what an error counts, 0 where the target is missing."""

    def error(self, forecast: np.ndarray, is_squared: bool) -> float:
        """Weighted mean error of forecasts (R, H)."""
        error = forecast - self.target
        return float(np.average(np.square(error) if is_squared else np.abs(error), weights=self.weight))


def fit_experts(
    network: ForecastTransformer,
    training: Windows,
    whole: Windows,
    validation: Windows,
    *,
    usual_season: int,
    is_squared: bool,
    batch_size: int,
) -> Experts | None:
    """Fit the closed forms on training rows, and choose among them on validation rows.

    Parameters
    ----------
    network
        Whose effect of known covariates is taken off before.
    training, whole
        Windows of training rows alone, with targets of a patch and of the whole horizon.
    validation
        Windows whose targets lie behind them.
    usual_season
        ``season_length`` in use, steps.
    is_squared
        Whether errors count by their squares, as means want it, or by their size.
    batch_size
        Windows read at a time.

    Returns
    -------
    Experts or None
        None when no validation window has an observed target of a series that varies.
    """
    held_out, _ = _held_out(network, validation, batch_size, with_network=False)
    if not held_out.weight.any():
        return None
    length, horizon = held_out.context.shape[1], held_out.target.shape[1]
    rows = np.flatnonzero(held_out.weight.any(axis=1))
    n_rows = max(1, min(len(rows), MAX_TRIED // (length * horizon)))
    chosen = rows[np.linspace(0, len(rows) - 1, n_rows).astype(np.int64)]
    held_out = _HeldOut(*(values[chosen] for values in held_out))

    def best(windows: Windows) -> list[np.ndarray]:
        """Return the map of each centring whose penalty is best on the validation rows."""
        n_steps = length + windows.horizon
        products = moments(_training_rows(network, windows, n_steps), n_steps)
        if not products.any():
            return []
        return [
            min(maps, key=lambda map_: held_out.error(linear_forecast(held_out.context, map_, horizon), is_squared))
            for maps in linear_maps(products, windows.horizon, training.horizon)
        ]

    period = min(
        candidate_periods(some_series(training.panel), usual_season, length),
        key=lambda period: held_out.error(seasonal_forecast(held_out.context, period, horizon), is_squared),
    )
    rolled = tuple(best(training))
    # Direct maps go on from given values as their rolled twins do.
    direct = tuple(best(whole)) if rolled and horizon > training.horizon else ()
    return Experts(rolled, direct, period)


def fit_blend(
    network: ForecastTransformer, experts: Experts, validation: Windows, *, is_squared: bool, batch_size: int
) -> Blend:
    """Weigh a trained network and the closed forms on validation rows.

    Parameters
    ----------
    network
        In evaluation mode, with a point or quantile head.
    experts
        As `fit_experts` returns them.
    validation, is_squared, batch_size
        As there.
    """
    held_out, ours = _held_out(network, validation, batch_size, with_network=True)
    forecasts = np.stack([ours, *experts.forecast(held_out.context, held_out.target.shape[1])])  # (K, R, H)
    prior = np.append(PRIOR_OF_NETWORK, np.full(len(experts), (1 - PRIOR_OF_NETWORK) / len(experts)))
    counts = held_out.weight > 0
    if counts.sum() > MAX_VALUES:  # more of them change the weights by less than their noise
        counts &= np.random.default_rng(0).random(counts.shape) < MAX_VALUES / counts.sum()
    weights = convex_weights(forecasts[:, counts], held_out.target[counts], held_out.weight[counts], is_squared)
    shrinkage = PRIOR_WINDOWS / (PRIOR_WINDOWS + _n_separate(validation))
    return Blend((1 - shrinkage) * weights + shrinkage * prior, experts)


def convex_weights(forecasts: np.ndarray, target: np.ndarray, weight: np.ndarray, is_squared: bool) -> np.ndarray:
    """Return the weights at least 0, of sum 1, whose blend has the lowest error: by exponentiated gradients.

    Parameters
    ----------
    forecasts
        (K, N), from equal weights on (Kivinen and Warmuth 1997).
    target, weight
        (N,), and what an error at each counts.
    is_squared
        Squared or absolute errors.

    Returns
    -------
    np.ndarray
        (K,); always the same for the same input.
    """
    n_forecasts = len(forecasts)
    weights = best = np.full(n_forecasts, 1 / n_forecasts)
    weight = weight / weight.sum()
    lowest = np.inf
    for step in range(N_STEPS):
        error = weights @ forecasts - target
        loss = float(weight @ (np.square(error) if is_squared else np.abs(error)))
        if loss < lowest:
            best, lowest = weights, loss
        if loss < ALL_BUT_EXACT:
            break
        slope = forecasts @ (weight * (2 * error if is_squared else np.sign(error))) / loss  # (K,), without unit
        exponent = -FIRST_STEP / np.sqrt(step + 1) * (slope - weights @ slope)
        weights = weights * np.exp(np.clip(exponent, -FIRST_STEP, FIRST_STEP))
        weights = weights / weights.sum()
    return best


def _held_out(
    network: ForecastTransformer, windows: Windows, batch_size: int, *, with_network: bool
) -> tuple[_HeldOut, np.ndarray]:
    """Return the rows of validation windows, and the forecasts of the network for them, (R, H), or (0,)."""
    parts = []
    for begin in range(0, len(windows), batch_size):
        batch = windows.batch(np.arange(begin, min(begin + batch_size, len(windows))))
        plain, effect = without_effect(network, batch)
        context, unit = contexts_of(plain, network), rows_of(batch.series_deviation.unsqueeze(1))  # (R, L), (R, 1)
        target, weight = rows_of(plain.target), rows_of(weights_of(batch))
        point = context
        if with_network:
            point = rows_of(point_of(forecast(network, batch, windows.horizon), network)) - effect
        varies = unit[:, 0] > 0
        last, unit = context[varies, -1:], unit[varies]
        context, target, point = ((x[varies] - last) / unit for x in (context, target, point))
        parts.append((context, np.where(weight[varies] > 0, target, 0.0), weight[varies], point))
    *found, point = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return _HeldOut(*found), point if with_network else np.empty(0)


def _n_separate(windows: Windows) -> float:
    """Return how many windows of their horizon would lie beside each other in the rows that decide."""
    panel, varies = windows.panel, windows.statistics.deviation > 0  # (N, C)
    series, cutoffs = windows.locate(np.arange(len(windows)))  # in order
    n_rows = 0
    for one, first in zip(*np.unique(series, return_index=True), strict=True):
        rows = slice(panel.indptr[one] + cutoffs[first], panel.indptr[one + 1])
        counts = (~np.isnan(panel.values[rows]) & varies[one]).any(axis=1)
        if panel.weight is not None:
            counts &= panel.weight[rows] > 0
        n_rows += int(np.count_nonzero(counts))
    return n_rows / windows.horizon


def _training_rows(
    network: ForecastTransformer, windows: Windows, n_steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return rows of context and what follows, around the last value in units of the training deviation; weights."""
    length, n_channels = windows.context_length, windows.panel.n_channels
    n_rows = min(MAX_ROWS, MAX_PRODUCTS // n_steps**2)
    n_windows = min(len(windows), max(1, n_rows // n_channels))
    chosen = np.linspace(0, len(windows) - 1, n_windows).astype(np.int64)
    for chunk in in_chunks(n_windows, n_steps * n_channels):
        batch, _ = without_effect(network, windows.batch(chosen[chunk]))
        context, unit = contexts_of(batch, network), rows_of(batch.series_deviation.unsqueeze(1))
        target, weight = rows_of(batch.target), rows_of(weights_of(batch))
        usable = ((weight > 0).mean(axis=1) >= MIN_OBSERVED) & (unit[:, 0] > 0)
        rows = np.concatenate([context, np.where(weight > 0, target, np.nan)], axis=1)[usable]
        rows = forward_fill(rows[..., None], np.zeros(1))[..., 0]
        yield (rows - rows[:, length - 1 : length]) / unit[usable], weight[usable].mean(axis=1)
