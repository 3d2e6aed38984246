"""Rolling-origin backtests: what a forecaster would have said, had it been asked before.

Letters: B windows, N series, W windows of a series, H horizon steps, C channels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from tqdm import tqdm

from tsformer.config import check_integer
from tsformer.data.frames import to_pandas
from tsformer.data.panel import Panel, Schema
from tsformer.evaluation.arrays import rows_at
from tsformer.evaluation.rolling import forecast_frame
from tsformer.fitted import check_reach
from tsformer.forecaster import TransformerForecaster
from tsformer.intervals import check_levels, interval_columns
from tsformer.plan import make_plan

# Windows forecast between two steps of the progress bar.
CHUNK = 4096


def backtest(
    forecaster: Any,
    df: Any,
    *,
    windows: int = 5,
    step: int | None = None,
    horizon: int | None = None,
    refit: bool | int = False,
    level: Sequence[float] | float | None = None,
    quantiles: Sequence[float] | None = None,
    progress: bool = True,
) -> Any:
    """Forecast the past from a rolling origin, and put the truth beside it.

    Each series has its own cut-offs, ``step`` apart, the last one ``horizon`` steps before its end. A forecast knows
    the rows before its cut-off. A series too short for all windows has those that leave at least one row before the
    cut-off.

    Nothing is fitted or scaled on rows after a cut-off. With ``refit=False``, a forecaster that is fitted already is
    used as it is if the training rows of every series of ``df`` ended at that series' first cut-off or earlier. In all
    other cases a clone is fitted; the forecaster itself is never changed.

    Parameters
    ----------
    forecaster
        `TransformerForecaster` or a baseline, fitted or not; or several, as a list or ``{name: forecaster}``.
    df
        All rows: a long or wide frame, a Series or an array. Each forecaster reads it by its own parameters.
    windows
        Cut-offs of each series, W.
    step
        Steps between them; None: ``horizon``.
    horizon
        Steps to forecast, H; None: the forecasters' ``prediction_length``.
    refit
        False: fitted once, on the rows before the first cut-off. True: again before each cut-off. An integer k: before
        every k-th.
    level
        Coverages of intervals in percent, such as ``[80, 95]``. Baselines have none and get no such columns.
    quantiles
        Levels in (0, 1), as ``predict`` takes them.
    progress
        Show a bar in a terminal when it takes more than two seconds.

    Returns
    -------
    DataFrame
        One row for each series, cut-off, step (and target), in this order, in target units: the id (column
        ``unique_id``, or as the forecaster names it; of data without ids the target), ``cutoff`` (the last stamp that
        the forecast knows), the time (``ds`` or its name), ``target`` where there are several, ``y``, and for each
        forecaster its column, named after its class or as given, with the suffixes of ``predict``: ``-median``,
        ``-lo-80``, ``-hi-80``. `backtest_metrics` and utilsforecast read it. Of the library that ``df`` is of.

    Raises
    ------
    ValueError
        When no series is long enough for a window, or the forecasters disagree about targets or horizon.

    Warns
    -----
    UserWarning
        When not even the longest series has all windows.

    Examples
    --------
    >>> import numpy as np
    >>> from tsformer import SeasonalNaive
    >>> wave = np.sin(np.arange(60) * 2 * np.pi / 12)
    >>> frame = backtest(SeasonalNaive(prediction_length=6, season_length=12), wave, windows=2)
    >>> frame.columns.tolist(), frame["cutoff"].unique().tolist()
    (['unique_id', 'cutoff', 'ds', 'y', 'SeasonalNaive'], [47, 53])
    """
    forecasters = named(forecaster)
    horizon = _common_horizon(forecasters, horizon)
    windows = check_integer("windows", windows, minimum=1)
    step = horizon if step is None else check_integer("step", step, minimum=1)
    every = {False: windows, True: 1}[refit] if isinstance(refit, bool) else check_integer("refit", refit, minimum=1)
    df, restore = to_pandas(df)
    panels = {name: model.read_panel(df) for name, model in forecasters.items()}
    panel = _same_rows(panels)
    wanted = interval_columns(quantiles, level)
    if (level is not None or quantiles is not None) and not any(map(_has_intervals, forecasters.values())):
        raise ValueError(f"{', '.join(forecasters)}: point forecasts only, leave out level and quantiles")
    _check_columns(panel.schema, forecasters, wanted)
    origins = rolling_origins(panel.lengths, windows, step, horizon)
    for name, model in forecasters.items():  # all of them before the first is trained
        if _has_intervals(model):
            _check_network(model, panels[name], origins.first_end, horizon, wanted, may_reuse=refit is False)

    shape = len(origins.series), horizon, panel.n_channels
    columns: dict[str, np.ndarray] = {}
    # disable=None: shown only where there is a terminal to show it in.
    hidden = None if progress else True
    with tqdm(total=len(panels) * shape[0], desc="Backtest", unit="window", delay=2, disable=hidden) as bar:
        for name, model in forecasters.items():
            for chosen, end in origins.rounds(every):
                fitted = _fitted_before(model, panels[name], end, may_reuse=refit is False)
                for part in np.array_split(chosen, -(-len(chosen) // CHUNK)):
                    window = origins.series[part], origins.cutoffs[part]
                    forecasts = _forecast(fitted, panels[name], *window, horizon, quantiles, level)
                    for suffix, values in forecasts.items():
                        columns.setdefault(f"{name}{suffix}", np.empty(shape))[part] = values
                    bar.update(len(part))
    return restore(_frame(panel, origins, horizon, columns), {"cutoff": panel.schema.time_col or "ds"})


@dataclass(frozen=True)
class Origins:
    """The windows of a backtest, in order of series, then cut-off.

    Parameters
    ----------
    series, cutoffs, number
        (B,) series of each window, its first row to forecast, and its number among the windows asked for.
    ends
        (W, N) rows before the cut-off of each number, which may be fitted on; 0 where a series is too short.
    """

    series: np.ndarray
    cutoffs: np.ndarray
    number: np.ndarray
    ends: np.ndarray

    @property
    def first_end(self) -> np.ndarray:
        """(N,) rows before the first cut-off, which the first fit may see."""
        return self.ends[int(self.number.min())]

    def rounds(self, every: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield windows (indices) that share a fit, and the rows (N,) that it may see: those before their first."""
        for begin in range(int(self.number.min()), len(self.ends), every):
            yield np.flatnonzero((self.number >= begin) & (self.number < begin + every)), self.ends[begin]


