"""Every window of the test rows, forecast by every forecaster.

Stride 1, none dropped. Contexts may reach back over training rows; truth that is missing is not scored.
Letters: B windows, N series, H horizon steps, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
from tqdm import tqdm

from tsformer.data.panel import Panel, frame_ids, frame_time
from tsformer.data.windows import test_cutoffs
from tsformer.evaluation.arrays import rows_at
from tsformer.metrics import ErrorSums


class ArrayForecaster(Protocol):
    """What can be evaluated. ``prefix_consistent = True`` says that a short forecast begins a longer one."""

    def forecast_windows(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> np.ndarray:
        """Forecast (B, H, C) in target units from the rows before each cut-off."""


def window_errors(
    forecasters: Mapping[str, ArrayForecaster],
    panel: Panel,
    test_begin: np.ndarray | int,
    horizons: Sequence[int],
    *,
    batch_size: int = 256,
    progress: bool = True,
    on_forecasts: Callable[[pd.DataFrame], None] | None = None,
) -> dict[str, dict[int, ErrorSums]]:
    """Forecast every test window and sum the errors, horizon by horizon.

    A window counts for a horizon when all its steps lie inside the series. A forecaster that declares
    ``prefix_consistent`` is rolled out once, to the longest horizon; others are asked for each.

    Parameters
    ----------
    forecasters, panel, test_begin
        As in `evaluate_windows`.
    horizons
        Steps of a window.
    batch_size
        Windows forecast at a time.
    progress
        Show a bar in a terminal when it takes more than two seconds.
    on_forecasts
        Called with the forecasts of each batch as a frame, see `forecast_frame`; with several horizons once for
        each, and a column ``horizon``.

    Returns
    -------
    dict
        Model, then horizon, then its sums.

    Raises
    ------
    ValueError
        When no series has as many test rows as the shortest horizon.
    """
    shortest, longest = min(horizons), max(horizons)
    series, cutoffs = test_cutoffs(panel.lengths, np.broadcast_to(test_begin, panel.n_series), shortest)
    if not len(series):
        raise ValueError(
            f"there is no test window: no series has the {shortest} test rows that one forecast needs. "
            f"Give more rows, or a shorter horizon"
        )
    errors = {name: {h: ErrorSums(panel.n_series, panel.n_channels) for h in horizons} for name in forecasters}
    # disable=None: shown only where there is a terminal to show it in.
    with tqdm(total=len(series), desc="Test", unit="window", delay=2, disable=None if progress else True) as bar:
        for i in range(0, len(series), batch_size):
            window = series[i : i + batch_size], cutoffs[i : i + batch_size]
            truth = rows_at(panel, *window, longest)
            forecasts: dict[int, dict[str, np.ndarray]] = {h: {} for h in horizons}
            all_fits = {h: window[1] + h <= panel.lengths[window[0]] for h in horizons}
            fits = {h: fit for h, fit in all_fits.items() if fit.any()}
            for name, forecaster in forecasters.items():
                rollout = None
                if getattr(forecaster, "prefix_consistent", False):
                    rollout = forecaster.forecast_windows(panel, *window, longest)
                for h, fit in fits.items():
                    chosen = window[0][fit], window[1][fit]
                    if rollout is not None:
                        forecast = rollout[fit, :h]
                    else:
                        forecast = forecaster.forecast_windows(panel, *chosen, h)
                    errors[name][h].add(chosen[0], truth[fit, :h], forecast)
                    if on_forecasts is not None:
                        forecasts[h][name] = forecast
            if on_forecasts is not None:
                for h, fit in fits.items():
                    chosen = window[0][fit], window[1][fit]
                    frame = forecast_frame(panel, *chosen, truth[fit, :h], forecasts[h])
                    on_forecasts(frame.assign(horizon=h) if len(horizons) > 1 else frame)
            bar.update(len(window[0]))
    return errors


def forecast_frame(
    panel: Panel, series: np.ndarray, cutoffs: np.ndarray, truth: np.ndarray, forecasts: Mapping[str, np.ndarray]
) -> pd.DataFrame:
    """Return forecasts of windows beside the truth, one row a window, step and target.

    Parameters
    ----------
    panel
        The data.
    series, cutoffs
        (B,) series of each window, and its first row forecast.
    truth
        (B, H, C) target units, NaN where missing.
    forecasts
        (B, H, C) by model, target units.

    Returns
    -------
    DataFrame
        ``cutoff`` (stamp of the last row that the forecast may know), ``ds``, ``id``, ``target``, ``y`` and one
        column a model, in target units.
    """
    n_windows, horizon, n_channels = truth.shape
    row_series = np.repeat(series, horizon)
    ahead = np.tile(np.arange(horizon), n_windows)
    targets = pd.Index(map(str, panel.schema.targets))
    columns: dict[str, Any] = {
        "cutoff": frame_time(panel, row_series, np.repeat(cutoffs - 1, horizon)).repeat(n_channels),
        "ds": frame_time(panel, row_series, np.repeat(cutoffs, horizon) + ahead).repeat(n_channels),
        "id": frame_ids(panel, row_series).repeat(n_channels),
        "target": pd.Categorical.from_codes(np.tile(np.arange(n_channels), n_windows * horizon), categories=targets),
        "y": truth.reshape(-1),
    }
    return pd.DataFrame(columns | {name: forecast.reshape(-1) for name, forecast in forecasts.items()})
