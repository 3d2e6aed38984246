"""Scores on test rows, and the public protocols: long horizons, and M4.

Letters: N series, H horizon steps, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsformer.data.frequency import season_length as usual_season_length
from tsformer.data.panel import Panel
from tsformer.data.windows import series_statistics
from tsformer.evaluation.arrays import rows_at
from tsformer.evaluation.baselines import RepeatLast, RidgeForecaster, SeasonalNaive
from tsformer.evaluation.naive2 import Naive2
from tsformer.evaluation.rolling import ArrayForecaster, forecast_frame, window_errors
from tsformer.metrics import as_json, mae, seasonal_scale, smape

Scores = dict[str, dict[str, dict[str, float | None]]]
"""Model, then target (or horizon), then metric; None where the metric is not defined."""
M4Scores = dict[str, dict[str, float | None]]
"""Model, then metric."""


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
    ridge_context
        Look-back of the ridge control, steps.
    """

    n_train: int
    n_validation: int
    n_test: int
    horizons: tuple[int, ...] = (96, 192, 336, 720)
    season_length: int = 24
    ridge_context: int = 336

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
    "illness": LongHorizonProtocol(676, 97, 193, horizons=(24, 36, 48, 60), season_length=52, ridge_context=104),
}


@dataclass(frozen=True)
class M4Protocol:
    """Official test part of one frequency of the M4 competition (Makridakis et al. 2020): one window a series.

    Parameters
    ----------
    n_series
        N.
    horizon
        H, steps: the last rows of each series, which are the test; the rows before them may be fitted on.
    season_length
        Season of MASE, of `Naive2` and of the seasonal naive control, steps.
    ridge_context
        Look-back of the ridge control, steps.
    """

    n_series: int
    horizon: int
    season_length: int
    ridge_context: int

    def check(self, panel: Panel, horizon: int) -> None:
        """Check that the data are the whole benchmark.

        Raises
        ------
        ValueError
            When there are other series, fewer rows or another horizon: each would be fewer than all test windows.
        """
        if horizon != self.horizon:
            raise ValueError(
                f"this benchmark forecasts {self.horizon} steps: leave prediction_length at that, it is {horizon}"
            )
        if panel.n_series != self.n_series or panel.n_channels != 1:
            raise ValueError(
                f"this benchmark has {self.n_series} series of one target, the data have {panel.n_series} of "
                f"{panel.n_channels}"
            )
        if panel.lengths.min() <= horizon or np.isnan(panel.tail(horizon).values).any():
            raise ValueError(f"this benchmark needs the last {horizon} values of every series, and rows before them")


M4_PROTOCOLS = {
    "m4_hourly": M4Protocol(414, horizon=48, season_length=24, ridge_context=336),
    "m4_weekly": M4Protocol(359, horizon=13, season_length=1, ridge_context=104),
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


def evaluate_m4(
    forecasters: Mapping[str, ArrayForecaster],
    panel: Panel,
    protocol: M4Protocol,
    *,
    on_forecasts: Callable[[pd.DataFrame], None] | None = None,
) -> M4Scores:
    """Score forecasters as the M4 competition does: the last rows of every series, beside `Naive2`.

    Parameters
    ----------
    forecasters
        Forecasters by name, fitted on the rows before the last ``protocol.horizon`` of each series.
    panel
        All rows.
    protocol
        Size, horizon and season.
    on_forecasts
        Called with the forecasts as a frame, see `forecast_frame`.

    Returns
    -------
    dict
        ``{model: {"smape", "mase", "owa"}}``: sMAPE in percent, 0 to 200; MASE in units of the mean change over one
        season before the test; both the mean over steps, then series. OWA is the mean of the two, each divided by that
        of ``"Naive2"``, which is added to the models.

    Raises
    ------
    ValueError
        When the panel is not the whole benchmark, see `M4Protocol.check`.
    """
    horizon, season = protocol.horizon, protocol.season_length
    protocol.check(panel, horizon)
    series, cutoffs = np.arange(panel.n_series), panel.lengths - horizon
    training = panel.rows(0, cutoffs)
    naive = Naive2(horizon, season_length=season).fit_panel(training)
    models = {**forecasters, "Naive2": naive}
    truth = rows_at(panel, series, cutoffs, horizon)  # (N, H, 1)
    forecasts = {name: model.forecast_windows(panel, series, cutoffs, horizon) for name, model in models.items()}
    if on_forecasts is not None:
        on_forecasts(forecast_frame(panel, series, cutoffs, truth, forecasts))
    scale = seasonal_scale(training.values, training.indptr, season)[:, None]  # (N, 1, 1)
    varies = scale[:, 0, 0] > 0  # the others have no MASE

    def smape_and_mase(forecast: np.ndarray) -> tuple[float, float]:
        return smape(truth, forecast), mae(truth[varies] / scale[varies], forecast[varies] / scale[varies])

    scores: M4Scores = {}
    reference = smape_and_mase(forecasts["Naive2"])
    for name, forecast in forecasts.items():
        percent, scaled = smape_and_mase(forecast)
        owa = (percent / reference[0] + scaled / reference[1]) / 2
        scores[name] = {"smape": as_json(percent), "mase": as_json(scaled), "owa": as_json(owa)}
    return scores
