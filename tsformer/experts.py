"""Forecasts in closed form that stand beside the network: linear maps, rolled out or direct, and the last season.

All of them shift and scale with the data, and see the context that the network sees.

Letters: R rows (one window of one channel each), L context steps, P steps of a patch, A of what a map makes at once,
H horizon steps, K forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# Candidates of the penalty: on the scale of the data's variance, and the power of the lag it grows with. A long lag has
# to earn its weight where the second is not 0. The largest leave of a random walk its last value.
PENALTIES = tuple(10.0**power for power in range(-5, 3))
LAG_POWERS = (0, 2)


@dataclass(frozen=True)
class Experts:
    """Closed-form forecasts fitted on training rows, their settings chosen on validation rows.

    Parameters
    ----------
    rolled
        (L, P) each: maps to the next patch, one for each centring.
    direct
        (L, H) each: to the whole horizon, in the same order; none where that is a patch, or no training window holds it
        whole.
    period
        Steps of the season that is repeated; 1: the last value.
    """

    rolled: tuple[np.ndarray, ...]
    direct: tuple[np.ndarray, ...]
    period: int

    def __len__(self) -> int:
        """K."""
        return len(self.rolled) + len(self.direct) + 1

    def forecast(self, context: np.ndarray, horizon: int, surprise: np.ndarray | None = None) -> list[np.ndarray]:
        """Return K forecasts: of the maps that are rolled out, of the direct ones, and of the season.

        Parameters
        ----------
        context
            (R, L) without missing values.
        horizon
            H.
        surprise
            (R, H) what turns out to differ from each forecast, which goes on from there; NaN where it decides.

        Returns
        -------
        list of np.ndarray
            (R, H) each.
        """
        rolled = [linear_forecast(context, weights, horizon) for weights in self.rolled]
        direct = [linear_forecast(context, weights, horizon) for weights in self.direct]
        season = seasonal_forecast(context, self.period, horizon)
        if surprise is None:
            return [*rolled, *direct, season]
        moved = [
            linear_forecast(context, weights, horizon, free + surprise)
            for weights, free in zip(self.rolled, rolled, strict=True)
        ]
        # Steps that are made at once do not see each other: they move as those of the rolled twin.
        direct = [free + after - before for free, after, before in zip(direct, moved, rolled, strict=False)]
        return [*moved, *direct, seasonal_forecast(context, self.period, horizon, season + surprise)]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a file keeps."""
        maps = {"rolled": self.rolled, "direct": self.direct}
        named = {f"{name}-{number}": weights for name, all_ in maps.items() for number, weights in enumerate(all_)}
        return {"period": np.array(self.period)} | named

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Experts:
        """Return the closed forms that `to_arrays` wrote."""
        rolled, direct = (
            tuple(arrays[key] for key in sorted(arrays) if key.startswith(name)) for name in ("rolled-", "direct-")
        )
        return cls(rolled, direct, int(arrays["period"]))


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


def linear_maps(products: np.ndarray, n_ahead: int, patch_length: int) -> Iterator[list[np.ndarray]]:
    """Return maps from context to the steps behind it by ridge regression, for each centring those of all penalties.

    The centre of a window, its mean or its last value, is taken off before and added after; both are linear, so that
    each map is one matrix whose columns sum to 1.

    Parameters
    ----------
    products
        (L + A, L + A) moments of context and what follows, around whatever level.
    n_ahead
        A: a patch, to be rolled out, or the whole horizon.
    patch_length
        P.

    Yields
    ------
    list of np.ndarray
        (L, A): ``ahead = context @ weights``.
    """
    length = len(products) - n_ahead
    xx, xy = products[:length, :length], products[:length, length:]
    lag = np.arange(length, 0, -1) / patch_length
    for n_centre in (length, 1):
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
        (L, P), as `linear_maps` returns; P may be the whole horizon.
    horizon
        H.
    given
        (R, H) values to go on from, NaN where the map decides; None: everywhere.

    Returns
    -------
    np.ndarray
        (R, H). No further from the last value than the spread of the context, plus as much every L steps: enough for
        any trend that the context has, too little for an unstable map to run away; behind given values, as far as they
        differ from what the map made of these steps more.
    """
    length, patch_length = weights.shape
    last = context[:, -1:]
    n_ahead = -(-horizon // patch_length) * patch_length
    path = np.empty((len(context), length + n_ahead))
    path[:, :length] = context - last
    spread = np.ptp(path[:, :length], axis=1, keepdims=True)
    forced = None
    if given is not None:
        forced = np.full((len(context), n_ahead), np.nan)
        forced[:, :horizon] = given - last
        # From a given value on, further by what it differs from the path without it: its own changes nothing.
        surprise = np.zeros((len(context), n_ahead))
        surprise[:, :horizon] = np.nan_to_num(np.abs(given - linear_forecast(context, weights, horizon)))
        spread = spread + np.maximum.accumulate(surprise, axis=1)
    reach = spread * (1 + np.arange(1, n_ahead + 1) / length)
    for begin in range(0, n_ahead, patch_length):
        steps = slice(begin, begin + patch_length)
        patch = np.clip(path[:, begin : begin + length] @ weights, -reach[:, steps], reach[:, steps])
        if forced is not None:
            patch = np.where(np.isnan(forced[:, steps]), patch, forced[:, steps])
        path[:, length + begin : length + begin + patch_length] = patch
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