def rolling_origins(lengths: np.ndarray, windows: int, step: int, horizon: int) -> Origins:
    """Return the last cut-offs of each series, the latest at ``horizon`` steps before its end.

    Parameters
    ----------
    lengths
        (N,) rows of each series.
    windows, step, horizon
        Cut-offs of a series, steps between them, and steps after each.

    Raises
    ------
    ValueError
        When no series has a row before a cut-off.

    Warns
    -----
    UserWarning
        When none has all of them.

    Examples
    --------
    >>> origins = rolling_origins(np.array([20, 7]), windows=3, step=4, horizon=5)
    >>> origins.series.tolist(), origins.cutoffs.tolist(), origins.number.tolist()
    ([0, 0, 0, 1], [7, 11, 15, 2], [0, 1, 2, 2])
    """
    cutoffs = lengths[:, None] - horizon - step * np.arange(windows)[::-1]  # (N, W)
    series, number = np.nonzero(cutoffs > 0)
    if not len(series):
        raise ValueError(
            f"no series is long enough for a backtest: the longest has {lengths.max()} rows, and horizon={horizon} "
            f"needs {horizon + 1} at least. Give more rows, or a shorter horizon"
        )
    if number.min() > 0:
        warnings.warn(
            f"not even the longest series, of {lengths.max()} rows, has {windows} windows: there are "
            f"{windows - number.min()}. More would fit with a shorter horizon or step",
            UserWarning,
            stacklevel=3,
        )
    return Origins(series, cutoffs[series, number], number, np.maximum(cutoffs, 0).T)


def named(forecaster: Any) -> dict[str, Any]:
    """Return one or several forecasters by name, that of the class unless others are given."""
    if isinstance(forecaster, Mapping):
        forecasters = dict(forecaster)
    else:
        several = list(forecaster) if isinstance(forecaster, (list, tuple)) else [forecaster]
        forecasters = {type(model).__name__: model for model in several}
        if len(forecasters) < len(several):
            raise ValueError("several forecasters of one class need names: {'narrow': ..., 'wide': ...}")
    if not forecasters:
        raise ValueError("no forecaster given")
    for name, model in forecasters.items():
        if isinstance(model, type) or not (hasattr(model, "fit_panel") and hasattr(model, "forecast_windows")):
            raise TypeError(f"{name}={model!r} is no forecaster: give a TransformerForecaster or a baseline")
    return forecasters


def _common_horizon(forecasters: Mapping[str, Any], horizon: int | None) -> int:
    """Return the horizon asked for, or the one that all forecasters have."""
    if horizon is not None:
        return check_integer("horizon", horizon, minimum=1)
    lengths = {name: model.prediction_length for name, model in forecasters.items()}
    if len(set(lengths.values())) > 1:
        of_each = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the forecasters' prediction_length differ ({of_each}): set horizon")
    return check_integer("prediction_length", next(iter(lengths.values())), minimum=1)


def _has_intervals(model: Any) -> bool:
    """Return whether a forecaster may have more than point forecasts."""
    return isinstance(model, TransformerForecaster)


