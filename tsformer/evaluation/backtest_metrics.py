"""Metrics of a backtest, per series, per step and overall, by the losses of utilsforecast.

Letters: P pairs of a series and a cut-off, T rows, C channels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from utilsforecast import losses

from tsformer.config import check_integer
from tsformer.data.columns import read_time, to_wall_time
from tsformer.data.frames import to_pandas
from tsformer.data.frequency import season_length as usual_season_length
from tsformer.data.panel import Panel, to_panel
from tsformer.metrics import divide

# Columns of medians and intervals: TransformerForecaster-median, TransformerForecaster-lo-80.
SUFFIX = re.compile(r"-(?:median|(lo|hi)-(\d+(?:\.\d+)?))$")


class BacktestMetrics(NamedTuple):
    """Metrics of a backtest: one row a metric (and target), one column a forecaster; NaN where one is not defined.

    In target units: ``mae``, ``rmse``. Shares of 1: ``smape``, ``wape``, ``coverage_level80``. In units of the change
    over a season in the rows before the cut-off: ``mase``, ``rmsse``, and ``scaled_mqloss``, the mean loss of the
    quantiles in the frame. In units of the mean of ``|y|``: ``scaled_crps``, from the same quantiles.
    """

    overall: pd.DataFrame
    """``target`` (where there are several), ``metric``; means over series."""
    by_step: pd.DataFrame
    """``target``, ``step`` (1 to H), ``metric``; means over series."""
    by_series: pd.DataFrame
    """The id, ``target``, ``metric``; over all cut-offs and steps of a series."""


def backtest_metrics(
    frame: pd.DataFrame,
    df: Any = None,
    *,
    season_length: int | None = None,
    freq: str | int | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_cols: Any = None,
) -> BacktestMetrics:
    """Return the metrics of every forecaster in a backtest. Rows without truth do not count.

    Parameters
    ----------
    frame
        What `tsformer.backtest` returned.
    df
        The data that it was made from, for the metrics in units of the seasonal change (``mase``, ``rmsse``,
        ``scaled_mqloss``); None: without them.
    season_length
        Season of that change, steps; None: the usual one of the frequency.
    freq, id_col, time_col, target_cols
        How to read ``df``, as in `TransformerForecaster`.

    Returns
    -------
    BacktestMetrics
        The frames ``overall``, ``by_step`` and ``by_series``, of the library that ``frame`` is of.

    Raises
    ------
    ValueError
        When a column is missing, a forecast is missing where the truth is known, or ``df`` is not the data of
        ``frame``.

    Examples
    --------
    >>> import numpy as np
    >>> from tsformer import RepeatLast, backtest
    >>> line = np.arange(20.0)
    >>> metrics = backtest_metrics(backtest(RepeatLast(prediction_length=2), line), line)
    >>> metrics.by_step.query("metric == 'mae'")["RepeatLast"].tolist()
    [1.0, 2.0]
    """
    frame, restore = to_pandas(frame)
    models = _models(frame, id_col, time_col)
    # 1. What is scored, the series (and target) and step of each row, and the unit of its scaled errors.
    frame = frame.reset_index(drop=True)
    values = frame[["y", *(column for columns in models.values() for column in columns)]]
    of_series = [id_col, "target"] if "target" in frame else [id_col]
    groups = frame.groupby(of_series, observed=True, sort=False)
    names, series = groups.size().index.to_frame(index=False), groups.ngroup()
    windows = frame.sort_values(time_col, kind="stable").groupby([*of_series, "cutoff"], observed=True)
    step = windows.cumcount().reindex(frame.index)
    units = None
    if df is not None:
        panel = to_panel(df, freq=freq, id_col=id_col, time_col=time_col, target_cols=target_cols)
        season = usual_season_length(panel.schema.freq) if season_length is None else season_length
        units = _units(frame, panel, check_integer("season_length", season, minimum=1), id_col)

    # 2. Observed truth only, and no forecast may be missing there.
    known = frame["y"].notna()
    values, series, step = values[known], series[known], step[known]
    units = None if units is None else units[known]
    missing = values.columns[values.isna().any()]
    if len(missing):
        raise ValueError(f"{missing[0]} has missing forecasts where the truth is known: they cannot be scored")

    # 3. Scores of each series, and of each of its steps; then their means.
    by_series = _scores(values, series, units, models)
    by_series = by_series.assign(**names.loc[by_series.pop("_key")].reset_index(drop=True))
    n_steps = int(step.max()) + 1 if len(step) else 1
    each = _scores(values, series * n_steps + step, units, models)
    key = each.pop("_key")
    each = each.assign(step=key % n_steps + 1, **names.loc[key // n_steps].reset_index(drop=True))
    by_target, heads = of_series[1:], list(models)
    overall = by_series.groupby([*by_target, "metric"], observed=True, sort=False)[heads].mean().reset_index()
    by_step = each.groupby([*by_target, "step", "metric"], observed=True, sort=False)[heads].mean().reset_index()
    return BacktestMetrics(*map(restore, (overall, by_step, by_series[[*of_series, "metric", *heads]])))


def _models(frame: pd.DataFrame, id_col: str, time_col: str) -> dict[str, list[str]]:
    """Return each forecaster's columns: its own, then those of its median and intervals."""
    columns = [str(column) for column in frame]
    missing = [column for column in (id_col, "cutoff", time_col, "y") if column not in columns]
    if missing:
        raise ValueError(f"no backtest: the column {missing[0]!r} is missing, there are {', '.join(columns)}")
    others = [column for column in columns if column not in (id_col, "cutoff", time_col, "target", "y")]
    heads = [column for column in others if not SUFFIX.search(column)]
    return {head: [c for c in others if c == head or SUFFIX.sub("", c) == head] for head in heads}


