"""The pandas door: frames and arrays become one `Panel`, and forecasts go back as the caller's kind of frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsformer.data.axis import RowAxis, show_stamp, sort_order
from tsformer.data.columns import read_ids, read_numbers, read_time, restore_ids, restore_time, time_zone
from tsformer.data.frequency import Grid, make_grid
from tsformer.data.layout import Label, Layout, read_layout


@dataclass(frozen=True)
class Schema:
    """How the caller's data look, so that forecasts go back the same way.

    Parameters
    ----------
    layout
        What the caller gave.
    id_col
        Name of the id column that makes a frame long.
    time_col
        Name of the time column; None: time is the index.
    targets
        Channel names in order.
    freq
        Canonical pandas alias, or an integer step.
    time_dtype, id_dtype
        As they came.
    index_name, series_name
        Name of a time index, and of a Series.
    id_levels, id_levels_dtype, id_ordered
        Categories of a categorical id column.
    """

    layout: Layout
    id_col: str
    time_col: str | None
    targets: tuple[Label, ...]
    freq: str | int
    time_dtype: str
    id_dtype: str = "object"
    index_name: Label | None = None
    series_name: Label | None = None
    id_levels: tuple[Label, ...] | None = None
    id_levels_dtype: str | None = None
    id_ordered: bool = False

    @property
    def zone(self) -> str | None:
        """Time zone of which the panel's stamps are the UTC; None where they are wall time or have no zone."""
        zone = time_zone(self.time_dtype) if make_grid(self.freq).is_absolute else None
        return None if zone is None else str(zone)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Schema:
        """Return the schema that `to_dict` wrote."""
        plain: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in fields.items()}
        return cls(**plain)


@dataclass(frozen=True)
class Panel:
    """Series on a regular time axis: N series of C channels, end to end in one array of T rows.

    Parameters
    ----------
    values
        (T, C) float64, target units; NaN where missing, also at stamps that the caller's rows skipped.
    indptr
        (N + 1,) int64: series ``i`` is rows ``indptr[i]:indptr[i + 1]``.
    start
        (N,) first stamp of each series: int64, or datetime64 (with a zone: UTC below a day, wall time from a day up).
    ids
        (N,) ids, sorted; one empty id when the data have none.
    schema
        How the data came.
    """

    values: np.ndarray
    indptr: np.ndarray
    start: np.ndarray
    ids: np.ndarray
    schema: Schema

    @property
    def n_series(self) -> int:
        """N."""
        return len(self.ids)

    @property
    def n_channels(self) -> int:
        """C."""
        return self.values.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        """(N,) rows of each series."""
        return np.diff(self.indptr)

    @property
    def grid(self) -> Grid:
        """The time axis."""
        return make_grid(self.schema.freq)

    def stamps(self, series: np.ndarray | int, steps: np.ndarray | int) -> np.ndarray:
        """Return the stamps of step numbers (0: first row), broadcast together; steps may lie beyond either end."""
        return self.grid.advance(self.start[series], np.asarray(steps, dtype=np.int64))

    def rows(self, begin: np.ndarray | int, end: np.ndarray | int) -> Panel:
        """Return the panel of steps ``begin`` to ``end`` (excluded) of each series.

        Parameters
        ----------
        begin, end
            (N,) or one number for all; cut to what a series has. A series left without rows keeps its place.
        """
        first = np.clip(np.broadcast_to(begin, self.n_series), 0, self.lengths)
        lengths = np.clip(np.broadcast_to(end, self.n_series), first, self.lengths) - first
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        index = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1] + first - indptr[:-1], lengths)
        start = self.stamps(np.arange(self.n_series), first)
        return replace(self, values=self.values[index], indptr=indptr, start=start)

    def tail(self, n: np.ndarray | int) -> Panel:
        """Return the panel of the last ``n`` rows of each series."""
        return self.rows(self.lengths - n, self.lengths)

    def describe(self, row: int, channel: int) -> str:
        """Return the column, id and stamp of one value, for messages."""
        series = int(np.searchsorted(self.indptr, row, side="right")) - 1
        stamp = show_stamp(self.stamps(series, row - self.indptr[series]), self.schema.zone)
        of_id = f", id {self.ids[series]!r}" if self.schema.layout == "long" else ""
        return f"column {self.schema.targets[channel]!r}{of_id}, {stamp}"