def _check_network(
    model: TransformerForecaster,
    panel: Panel,
    end: np.ndarray,
    horizon: int,
    wanted: dict[str, float],
    *,
    may_reuse: bool,
) -> None:
    """Refuse parameters, a horizon and quantiles that a forecaster cannot have, before any is fitted."""
    if may_reuse and trained_before(model, panel, end):  # what it has learned counts, not what it is set to
        config, is_calibrated = model.model_.config, model._fitted.calibration is not None
    else:
        plan = make_plan(panel.rows(0, end), vars(model))
        config, is_calibrated = plan.model, plan.training.calibrate
    check_reach(config, horizon)
    if config.distribution is None:
        check_levels(wanted, config.quantiles, is_calibrated=is_calibrated)


def _check_columns(schema: Schema, names: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse columns of the data and forecasters whose names are those of other columns of the result."""
    id_col, time_col = schema.id_col, schema.time_col or "ds"
    own = ["cutoff", "target", "y"]
    for role, name, others in (("id", id_col, [*own, "ds"]), ("time", time_col, [*own, "id"])):
        if name in others:
            raise ValueError(
                f"the {role} column cannot be named {name!r}, which is another column of the result: rename it, and "
                f"set {role}_col"
            )
    taken = {id_col, time_col, *own, "id", "ds"}
    for name in names:
        for column in (name, *(f"{name}{suffix}" for suffix in wanted)):
            if column in taken:
                raise ValueError(f"a forecaster cannot be named {name!r}: {column!r} is another column of the result")
            taken.add(column)


def _same_rows(panels: Mapping[str, Panel]) -> Panel:
    """Return the panel of the first forecaster, held to be that of all of them."""
    (first, panel), *others = panels.items()
    for name, other in others:
        for what, ours, theirs in (
            ("targets", panel.schema.targets, other.schema.targets),
            ("frequency", panel.schema.freq, other.schema.freq),
            ("ids", panel.schema.id_col, other.schema.id_col),
            ("time", panel.schema.time_col, other.schema.time_col),
        ):
            if ours != theirs:
                raise ValueError(
                    f"{first} and {name} read the data differently ({what} {ours!r} and {theirs!r}): give both the "
                    f"same freq, id_col, time_col and target_cols"
                )
    return panel


def _fitted_before(model: Any, panel: Panel, end: np.ndarray, *, may_reuse: bool) -> Any:
    """Return a forecaster that has seen nothing from row ``end`` (N,) of each series on."""
    if may_reuse and trained_before(model, panel, end):
        return model
    return clone(model).fit_panel(panel.rows(0, end))


def trained_before(model: Any, panel: Panel, end: np.ndarray) -> bool:
    """Whether a forecaster is fitted on data of this kind, and saw no row from ``end`` (N,) of these series on."""
    tail = getattr(model, "tail_", None)  # of the baselines
    if tail is None and hasattr(model, "_fitted"):
        tail = model._fitted.tail
    if tail is None:  # not fitted, or saved without its history: nobody knows when that ended
        return False
    if (tail.schema.layout, tail.schema.targets, tail.schema.freq) != (
        panel.schema.layout,
        panel.schema.targets,
        panel.schema.freq,
    ):
        return False
    place = pd.Index(panel.ids).get_indexer(pd.Index(tail.ids))
    (common,) = np.nonzero(place >= 0)
    after = tail.stamps(common, tail.lengths[common])
    return bool((after <= panel.stamps(place[common], end[place[common]])).all())


def _forecast(
    fitted: Any,
    panel: Panel,
    series: np.ndarray,
    cutoffs: np.ndarray,
    horizon: int,
    quantiles: Sequence[float] | None,
    level: Sequence[float] | float | None,
) -> dict[str, np.ndarray]:
    """Return forecasts (B, H, C) of windows by the suffix of their column."""
    if isinstance(fitted, TransformerForecaster):
        return fitted.forecast_columns(panel, series, cutoffs, horizon, quantiles=quantiles, level=level)
    return {"": fitted.forecast_windows(panel, series, cutoffs, horizon)}


def _frame(panel: Panel, origins: Origins, horizon: int, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the forecasts (B, H, C) beside the truth."""
    schema = panel.schema
    truth = rows_at(panel, origins.series, origins.cutoffs, horizon)
    frame = forecast_frame(panel, origins.series, origins.cutoffs, truth, columns)
    if schema.layout != "long":
        frame["id"] = frame["target"].astype(object)
    if panel.n_channels == 1:
        del frame["target"]
    id_col, time_col = schema.id_col, schema.time_col or "ds"
    frame.insert(0, id_col, frame.pop("id"))
    return frame.rename(columns={"ds": time_col})
