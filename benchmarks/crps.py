"""CRPS as ProbTS evaluates it, and the control it has to beat: a point forecast plus quantiles of its past errors.

Units of the data; nine quantiles; for each window twice the pinball losses over sum |y|, over all steps and channels,
then the plain mean over quantiles and windows; a test window every 96 steps, the one that ends with the data left out.
Letters: B windows, H horizon steps, C channels, Q quantiles.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tsformer import RepeatLast, RidgeForecaster
from tsformer.cli.split import Split
from tsformer.data.panel import Panel
from tsformer.data.windows import test_cutoffs
from tsformer.evaluation.arrays import rows_at
from tsformer.evaluation.benchmarks import LongHorizonProtocol

LEVELS = tuple(round(0.1 * i, 1) for i in range(1, 10))
STRIDE = 96
CONTEXT = 96

QuantileForecast = Callable[[Panel, np.ndarray, np.ndarray, int], np.ndarray]
"""``forecast(panel, series, cutoffs, horizon)``: (B, H, C, Q), target units."""


def crps(truth: np.ndarray, quantiles: np.ndarray) -> float:
    """Return the score of quantile forecasts (B, H, C, Q) of a truth (B, H, C)."""
    error = truth[..., None] - quantiles
    loss = np.maximum(np.array(LEVELS) * error, (np.array(LEVELS) - 1) * error)
    return float((2 * loss.sum(axis=(1, 2)) / np.abs(truth).sum(axis=(1, 2))[:, None]).mean())


def evaluate_crps(forecast: QuantileForecast, split: Split) -> dict[str, float]:
    """Return the CRPS of each horizon of a long-horizon benchmark, ``{"96": ...}``."""
    protocol = split.protocol
    assert isinstance(protocol, LongHorizonProtocol)
    panel = split.panel.rows(0, protocol.n_rows)
    scores = {}
    for horizon in protocol.horizons:
        cutoffs = np.arange(protocol.test_begin, protocol.n_rows - horizon, STRIDE)
        window = np.zeros_like(cutoffs), cutoffs
        scores[str(horizon)] = crps(rows_at(panel, *window, horizon), forecast(panel, *window, horizon))
    return scores


def with_error_quantiles(model: RidgeForecaster | RepeatLast, seen: Panel, begin: int) -> QuantileForecast:
    """Return a point forecast plus the quantiles of its past errors, step by step and channel by channel.

    Parameters
    ----------
    model
        Fitted.
    seen
        Rows before the test.
    begin
        First row of them whose errors count: every window from there on.
    """

    def forecast(panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> np.ndarray:
        window = test_cutoffs(seen.lengths, np.array([begin]), horizon)
        errors = rows_at(seen, *window, horizon) - model.forecast_windows(seen, *window, horizon)
        margins = np.quantile(errors, LEVELS, axis=0)  # (Q, H, C)
        return model.forecast_windows(panel, series, cutoffs, horizon)[..., None] + np.moveaxis(margins, 0, -1)

    return forecast
