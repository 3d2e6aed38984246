"""Pictures of forecasts.

Figures are made without pyplot: no window, no global state; notebooks show what is returned.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tsformer.data.frames import to_pandas

INK, FORECAST, TRUTH = "#44546a", "#c8553d", "#2a7f62"
OTHERS = (INK, TRUTH, "#b8a04a", "#8a6fa8")
# Columns of intervals, as in ``pm25-lo-80``.
_INTERVAL = re.compile(r"-(lo|hi)-([\d.]+)$")


@dataclass
class Track:
    """One panel of the picture: a target of a series."""

    title: str
    history: pd.Series | None  # values over time
    forecast: pd.Series
    bands: dict[float, tuple[pd.Series, pd.Series]] = field(default_factory=dict)  # coverage in percent: low, high
    truth: pd.Series | None = None


class Picture(Figure):
    """A figure that a notebook shows by itself, without pyplot."""

    def _repr_png_(self) -> bytes:
        """Return what Jupyter displays."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def plot_forecast(
    history: Any,
    forecast: Any,
    *,
    truth: Any = None,
    targets: Sequence[Any] | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    n_history: int | None = None,
    max_panels: int = 12,
) -> Figure:
    """Draw forecasts behind the end of the history, one panel a series and target.

    Parameters
    ----------
    history
        What was forecast from: a long or wide frame, a Series, or an array (T,) or (T, C); None: not drawn.
    forecast
        What ``predict`` returned for it, in target units. Columns ``-lo-80`` and ``-hi-80`` become bands.
    truth
        What came, in the layout of ``history``; None: not drawn.
    targets
        Targets to draw; None: all.
    id_col, time_col
        Names of the id and time columns.
    n_history
        Steps of history drawn; None: three horizons, at least 60.
    max_panels
        Panels drawn at most, the first ones.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        When there is nothing to draw.
    """
    tracks = _tracks(history, forecast, truth, targets, id_col, time_col, n_history, max_panels)
    if not tracks:
        raise ValueError("nothing to draw: the forecast has no rows, or none of its columns is among the targets")
    figure, axes = _axes(len(tracks))
    for axis, track in zip(axes, tracks, strict=True):
        _draw(axis, track)
    _legend(figure, axes[0])
    return figure


def plot_backtest(
    frame: pd.DataFrame,
    *,
    by_step: pd.DataFrame | None = None,
    model: str | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    max_panels: int = 5,
) -> Figure:
    """Draw the forecasts of a backtest over the truth, one panel a series and target, and the error of each step.

    Parameters
    ----------
    frame
        What `tsformer.backtest` returned.
    by_step
        Of `tsformer.backtest_metrics`: its MASE, or else MAE, of every forecaster is drawn in a panel of its own; None:
        no such panel.
    model
        Forecaster drawn; None: the first.
    id_col, time_col
        Names of the id and time columns.
    max_panels
        Series and targets drawn at most, the first ones.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        When there is nothing to draw, or no such forecaster.
    """
    frame, by_step = to_pandas(frame)[0], to_pandas(by_step)[0]
    keys = [id_col, "target"] if "target" in frame else [id_col]
    models = [c for c in frame.columns if c not in (*keys, "cutoff", time_col, "y") and not _suffix(c)]
    model = models[0] if model is None and models else model
    if model not in models or not len(frame):
        raise ValueError(f"nothing to draw: no forecasts of {model!r}, there are {', '.join(map(str, models))}")
    tracks = list(itertools.islice(frame.groupby(keys, observed=True, sort=False), max_panels))
    figure, axes = _axes(len(tracks) + (by_step is not None))
    for axis, (key, rows) in zip(axes, tracks, strict=False):
        rows = rows.set_index(time_col)
        truth = rows["y"][~rows.index.duplicated()].sort_index()
        axis.plot(truth.index, truth.to_numpy(), color=INK, lw=1.1, label="truth")
        for cutoff, window in rows.groupby("cutoff"):
            _draw_forecast(axis, window[model], _bands(window, model))
            axis.axvline(cast(Any, cutoff), color=INK, lw=0.8, ls=":", alpha=0.6)
        _style(axis, " · ".join(dict.fromkeys(map(str, key))), truth.index)
    if by_step is not None:
        _draw_steps(axes[-1], by_step, models)
    _legend(figure, axes[0])
    return figure