def _scores(
    values: pd.DataFrame, key: pd.Series, units: pd.DataFrame | None, models: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return every metric of every group of rows: ``_key``, ``metric`` and a column a forecaster, in this order."""
    heads = list(models)

    def score(loss: Any, unit: Any = 1.0, models: Any = heads, **options: Any) -> pd.DataFrame:
        rows = values.div(unit, axis=0).assign(_key=key)
        return loss(rows, models, id_col="_key", target_col="y", **options).set_index("_key").sort_index()

    found = {name: score(getattr(losses, name)) for name in ("mae", "rmse", "smape")}
    volume = values["y"].abs().groupby(key).mean()
    found["wape"] = found["mae"].div(volume.where(volume > 0), axis=0)
    if units is not None:
        found["mase"] = score(losses.mae, units["mean"])
        found["rmsse"] = score(losses.rmse, units["root"])
    for head, columns in models.items():
        ends = {match[0]: match for match in map(SUFFIX.search, columns) if match}
        if not ends:
            continue
        quantiles = np.array([_quantile(*match.groups()) for match in ends.values()])
        given = {"models": {head: [head + suffix for suffix in ends]}, "quantiles": quantiles}
        of_head = {"scaled_crps": score(losses.scaled_crps, **given)}
        if units is not None:
            of_head["scaled_mqloss"] = score(losses.mqloss, units["mean"], **given)
        for side, level in (match.groups() for match in ends.values()):
            if side == "lo" and f"-hi-{level}" in ends:
                of_head[f"coverage_level{level}"] = score(losses.coverage, models=[head], level=level)
        for metric, scores in of_head.items():
            found[metric] = scores if metric not in found else found[metric].join(scores)
    order = pd.MultiIndex.from_product([found["mae"].index, list(found)], names=["_key", "metric"])
    scores = pd.concat(found, names=["metric"]).reorder_levels(["_key", "metric"])
    return scores.reindex(index=order, columns=heads).reset_index()


def _quantile(side: str | None, level: str | None) -> float:
    """Return the quantile of a column by its suffix."""
    if side is None or level is None:
        return 0.5
    return 0.5 + (-1 if side == "lo" else 1) * float(level) / 200


def _units(frame: pd.DataFrame, panel: Panel, season: int, id_col: str) -> pd.DataFrame:
    """Return mean and root mean square of the change over a season before the cut-off of each row; NaN for none."""
    # 1. Series, row of the cut-off and channel of each row of the frame.
    series = np.zeros(len(frame), dtype=np.int64)
    if panel.schema.layout == "long":
        series = pd.Index(panel.ids).get_indexer(pd.Index(np.asarray(frame[id_col])))
    time = read_time(frame["cutoff"], "cutoff")
    stamps = time.stamps
    if time.zone is not None and not panel.grid.is_absolute:
        stamps = to_wall_time(stamps, time.zone)
    stamps, grid = stamps.astype(panel.start.dtype), panel.grid
    ahead = grid.ordinals(stamps) - grid.ordinals(panel.start)[series]
    end = ahead // grid.stride(stamps.dtype) + 1
    if (series < 0).any() or (end < 1).any() or (end > panel.lengths[series]).any():
        raise ValueError("df is not the data of this backtest: some of its ids or cut-offs are not there")
    channel = np.zeros(len(frame), dtype=np.int64)
    if "target" in frame:
        channel = pd.Index(map(str, panel.schema.targets)).get_indexer(pd.Index(frame["target"].astype(str)))
    if (channel < 0).any():
        raise ValueError(f"df is not the data of this backtest: its targets are {panel.schema.targets}")

    # 2. Changes over a season, summed between cut-offs, then up to each.
    change = np.full_like(panel.values, np.nan)
    change[season:] = np.abs(panel.values[season:] - panel.values[:-season])
    of_row = np.repeat(np.arange(panel.n_series), panel.lengths)
    change[season:][of_row[season:] != of_row[:-season]] = np.nan  # a pair that straddles two series is no pair
    until, pair = np.unique(panel.indptr[series] + end, return_inverse=True)  # (P,) sorted: series, then cut-off
    of_pair = of_row[until - 1]
    part = np.searchsorted(until, np.arange(len(of_row)), side="right")
    inside = np.flatnonzero(part < len(until))
    inside = inside[of_pair[part[inside]] == of_row[inside]]  # not behind the last cut-off of a series
    sums = []
    for power in (0, 1, 2):
        parts = pd.DataFrame(np.where(np.isnan(change), 0.0, change**power)[inside]).groupby(part[inside]).sum()
        sums.append(parts.reindex(np.arange(len(until)), fill_value=0.0).groupby(of_pair).cumsum().to_numpy())
    count, first, second = sums  # (P, C)
    mean, root = divide(first, count), np.sqrt(divide(second, count))
    units = pd.DataFrame({"mean": mean[pair, channel], "root": root[pair, channel]}, index=frame.index)
    return units.where(units > 0)  # nothing is measured in units of 0
