"""Closed-form linear forecasts: ridge regression from moments, in bounded memory.

Letters: R rows (one window of one channel each), L context steps, H steps ahead, K penalties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

PENALTIES = tuple(10.0**power for power in range(-6, 1))


class Moments(NamedTuple):
    """What least squares needs to know of the rows: means of products, float64."""

    xx: np.ndarray
    """(L, L) mean of ``x x'``."""
    xy: np.ndarray
    """(L, H) mean of ``x y'``."""
    yy: np.ndarray
    """(H,) mean of ``y ** 2``."""
    n_rows: int
    """R."""


class RidgeFit(NamedTuple):
    """A linear map from context to horizon."""

    weights: np.ndarray
    """(L, H): ``forecast = x @ weights``."""
    penalty: float
    """The lambda it was found with."""


def window_moments(chunks: Iterable[tuple[np.ndarray, np.ndarray]], context_length: int, horizon: int) -> Moments:
    """Accumulate the moments of rows that arrive chunk by chunk.

    Parameters
    ----------
    chunks
        Pairs ``x`` (R, L) and ``y`` (R, H), both without missing values.
    context_length, horizon
        L and H.

    Returns
    -------
    Moments
        All zero when there is no row.
    """
    xx, xy, yy = np.zeros((context_length, context_length)), np.zeros((context_length, horizon)), np.zeros(horizon)
    n_rows = 0
    for x, y in chunks:
        xx += x.T @ x
        xy += x.T @ y
        yy += np.square(y).sum(0)
        n_rows += len(x)
    divisor = max(n_rows, 1)
    return Moments(xx / divisor, xy / divisor, yy / divisor, n_rows)


def fit_ridge(training: Moments, validation: Moments | None = None, penalties: Sequence[float] = PENALTIES) -> RidgeFit:
    """Solve ``(xx + lambda I) weights = xy`` for each penalty and keep the best on validation.

    One eigendecomposition serves all penalties, and the validation error follows from the moments:
    ``mean (y - w'x)^2 = yy - 2 w'xy + w' xx w``.

    Parameters
    ----------
    training, validation
        Moments of the two sets of rows; those of validation may have fewer steps. Without validation rows the middle
        penalty is taken.
    penalties
        Candidates for lambda, on the scale of ``xx``.

    Returns
    -------
    RidgeFit
        Weights (L, H) and their penalty.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(1000, 3))
    >>> moments = window_moments([(x, x @ np.array([[1.0], [0.0], [-2.0]]))], 3, 1)
    >>> fit_ridge(moments, moments).weights.ravel().round(3).tolist()
    [1.0, 0.0, -2.0]
    """
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"penalties must be numbers above 0, got {list(penalties)}")
    eigenvalues, vectors = np.linalg.eigh(training.xx)
    eigenvalues = np.maximum(eigenvalues, 0.0)[:, None]  # rounding can leave them just below
    projected = vectors.T @ training.xy  # (L, H)

    def solve(penalty: float) -> np.ndarray:
        return vectors @ (projected / (eigenvalues + penalty))

    if validation is None or not validation.n_rows:
        penalty = sorted(penalties)[len(penalties) // 2]
    else:
        penalty = min(penalties, key=lambda candidate: _mean_squared_error(solve(candidate), validation))
    return RidgeFit(solve(penalty), penalty)


def _mean_squared_error(weights: np.ndarray, moments: Moments) -> float:
    """Mean squared error of a linear map over rows known by their moments."""
    weights = weights[:, : len(moments.yy)]
    quadratic = np.einsum("lh,lh->h", weights, moments.xx @ weights)
    cross = np.einsum("lh,lh->h", weights, moments.xy)
    return float((moments.yy - 2.0 * cross + quadratic).mean())