def _axes(n_panels: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its panels."""
    n_columns = 1 if n_panels <= 3 else 2 if n_panels <= 8 else 3
    n_rows = -(-n_panels // n_columns)
    figure = Picture(figsize=(8.5 if n_columns == 1 else 5.5 * n_columns, 1.0 + 2.1 * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for axis in axes[n_panels:]:
        axis.set_axis_off()
    return figure, axes[:n_panels]


def _legend(figure: Figure, axis: Axes) -> None:
    """Put the legend of one panel, each label once, above all."""
    handles, labels = axis.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(list(once.values()), list(once), loc="outside upper left", ncols=len(once), frameon=False, fontsize=9)


def _draw(axis: Axes, track: Track) -> None:
    """Draw one panel."""
    first = track.forecast.index[0]
    history, line = track.history, track.forecast
    if history is not None and len(history):
        axis.plot(history.index, history.to_numpy(), color=INK, lw=1.1, label="history")
        if np.isfinite(history.iloc[-1]):  # no gap between the last value known and the first forecast
            line = pd.concat([history.iloc[-1:], line])
    if track.truth is not None:
        axis.plot(track.truth.index, track.truth.to_numpy(), color=TRUTH, lw=1.1, label="truth")
    _draw_forecast(axis, line, track.bands)
    axis.axvline(first, color=INK, lw=0.8, ls=":", alpha=0.6)
    _style(axis, track.title, track.forecast.index)


def _draw_forecast(axis: Axes, line: pd.Series, bands: dict[float, tuple[pd.Series, pd.Series]]) -> None:
    """Draw a forecast and its intervals."""
    for coverage in sorted(bands, reverse=True):
        low, high = bands[coverage]
        axis.fill_between(
            low.index, low.to_numpy(), high.to_numpy(), color=FORECAST, alpha=0.16, lw=0, label=f"{coverage:g} %"
        )
    axis.plot(line.index, line.to_numpy(), color=FORECAST, lw=1.6, label="forecast")


def _draw_steps(axis: Axes, by_step: pd.DataFrame, models: list[Any]) -> None:
    """Draw the error of each step, a line a forecaster; the mean over targets, which MASE makes comparable."""
    metric = "mase" if "mase" in set(by_step["metric"]) else "mae"
    errors = by_step[by_step["metric"] == metric].groupby("step")[models].mean()
    for number, model in enumerate(models):
        color = FORECAST if number == 0 else OTHERS[(number - 1) % len(OTHERS)]
        axis.plot(errors.index, errors[model].to_numpy(), color=color, lw=1.4, marker=".", ms=4, label=str(model))
    for text in axis.legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)
    axis.set_ylim(bottom=0)
    _style(axis, f"{metric.upper()} by step", errors.index)


def _style(axis: Axes, title: str, time: pd.Index) -> None:
    """Give an axis its title, grid and ticks."""
    axis.set_title(title, loc="left", fontsize=10, parse_math=False)  # a $ in a name is a $
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e6e6e6", lw=0.7)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.xaxis.get_offset_text().set_fontsize(8)
    axis.margins(x=0.01)
    if isinstance(time, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=8)
        axis.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator, tz=time.tz)
        # Days with their month: by default 29 30 31 Jan, as if all were January.
        formatter.formats[2] = formatter.zero_formats[2] = formatter.zero_formats[3] = "%d %b"
        formatter.offset_formats[2] = "%Y"
        axis.xaxis.set_major_formatter(formatter)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _tracks(
    history: Any,
    forecast: Any,
    truth: Any,
    targets: Sequence[Any] | None,
    id_col: str,
    time_col: str,
    n_history: int | None,
    max_panels: int,
) -> list[Track]:
    """Cut forecast, history and truth into panels."""
    tracks = []
    past, future = _as_frame(history, id_col, time_col), _as_frame(truth, id_col, time_col)
    for name, of_series in _series(_as_frame(forecast, id_col, time_col), id_col):
        before, after = _of(past, id_col, name), _of(future, id_col, name)
        heads = [column for column in of_series.columns if not _suffix(column)]
        for head in heads:
            target = _target_of(head, heads, before, targets)
            if targets is not None and target not in list(targets):
                continue
            steps = max(60, 3 * len(of_series)) if n_history is None else n_history
            tracks.append(
                Track(
                    title=str(target) if name is None else f"{name} · {target}" if len(heads) > 1 else str(name),
                    history=None if before is None else before[target].iloc[-steps:],
                    forecast=of_series[head],
                    bands=_bands(of_series, head),
                    truth=None if after is None else after[target].iloc[: len(of_series)],
                )
            )
            if len(tracks) == max_panels:
                return tracks
    return tracks


def _as_frame(X: Any, id_col: str, time_col: str) -> pd.DataFrame | None:
    """Return data as a frame with time as its index; ids stay a column."""
    X, _ = to_pandas(X)
    if X is None:
        return None
    if isinstance(X, np.ndarray):
        values = X.reshape(len(X), -1)
        names = ["y"] if values.shape[1] == 1 else [f"y{i}" for i in range(values.shape[1])]
        return pd.DataFrame(values, columns=names)
    frame = X.to_frame(X.name if X.name is not None else "y") if isinstance(X, pd.Series) else X
    return frame.set_index(time_col) if time_col in frame.columns else frame


def _series(frame: pd.DataFrame | None, id_col: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield the id (None: there are none) and rows of each series, in the order of the frame."""
    if frame is None or not len(frame):
        return
    if id_col not in frame.columns:
        yield None, frame
        return
    for name, rows in frame.groupby(id_col, sort=False, observed=True):
        yield name, rows.drop(columns=id_col)


def _of(frame: pd.DataFrame | None, id_col: str, name: Any) -> pd.DataFrame | None:
    """Return the rows of one series in order of time; None where there are none."""
    if frame is None:
        return None
    if id_col in frame.columns:
        frame = frame[frame[id_col] == name]
    if not len(frame):
        return None
    frame = frame.sort_index()
    if not isinstance(frame.index, pd.DatetimeIndex) and frame.index.dtype.kind not in "iu":
        frame = frame.set_axis(pd.to_datetime(frame.index))
    return frame


def _suffix(column: Any) -> bool:
    """Whether a column is an interval or median of another."""
    return isinstance(column, str) and bool(_INTERVAL.search(column) or column.endswith("-median"))


def _target_of(head: Any, heads: list[Any], history: pd.DataFrame | None, targets: Sequence[Any] | None) -> Any:
    """Return the target that a column forecasts: a model's name stands for the only one."""
    if len(heads) > 1 or (history is not None and head in history.columns):
        return head
    if targets is not None and len(targets) == 1:
        return targets[0]
    if history is None:
        return head
    if "y" in history.columns:
        return "y"
    numeric = list(history.select_dtypes("number").columns)
    if len(numeric) == 1:
        return numeric[0]
    raise ValueError(f"the forecast {head!r} is of none of the columns of the history: {', '.join(map(str, numeric))}")


def _bands(frame: pd.DataFrame, head: Any) -> dict[float, tuple[pd.Series, pd.Series]]:
    """Return the intervals of a column by coverage."""
    bands = {}
    for column in frame.columns:
        found = _INTERVAL.search(column) if isinstance(column, str) else None
        if found and found[1] == "lo" and column == f"{head}{found[0]}" and f"{head}-hi-{found[2]}" in frame.columns:
            bands[float(found[2])] = (frame[column], frame[f"{head}-hi-{found[2]}"])
    return bands
