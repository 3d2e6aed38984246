"""Scores on test rows, and the public long-horizon protocols.

Letters: N series, C channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsformer.data.frequency import season_length as usual_season_length
from tsformer.data.panel import Panel
from tsformer.data.windows import series_statistics
from tsformer.evaluation.baselines import RepeatLast, RidgeForecaster, SeasonalNaive
from tsformer.evaluation.rolling import ArrayForecaster, window_errors
from tsformer.metrics import seasonal_scale

Scores = dict[str, dict[str, dict[str, float | None]]]
"""Model, then target (or horizon), then metric; None where the metric is not defined."""


@dataclass(frozen=True)
class LongHorizonProtocol:
    """Split and horizons of a public long-horizon benchmark (Zhou et al. 2021; Wu et al. 2021).

    Parameters
    ----------
    n_train, n_validation, n_test
        Rows of each part, in this order from the first row; rows after them are not used.
    horizons
        Steps.
    season_length
        Season of the seasonal naive control, steps.
    """

    n_train: int
    n_validation: int
    n_test: int
    horizons: tuple[int, ...] = (96, 192, 336, 720)
    season_length: int = 24

    @property
    def test_begin(self) -> int:
        """First test row: the rows before it may be fitted on, with the last ``n_validation`` for validation."""
        return self.n_train + self.n_validation

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.test_begin + self.n_test


PROTOCOLS = {
    "etth1": LongHorizonProtocol(8640, 2880, 2880),
    "etth2": LongHorizonProtocol(8640, 2880, 2880),
    "exchange": LongHorizonProtocol(5311, 760, 1517, season_length=7),
    "illness": LongHorizonProtocol(676, 97, 193, horizons=(24, 36, 48, 60), season_length=52),
}


def split_70_10_20(lengths: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return the end of the training rows and the first test row of series of these lengths.

    70 % of the rows train and the last 20 % test, both rounded down; what lies between validates.

    Examples
    --------
    >>> [int(row) for row in split_70_10_20(966)]
    [676, 773]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    return (0.7 * lengths).astype(np.int64), lengths - (0.2 * lengths).astype(np.int64)


def fit_baselines(
    training: Panel,
    prediction_length: int,
    *,
    validation_size: float | int = 0.1,
    context_length: int = 336,
    season_length: int | None = None,
) -> dict[str, ArrayForecaster]:
    """Return the controls that every result stands beside, fitted on the rows before the test.

    Parameters
    ----------
    training
        Training and validation rows.
    prediction_length
        Horizon, steps.
    validation_size
        Last part of the rows on which ridge chooses its penalty, as a share or a number of steps.
    context_length
        Look-back of ridge, steps.
    season_length
        Season of the seasonal naive, steps; None: the usual one of the frequency.
    """
    ridge = RidgeForecaster(prediction_length, context_length=context_length, validation_size=validation_size)
    return {
        "SeasonalNaive": SeasonalNaive(prediction_length, season_length=season_length).fit_panel(training),
        "RidgeForecaster": ridge.fit_panel(training),
        "RepeatLast": RepeatLast(prediction_length).fit_panel(training),
    }


def evaluate_windows(
    forecasters: Mapping[str, ArrayForecaster],
    panel: Panel,
    test_begin: np.ndarray | int,
    horizon: int,
    *,
    train_end: np.ndarray | int | None = None,
    season_length: int | None = None,
    **options: Any,
) -> Scores:
    """Score forecasters on all test windows of one horizon, in target units.

    Parameters
    ----------
    forecasters
        Fitted forecasters by name.
    panel
        All rows.
    test_begin
        (N,) or one number: first test row of each series.
    horizon
        Steps of a window.
    train_end
        (N,) or one number: end of the rows whose deviation and seasonal change are the units of the scaled
        scores; None: ``test_begin``.
    season_length
        Season of MASE, steps; None: the usual one of the frequency.
    **options
        As `window_errors` takes.

    Returns
    -------
    dict
        ``{model: {target or "mean": {"mae", "rmse", "mase"}}}``, see `ErrorSums.by_target`.
    """
    train_end = test_begin if train_end is None else train_end
    training = panel.rows(0, train_end)
    season = usual_season_length(panel.schema.freq) if season_length is None else season_length
    scale = seasonal_scale(training.values, training.indptr, season)
    deviation = series_statistics(training).deviation
    targets = tuple(map(str, panel.schema.targets))
    errors = window_errors(forecasters, panel, test_begin, (horizon,), **options)
    return {name: sums[horizon].by_target(targets, deviation, scale) for name, sums in errors.items()}


def evaluate_long_horizon(
    forecasters: Mapping[str, ArrayForecaster], panel: Panel, protocol: LongHorizonProtocol, **options: Any
) -> Scores:
    """Score forecasters as the public long-horizon benchmarks do.

    Parameters
    ----------
    forecasters
        Forecasters by name, fitted on rows before ``protocol.test_begin``.
    panel
        One series with all its channels.
    protocol
        Split and horizons.
    **options
        As `window_errors` takes.

    Returns
    -------
    dict
        ``{model: {"96": {"mse", "mae"}, ...}}`` on data standardised by the deviation of the training rows: a plain
        mean over window, step and channel.

    Raises
    ------
    ValueError
        When the panel has fewer rows than the protocol.
    """
    if panel.lengths.min() < protocol.n_rows:
        raise ValueError(f"this benchmark needs {protocol.n_rows} rows, the data have {panel.lengths.min()}")
    deviation = series_statistics(panel, np.full(panel.n_series, protocol.n_train)).deviation
    used = panel.rows(0, protocol.n_rows)
    errors = window_errors(forecasters, used, protocol.test_begin, protocol.horizons, **options)
    return {
        name: {str(horizon): sums[horizon].standardised(deviation) for horizon in protocol.horizons}
        for name, sums in errors.items()
    }