def to_panel(
    X: Any,
    *,
    freq: str | int | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_cols: Label | Sequence[Label] | None = None,
    schema: Schema | None = None,
) -> Panel:
    """Return data as a panel on a regular time axis. The caller's object is left as it is.

    Parameters
    ----------
    X
        A long frame (it has the column ``id_col``), a wide frame (a time index or ``time_col``; each other numeric
        column a channel), a Series, or an array (T,) or (T, C) with time 0, 1, 2 ...
    freq
        Frequency; None: the most common step.
    id_col, time_col
        Names of the id and time columns.
    target_cols
        Channels; None: ``y`` or the only numeric column of a long frame, all numeric columns of a wide one.
    schema
        That of the data a model was fitted on: names and frequency come from it, columns are matched by name.

    Raises
    ------
    TypeError
        When ``X`` is none of these.
    ValueError
        For missing, duplicate or irregular stamps, missing columns, text or infinite targets, no rows.

    Warns
    -----
    UserWarning
        When stamps are missing from the regular axis; they become missing values.

    Examples
    --------
    >>> import numpy as np
    >>> to_panel(np.arange(6.0)).values.shape
    (6, 1)
    """
    if schema is not None:
        freq, id_col, time_col = schema.freq, schema.id_col, schema.time_col or time_col
    fitted = None if schema is None else (schema.layout, schema.targets)
    data = read_layout(X, id_col=id_col, time_col=time_col, target_cols=target_cols, fitted=fitted)

    # 1. Rows in order of id and time.
    time = read_time(data.time, data.time_name)
    ids = None if data.ids is None else read_ids(data.ids, repr(id_col))
    stamps, codes = time.stamps, np.zeros(len(time.stamps), dtype=np.int8) if ids is None else ids.codes
    order = sort_order(codes, stamps)
    if order is not None:
        stamps, codes = stamps[order], codes[order]
    indptr = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])

    # 2. On one regular axis: in absolute time below a day, by the wall clock from a day up.
    axis = RowAxis(stamps, indptr, None if ids is None else ids.values, data.time_name, time.zone)
    axis.check_duplicates()
    grid = axis.choose_grid(1 if freq is None and data.layout == "array" else freq)
    if not grid.is_absolute:
        axis = axis.in_wall_time()
    rows, new_indptr = axis.place(grid)

    # 3. Values, each at its place.
    values = np.full((new_indptr[-1], len(data.columns)), np.nan)
    for channel, (name, column) in enumerate(zip(data.targets, data.columns, strict=True)):
        numbers = read_numbers(column, name)
        values[rows, channel] = numbers if order is None else numbers[order]
    as_came = Schema(
        layout=data.layout,
        id_col=id_col,
        time_col=data.time_col,
        targets=data.targets,
        freq=grid.freq,
        time_dtype=time.dtype,
        index_name=data.index_name,
        series_name=data.series_name,
    )
    if ids is not None:
        as_came = replace(
            as_came, id_dtype=ids.dtype, id_levels=ids.levels, id_levels_dtype=ids.levels_dtype, id_ordered=ids.ordered
        )
    names = np.array([""], dtype=object) if ids is None else ids.values
    panel = Panel(values, new_indptr, axis.stamps[indptr[:-1]], names, as_came)
    infinite = np.isinf(values)
    if infinite.any():
        row, channel = (int(i) for i in np.argwhere(infinite)[0])
        raise ValueError(
            f"{np.count_nonzero(infinite)} values are infinite, the first: {panel.describe(row, channel)}. "
            f"Replace them by numbers, or by NaN for missing"
        )
    return panel


def check_trainable(panel: Panel) -> None:
    """Check that every channel has an observed value somewhere.

    Raises
    ------
    ValueError
        Naming the channels that have none.
    """
    empty = np.isnan(panel.values).all(axis=0)
    if empty.any():
        names = ", ".join(repr(name) for name, is_empty in zip(panel.schema.targets, empty, strict=True) if is_empty)
        raise ValueError(f"no value of {names} is observed: every row is missing. Leave it out with target_cols")


def to_frame(panel: Panel, columns: dict[str, np.ndarray], *, name: str) -> pd.DataFrame | pd.Series:
    """Return forecasts that continue each series of a panel, as the kind of frame that the caller gave.

    Parameters
    ----------
    panel
        The history, N series of C channels.
    columns
        Suffix (``""`` the forecast itself, ``"-median"``, ``"-lo-80"`` ...) to values (N, H, C), target units.
    name
        Column of the forecast in a long frame of one target; elsewhere the target's name takes its place.

    Returns
    -------
    DataFrame or Series
        Long: id, stamp and the forecasts, N x H rows. Otherwise H rows over the caller's kind of time index or
        column; a Series for a Series, unless there are several columns.
    """
    schema = panel.schema
    horizon = next(iter(columns.values())).shape[1]
    series = np.repeat(np.arange(panel.n_series), horizon)
    ahead = np.tile(np.arange(horizon), panel.n_series)
    time = frame_time(panel, series, panel.lengths[series] + ahead)
    heads = (name,) if schema.layout == "long" and panel.n_channels == 1 else schema.targets
    forecasts = {
        f"{head}{suffix}" if suffix else head: values[:, :, channel].reshape(-1)
        for channel, head in enumerate(heads)
        for suffix, values in columns.items()
    }
    if schema.layout == "series" and len(forecasts) == 1:
        return pd.Series(next(iter(forecasts.values())), index=time.rename(schema.index_name), name=schema.series_name)
    if schema.layout == "long":
        return pd.DataFrame({schema.id_col: frame_ids(panel, series), schema.time_col: time} | forecasts)
    if schema.time_col is not None:
        return pd.DataFrame({schema.time_col: time} | forecasts)
    return pd.DataFrame(forecasts, index=time.rename(schema.index_name))


def frame_time(panel: Panel, series: np.ndarray, steps: np.ndarray) -> pd.Index:
    """Return the stamps (M,) of steps of series as the caller's type of time."""
    absolute = panel.grid.is_absolute
    return restore_time(panel.stamps(series, steps), panel.schema.time_dtype, absolute=absolute)


def frame_ids(panel: Panel, series: np.ndarray) -> pd.Index:
    """Return the ids (M,) of series as the caller's type of id."""
    schema = panel.schema
    ids = restore_ids(panel.ids, schema.id_dtype, schema.id_levels, schema.id_levels_dtype, schema.id_ordered)
    return ids.take(series)
