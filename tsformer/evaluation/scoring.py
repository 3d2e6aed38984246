"""The score that all forecasters share.

Letters: B windows, N series, H horizon steps, C channels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from tsformer.data.axis import show_stamp
from tsformer.data.panel import Panel
from tsformer.evaluation.arrays import rows_at
from tsformer.metrics import ErrorSums, scaled_mean

ForecastWindows = Callable[[Panel, np.ndarray, np.ndarray, int], np.ndarray]
"""``forecast_windows(panel, series, cutoffs, horizon)``: (B, H, C) forecasts of windows of a panel."""


def follow(history: Panel, X: Panel) -> tuple[Panel, np.ndarray]:
    """Put the rows of ``X`` behind the history of the same series.

    Parameters
    ----------
    history
        Last training rows.
    X
        What came next: any of the series, each from one step after its last training row. An array carries no
        time and is taken to follow.

    Returns
    -------
    Panel
        The series of ``X``, history first.
    np.ndarray
        (N,) number of each of them in ``history``.

    Raises
    ------
    ValueError
        When a series has no history, or does not start right after it.
    """
    place = pd.Index(history.ids).get_indexer(pd.Index(X.ids))
    unknown = X.ids[place < 0]
    if len(unknown):
        shown = ", ".join(map(repr, unknown[:3].tolist()))
        raise ValueError(f"X holds {len(unknown)} series that training did not have: {shown}; fit on them first")
    before, after = history.lengths[place], X.lengths
    expected = history.stamps(place, before)
    wrong = np.flatnonzero(X.start != expected)
    if wrong.size and X.schema.layout != "array":
        i = int(wrong[0])
        end, first, given = (
            show_stamp(stamp, X.schema.zone)
            for stamp in (history.stamps(place[i], before[i] - 1), expected[i], X.start[i])
        )
        of_series = f" of series {X.ids[i]!r}" if X.schema.layout == "long" else ""
        raise ValueError(
            f"X must start one step after the training rows{of_series}: they end at {end}, so X must start at "
            f"{first}, but it starts at {given}"
        )
    indptr = np.concatenate([[0], np.cumsum(before + after)])
    old, head = _ranges(history.indptr[place], before), _ranges(indptr[:-1], before)
    new = _ranges(indptr[:-1] + before, after)

    def joined(column: str) -> np.ndarray:
        values = np.empty((indptr[-1], getattr(X, column).shape[1]))
        values[head] = getattr(history, column)[old]
        values[new] = getattr(X, column)
        return values

    columns = {column: joined(column) for column in ("values", "known", "observed")}
    return Panel(
        indptr=indptr, start=history.start[place], ids=X.ids, schema=X.schema, static=X.static, **columns
    ), place


def _ranges(begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Concatenate the ranges ``begin[i], ..., begin[i] + length[i] - 1``."""
    return np.arange(length.sum()) + np.repeat(begin - (np.cumsum(length) - length), length)


def scaled_mae(
    forecast_windows: ForecastWindows,
    history: Panel,
    X: Panel,
    deviation: np.ndarray,
    prediction_length: int,
    *,
    batch_size: int = 512,
) -> float:
    """Return the mean scaled MAE of forecasts of ``X``, each made from everything before it.

    ``X`` is forecast in consecutive windows of ``prediction_length`` steps; the history grows with it. Errors are
    divided by the series' training deviation, then averaged over series, then over targets.

    Parameters
    ----------
    forecast_windows
        That method of the forecaster.
    history
        Last training rows of each series, as many as the forecaster looks back.
    X
        What came next, see `follow`.
    deviation
        (N, C) population deviation of the training rows of each series of ``history``, target units.
    prediction_length
        Steps of one window.
    batch_size
        Windows forecast at a time.

    Raises
    ------
    ValueError
        As `follow`; and when nothing in ``X`` can be scored.
    """
    panel, place = follow(history, X)
    n_windows = -(-X.lengths // prediction_length)
    series = np.repeat(np.arange(panel.n_series), n_windows)
    number = _ranges(np.zeros_like(n_windows), n_windows)
    cutoffs = (panel.lengths - X.lengths)[series] + number * prediction_length
    errors = ErrorSums(panel.n_series, panel.n_channels)
    for i in range(0, len(series), batch_size):
        window = series[i : i + batch_size], cutoffs[i : i + batch_size]
        truth = rows_at(panel, *window, prediction_length)
        errors.add(window[0], truth, forecast_windows(panel, *window, prediction_length))
    if not ((errors.count > 0) & (deviation[place] > 0)).any():
        raise ValueError("nothing to score: X has no observed value of a target that varies in the training rows")
    return scaled_mean(errors.mae, deviation[place])
