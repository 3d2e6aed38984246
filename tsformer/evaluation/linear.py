"""Ridge regression over the windows of a panel.

Letters: B windows, N series, L context steps, H horizon steps, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tsformer.data.loaders import split_rows
from tsformer.data.panel import Panel
from tsformer.data.windows import series_statistics, training_cutoffs, validation_cutoffs
from tsformer.evaluation.arrays import forward_fill, in_chunks, rows_at
from tsformer.metrics import divide
from tsformer.ridge import PENALTIES, Moments, RidgeFit, fit_ridge, window_moments

# Windows learned from, evenly spaced: more change the fit by less than its noise.
MAX_WINDOWS = 200_000


def fit_windows(
    panel: Panel,
    context_length: int,
    horizon: int,
    validation_size: float | int = 0.1,
    penalties: Sequence[float] = PENALTIES,
) -> RidgeFit:
    """Fit one linear map from look-back to horizon, shared by all series and channels.

    Windows are centred on their last value and weighted as in units of each channel's training deviation. The map
    is homogeneous, so it applies to centred windows in target units.

    Parameters
    ----------
    panel
        Training rows.
    context_length, horizon
        L and H, steps.
    validation_size
        Last part of the rows, as a share or a number of steps, that chooses the penalty; weights come from the
        rows before it.
    penalties
        Candidates for lambda.

    Returns
    -------
    RidgeFit
        Weights (L, H) and their penalty.
    """
    ends = split_rows(panel.lengths, validation_size)
    deviation = series_statistics(panel, ends).deviation
    training_rows = panel.rows(0, ends)
    series, cutoffs = training_cutoffs(ends, context_length, horizon)
    stride = -(-len(series) // MAX_WINDOWS) or 1
    windows = series[::stride], cutoffs[::stride]
    training = _moments(training_rows, *windows, context_length, horizon, deviation)
    if training.n_rows < context_length:
        # Too few windows have their whole horizon observed: better to learn from filled ones.
        training = _moments(training_rows, *windows, context_length, horizon, deviation, fill_targets=True)
    # Held-out rows shorter than the horizon choose the penalty by the steps they have.
    held_out = max(1, min(horizon, int((panel.lengths - ends).max())))
    windows = validation_cutoffs(panel.lengths, ends, held_out, MAX_WINDOWS)
    validation = _moments(panel, *windows, context_length, held_out, deviation)
    return fit_ridge(training, validation, penalties)


def _moments(
    panel: Panel,
    series: np.ndarray,
    cutoffs: np.ndarray,
    context_length: int,
    horizon: int,
    deviation: np.ndarray,
    *,
    fill_targets: bool = False,
) -> Moments:
    """Accumulate windows as rows of one channel each: centred, in units of the training deviation.

    Rows with a missing target step, a context without any value or a deviation of 0 are left out.
    """
    n_steps = context_length + horizon
    filled = n_steps if fill_targets else context_length
    nothing = np.full(panel.n_channels, np.nan)

    def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for chunk in in_chunks(len(series), n_steps * panel.n_channels):
            block = rows_at(panel, series[chunk], cutoffs[chunk] - context_length, n_steps)  # (B, L + H, C)
            block[:, :filled] = forward_fill(block[:, :filled], nothing)
            block -= block[:, context_length - 1 : context_length]
            block = divide(block, deviation[series[chunk]][:, None])
            flat = block.transpose(0, 2, 1).reshape(-1, n_steps)  # (B * C, L + H)
            flat = flat[~np.isnan(flat).any(axis=1)]
            yield flat[:, :context_length], flat[:, context_length:]

    return window_moments(rows(), context_length, horizon)
