"""The network blended with closed-form forecasts: a convex combination with weights from the validation rows.

Averages of forecasts that err in different ways are hard to beat (Bates and Granger 1969). Where a season is exact, or
a series is a random walk, the closed forms take over, and the forecast is never much worse than theirs.

Letters: B windows, R rows (one window of one channel each), L context steps, P steps of a patch, H horizon steps,
C channels, K forecasts blended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tsformer.batch import Batch
from tsformer.data.windows import Windows
from tsformer.evaluation.arrays import forward_fill, in_chunks
from tsformer.experts import linear_forecast, linear_maps, moments, seasonal_forecast
from tsformer.nn.decoding import forecast
from tsformer.nn.linear_path import fill_gaps
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


@dataclass(frozen=True)
class Blend:
    """Closed-form forecasts, and what each weighs beside the network.

    Parameters
    ----------
    weights
        (K,) at least 0, of sum 1: of the network, of each linear map, of the season.
    maps
        K - 2 linear maps from context to what comes next, (L, P) or (L, H) each.
    period
        Steps of the season that is repeated; 1: the last value.
    """

    weights: np.ndarray
    maps: tuple[np.ndarray, ...]
    period: int

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
            when they are its own. A map to the whole horizon moves as its twin that is rolled out.

        Returns
        -------
        torch.Tensor
            (B, H, C) or (B, H, C, Q), target units. Where all forecasts are the same, so is the blend, to the last
            digit.
        """
        plain, effect = _without_effect(network, batch)
        context = _contexts(plain, network)
        values = forecast(network, batch, horizon)
        experts = [expert + effect for expert in self.experts(context, horizon)]
        blended = values + self._shift(values, experts, network)
        if given is None:
            return blended
        surprise = given - _point(blended, network)  # (B, H, C)
        values = forecast(network, batch, horizon, _point(values, network) + surprise)
        known = [expert - effect + _rows(surprise) for expert in experts]
        moved = [expert + effect for expert in self.experts(context, horizon, known)]
        for direct, rolled in self._twins():  # steps that are made at once do not see each other
            moved[direct] = experts[direct] + moved[rolled] - experts[rolled]
        return values + self._shift(values, moved, network)

    def _twins(self) -> list[tuple[int, int]]:
        """Return pairs of a map to the whole horizon and the map to the next patch around the same centre."""
        half = len(self.maps) // 2
        has_direct = half and self.maps[-1].shape[1] > self.maps[0].shape[1]
        return [(half + number, number) for number in range(half)] if has_direct else []

    def _shift(self, values: torch.Tensor, experts: list[np.ndarray], network: ForecastTransformer) -> torch.Tensor:
        """Return what takes the forecast of the network to the blend, (B, H, C) or (B, H, C, 1)."""
        point = _point(values, network)
        rows = _rows(point)  # (R, H)
        shift = sum(weight * (expert - rows) for weight, expert in zip(self.weights[1:], experts, strict=True))
        n_windows, horizon, n_channels = point.shape
        moved = torch.from_numpy(shift).view(n_windows, n_channels, horizon).transpose(1, 2).to(values.device)
        return moved if values.ndim == 3 else moved.unsqueeze(-1)

    def experts(self, context: np.ndarray, horizon: int, given: list[np.ndarray] | None = None) -> Iterator[np.ndarray]:
        """Return the closed-form forecasts (R, H) of contexts (R, L), in the order of the weights.

        ``given`` holds values (R, H) for each to go on from, NaN where it decides.
        """
        known: list[np.ndarray | None] = [None] * (len(self.maps) + 1) if given is None else [*given]
        for weights, values in zip(self.maps, known, strict=False):
            yield linear_forecast(context, weights, horizon, values)
        yield seasonal_forecast(context, self.period, horizon, known[-1])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a file keeps."""
        maps = {f"map-{number}": weights for number, weights in enumerate(self.maps)}
        return {"weights": self.weights, "period": np.array(self.period)} | maps

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Blend:
        """Return the blend that `to_arrays` wrote."""
        maps = tuple(arrays[f"map-{number}"] for number in range(len(arrays["weights"]) - 2))
        return cls(arrays["weights"], maps, int(arrays["period"]))


class Experts(NamedTuple):
    """Closed-form forecasts fitted on training rows, their settings chosen on validation rows."""

    rolled: tuple[np.ndarray, ...]
    """(L, P) each: to the next patch, one for each centring."""
    direct: tuple[np.ndarray, ...]
    """(L, H) each: to the whole horizon; none where that is a patch, or no training window holds it whole."""
    period: int


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
        return _mean_error(forecast - self.target, self.weight, is_squared)


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
    return Experts(tuple(best(training)), tuple(best(whole)) if horizon > training.horizon else (), period)


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
    maps = (*experts.rolled, *experts.direct)
    prior = np.append(PRIOR_OF_NETWORK, np.full(len(maps) + 1, (1 - PRIOR_OF_NETWORK) / (len(maps) + 1)))
    blend = Blend(prior, maps, experts.period)
    closed = blend.experts(held_out.context, held_out.target.shape[1])
    forecasts = np.stack([ours, *closed])  # (K, R, H)
    counts = held_out.weight > 0
    if counts.sum() > MAX_VALUES:  # more of them change the weights by less than their noise
        counts &= np.random.default_rng(0).random(counts.shape) < MAX_VALUES / counts.sum()
    weights = convex_weights(forecasts[:, counts], held_out.target[counts], held_out.weight[counts], is_squared)
    shrinkage = PRIOR_WINDOWS / (PRIOR_WINDOWS + _n_separate(validation))
    return Blend((1 - shrinkage) * weights + shrinkage * prior, maps, experts.period)


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
        plain, effect = _without_effect(network, batch)
        context, unit = _contexts(plain, network), _rows(batch.series_deviation.unsqueeze(1))  # (R, L), (R, 1)
        target, weight = _rows(plain.target), _rows(_weights(batch))
        point = _rows(_point(forecast(network, batch, windows.horizon), network)) - effect if with_network else context
        varies = unit[:, 0] > 0
        last, unit = context[varies, -1:], unit[varies]
        context, target, point = ((x[varies] - last) / unit for x in (context, target, point))
        parts.append((context, np.where(weight[varies] > 0, target, 0.0), weight[varies], point))
    *found, point = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return _HeldOut(*found), point if with_network else np.empty(0)


def _n_separate(windows: Windows) -> float:
    """Return how many windows of their horizon would lie beside each other in the rows that the targets cover."""
    series, cutoffs = windows.locate(np.arange(len(windows)))  # in order
    series, first = np.unique(series, return_index=True)
    return float((windows.panel.lengths[series] - cutoffs[first]).sum() / windows.horizon)


def _training_rows(
    network: ForecastTransformer, windows: Windows, n_steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return rows of context and what follows, around the last value in units of the training deviation; weights."""
    length, n_channels = windows.context_length, windows.panel.n_channels
    n_rows = min(MAX_ROWS, MAX_PRODUCTS // n_steps**2)
    n_windows = min(len(windows), max(1, n_rows // n_channels))
    chosen = np.linspace(0, len(windows) - 1, n_windows).astype(np.int64)
    for chunk in in_chunks(n_windows, n_steps * n_channels):
        batch, _ = _without_effect(network, windows.batch(chosen[chunk]))
        context, unit = _contexts(batch, network), _rows(batch.series_deviation.unsqueeze(1))
        target, weight = _rows(batch.target), _rows(_weights(batch))
        usable = ((weight > 0).mean(axis=1) >= MIN_OBSERVED) & (unit[:, 0] > 0)
        rows = np.concatenate([context, np.where(weight > 0, target, np.nan)], axis=1)[usable]
        rows = forward_fill(rows[..., None], np.zeros(1))[..., 0]
        yield (rows - rows[:, length - 1 : length]) / unit[usable], weight[usable].mean(axis=1)


def _without_effect(network: ForecastTransformer, batch: Batch) -> tuple[Batch, np.ndarray | float]:
    """Return windows less the effect of known covariates, which closed forms do not see, and that on targets (R, H)."""
    with torch.inference_mode():
        plain, effect = network.without_effect(batch)
    if effect is None:
        return batch, 0.0
    if batch.target.shape[1]:
        plain = plain._replace(target=torch.where(batch.target_mask, batch.target - effect, 0.0))
    return plain, _rows(effect)


def _contexts(batch: Batch, network: ForecastTransformer) -> np.ndarray:
    """Return contexts (R, L), missing values filled; those without any with the mean of the series."""
    values = torch.where(batch.context_mask, batch.context, batch.series_mean.unsqueeze(1))
    filled = fill_gaps(values.transpose(1, 2), batch.context_mask.transpose(1, 2), network.config.season_length)
    return filled.flatten(0, 1).cpu().numpy()


def _mean_error(error: np.ndarray, weight: np.ndarray, is_squared: bool) -> float:
    return float(np.average(np.square(error) if is_squared else np.abs(error), weights=weight))


def _point(values: torch.Tensor, network: ForecastTransformer) -> torch.Tensor:
    """Return the point forecast (B, H, C) of what the network forecasts: the median of quantiles."""
    return values[..., network.head.levels.index(0.5)] if network.head.levels else values


def _weights(batch: Batch) -> torch.Tensor:
    """Return what an error at each target step counts, (B, H, C): 0 where it is missing."""
    counts = batch.target_mask.to(batch.target.dtype)
    return counts if batch.weight is None else counts * batch.weight


def _rows(values: torch.Tensor) -> np.ndarray:
    """Return (B, H, C) as (R, H)."""
    return values.transpose(1, 2).flatten(0, 1).cpu().numpy()
