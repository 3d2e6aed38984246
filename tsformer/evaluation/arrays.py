"""Windows of a panel as plain arrays.

Letters: B windows, L context steps, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tsformer.data.panel import Panel

# Numbers held at a time when many windows are cut (32 MB).
_CHUNK = 2**22


def rows_at(panel: Panel, series: np.ndarray, begin: np.ndarray, n_rows: int) -> np.ndarray:
    """Return ``n_rows`` rows of each window.

    Parameters
    ----------
    panel
        The data.
    series, begin
        (B,) number of the series, and of its first row wanted; rows outside the series are allowed.
    n_rows
        Rows of each window.

    Returns
    -------
    np.ndarray
        (B, n_rows, C) float64, target units; NaN where missing or outside the series. A copy.
    """
    row = begin[:, None] + np.arange(n_rows)  # (B, n_rows)
    inside = (row >= 0) & (row < panel.lengths[series][:, None])
    values = panel.values[np.where(inside, row + panel.indptr[series][:, None], 0)]  # (B, n_rows, C)
    if not inside.all():
        values[~inside] = np.nan
    return values


def forward_fill(context: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Fill missing values from the last observed one before them, and those before the first from it.

    Parameters
    ----------
    context
        (B, L, C) float, NaN where missing.
    empty
        (C,) or (B, 1, C) value of a channel that is missing all along.

    Returns
    -------
    np.ndarray
        (B, L, C); the argument itself when nothing is missing.
    """
    observed = ~np.isnan(context)
    if observed.all():
        return context
    steps = np.arange(context.shape[1])[:, None]
    last = np.maximum.accumulate(np.where(observed, steps, -1), axis=1)
    source = np.where(last < 0, observed.argmax(axis=1)[:, None], last)
    filled = np.take_along_axis(context, source, axis=1)
    return np.where(observed.any(axis=1, keepdims=True), filled, empty)


def in_chunks(n_windows: int, numbers_per_window: int) -> Iterator[slice]:
    """Cut windows into slices that hold a bounded number of numbers."""
    size = max(1, _CHUNK // numbers_per_window)
    return (slice(begin, begin + size) for begin in range(0, n_windows, size))
