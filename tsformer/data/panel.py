"""The pandas door: frames and arrays become one `Panel`, and forecasts go back as the caller's kind of frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tsformer.data.axis import RowAxis, sort_order
from tsformer.data.columns import (
    IdColumn,
    TimeColumn,
    is_number,
    one_id,
    read_ids,
    read_numbers,
    read_time,
    restore_ids,
    restore_time,
)
from tsformer.data.covariates import (
    check_roles,
    declare_roles,
    encode_all,
    one_value_a_series,
    static_columns,
    static_rows,
)
from tsformer.data.frames import to_pandas
from tsformer.data.frequency import Grid
from tsformer.data.layout import Label, read_layout
from tsformer.data.series import ROLES, Panel, Schema, check_finite, no_columns

# Imported from here by the rest of the library: this is the door.
from tsformer.data.series import check_support as check_support
from tsformer.data.series import check_trainable as check_trainable
from tsformer.data.series import ruled_out as ruled_out


def to_panel(
    X: Any,
    *,
    freq: str | int | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_cols: Label | Sequence[Label] | None = None,
    known: Label | Sequence[Label] | None = None,
    observed: Label | Sequence[Label] | None = None,
    static: Any = None,
    weight_col: Label | None = None,
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
        Channels; None: ``y`` or the only numeric column of a long frame, all numeric columns of a wide one, without
        the covariates.
    known, observed
        Columns that are covariates: known in the future too, or of the past only. Numbers, booleans, text or
        categories; missing values are allowed.
    static
        Columns of a long frame that have one value an id; or a frame of them, with the ids in ``id_col`` or the index.
    weight_col
        Column of what an error at each row counts, 0 or more; None: all the same. Ignored with a ``schema``: weights
        are for training.
    schema
        That of the data a model was fitted on: names, frequency, covariates and their levels come from it, columns
        are matched by name. Static covariates are columns of ``X``, or the frame ``static``.

    Raises
    ------
    TypeError
        When ``X`` is none of these.
    ValueError
        For missing, duplicate or irregular stamps, missing columns, text or infinite targets, no rows; for covariates
        that are infinite or named twice, static ones that change within an id, and ids that ``static`` lacks; for
        weights that are missing, infinite or below 0, or all 0.

    Warns
    -----
    UserWarning
        When stamps are missing from the regular axis, they become missing values; when covariates have levels that
        training has not seen, so do these.

    Examples
    --------
    >>> import numpy as np
    >>> to_panel(np.arange(6.0)).values.shape
    (6, 1)
    """
    if schema is not None:
        freq, id_col, time_col = schema.freq, schema.id_col, schema.time_col or time_col
    table, static = _static_table(static)
    if schema is not None:
        roles = {covariate.name: covariate.role for covariate in schema.covariates}
    else:
        roles = declare_roles(known, observed, static if table is None else static_columns(table, id_col))
    inside: dict[Label, str] = {name: role for name, role in roles.items() if table is None or role != "static"}
    if schema is not None:
        weight_col = None
    if weight_col is not None:
        if not isinstance(weight_col, (str, int)):
            raise TypeError(f"weight_col must name a column, got {type(weight_col).__name__}")
        if weight_col in roles:
            raise ValueError(f"weight_col={weight_col!r} is also a {roles[weight_col]} covariate: leave it out of one")
        inside |= {weight_col: "weight"}
    fitted = None if schema is None else (schema.layout, schema.targets)
    data = read_layout(
        to_pandas(X)[0], id_col=id_col, time_col=time_col, target_cols=target_cols, fitted=fitted, roles=inside
    )
    check_roles(inside | roles, data.targets, None if data.ids is None else id_col, time_col)

    # 1. Each row at its place on one regular axis.
    time = read_time(data.time, data.time_name)
    ids = None if data.ids is None else read_ids(data.ids, repr(id_col))
    rows = _read_rows(time, ids, data.time_name, 1 if freq is None and data.layout == "array" else freq)

    # 2. Values, and covariates as numbers.
    values = rows.put(map(read_numbers, data.columns, data.targets), len(data.targets))
    columns = dict(zip(inside, data.covariates, strict=True))
    weight = None if weight_col is None else columns.pop(weight_col)
    if table is not None and ids is not None:
        columns |= static_rows(table, roles.keys() - columns.keys(), ids.values, id_col)
    covariates, encoded = encode_all(columns, roles, None if schema is None else schema.covariates)
    of_role = {role: [name for name in roles if roles[name] == role] for role in ROLES}
    fixed = [encoded[name] for name in of_role["static"]]
    if ids is not None and table is None:
        fixed = [one_value_a_series(columns[c], encoded[c], ids.codes, ids.values) for c in of_role["static"]]

    # 3. With what the caller's data looked like.
    as_came = Schema(
        layout=data.layout,
        id_col=id_col,
        time_col=data.time_col,
        targets=data.targets,
        freq=rows.grid.freq,
        time_dtype=time.dtype,
        index_name=data.index_name,
        series_name=data.series_name,
        covariates=covariates,
    )
    if ids is not None:
        as_came = replace(
            as_came, id_dtype=ids.dtype, id_levels=ids.levels, id_levels_dtype=ids.levels_dtype, id_ordered=ids.ordered
        )
    panel = Panel(
        values,
        rows.indptr,
        rows.start,
        np.array([""], dtype=object) if ids is None else ids.values,
        as_came,
        known=rows.put((encoded[name] for name in of_role["known"]), len(of_role["known"])),
        observed=rows.put((encoded[name] for name in of_role["observed"]), len(of_role["observed"])),
        static=np.stack(fixed, axis=1) if fixed else no_columns(),
    )
    check_finite(panel)
    return panel if weight_col is None or weight is None else _weighted(panel, rows, weight, weight_col)


def _weighted(panel: Panel, rows: _Rows, column: pd.Series, name: Label) -> Panel:
    """Return a panel whose rows weigh what a column of the caller's says, checked."""
    if not is_number(column):
        raise ValueError(f"weight {name!r} must hold numbers, got {column.dtype}: convert it")
    given = read_numbers(column, name)
    is_wrong = ~(np.isfinite(given) & (given >= 0))
    weight, wrong = rows.put([given, is_wrong], 2).T  # NaN in gaps
    if is_wrong.any():
        row = int(np.flatnonzero(wrong == 1)[0])
        raise ValueError(
            f"weights must be 0 or more, and {np.count_nonzero(is_wrong)} are not, the first {weight[row]:g}: "
            f"{panel.describe(row, name)}. Give 0 to a row that shall not count"
        )
    if not given.any():
        raise ValueError(f"weight_col={name!r} is 0 in every row: nothing would be learned. Leave it out")
    return replace(panel, weight=np.nan_to_num(weight))


def _static_table(static: Any) -> tuple[pd.DataFrame | None, Any]:
    """Return static covariates as a frame, or else as names of columns."""
    given = to_pandas(static)[0]
    if isinstance(given, pd.DataFrame):
        return given, None
    if isinstance(given, (pd.Series, dict)):
        raise TypeError(f"static must name columns or be a frame with one row an id, got {type(static).__name__}")
    return None, static


class _Rows(NamedTuple):
    """Where the caller's rows go."""

    order: np.ndarray | None
    """Rows by series and time; None: they are in order."""
    place: np.ndarray | slice
    """Of each row in that order, its row on the regular axis."""
    indptr: np.ndarray
    start: np.ndarray
    grid: Grid

    def put(self, columns: Iterable[np.ndarray], width: int) -> np.ndarray:
        """Return columns side by side on the regular axis, NaN where the caller has no row."""
        values = np.full((self.indptr[-1], width), np.nan)
        for channel, numbers in enumerate(columns):
            values[self.place, channel] = numbers if self.order is None else numbers[self.order]
        return values


def _read_rows(time: TimeColumn, ids: IdColumn | None, time_name: str, freq: str | int | None) -> _Rows:
    """Return the place of each row on the regular axis of a frequency."""
    stamps = time.stamps
    order, indptr = sort_order(ids or one_id(len(stamps)), stamps)
    if order is not None:
        stamps = stamps[order]
    axis = RowAxis(stamps, indptr, None if ids is None else ids.values, time_name, time.zone)
    axis.check_duplicates()
    grid = axis.choose_grid(freq)
    if not grid.is_absolute:  # in absolute time below a day, by the wall clock from a day up
        axis = axis.in_wall_time()
    place, new_indptr = axis.place(grid)
    return _Rows(order, place, new_indptr, axis.stamps[indptr[:-1]], grid)


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
    heads = (name,) if schema.layout == "long" and panel.n_channels == 1 else schema.targets
    forecasts: dict[Label, Any] = {
        f"{head}{suffix}" if suffix else head: values[:, :, channel].reshape(-1)
        for channel, head in enumerate(heads)
        for suffix, values in columns.items()
    }
    frame = frame_ahead(panel, horizon, forecasts)
    if schema.layout == "series" and len(forecasts) == 1:
        return frame.iloc[:, 0].rename(schema.series_name)
    return frame


def to_path_frame(panel: Panel, paths: np.ndarray, *, name: str) -> pd.DataFrame:
    """Return sample paths that continue each series of a panel, as the kind of frame that the caller gave.

    Parameters
    ----------
    panel
        The history, N series of C channels.
    paths
        (N, S, H, C) target units; not copied when the paths of a step lie beside each other in memory.
    name
        As in `to_frame`; the columns are ``name-sample-1`` to ``name-sample-S``.
    """
    n_series, n_paths, horizon, _ = paths.shape
    heads = (name,) if panel.schema.layout == "long" and panel.n_channels == 1 else panel.schema.targets
    frame = frame_ahead(panel, horizon, {})
    values = pd.DataFrame(
        paths.transpose(0, 2, 3, 1).reshape(n_series * horizon, -1),
        index=frame.index,
        columns=[f"{head}-sample-{i}" for head in heads for i in range(1, n_paths + 1)],
        copy=False,
    )
    for place, column in enumerate(frame):
        values.insert(place, column, frame[column])
    return values


def frame_ahead(panel: Panel, horizon: int, columns: Mapping[Label, Any]) -> pd.DataFrame:
    """Return columns (N x H rows) over the ``horizon`` stamps after each series, in the caller's kind of frame."""
    schema = panel.schema
    series = np.repeat(np.arange(panel.n_series), horizon)
    time = frame_time(panel, series, panel.lengths[series] + np.tile(np.arange(horizon), panel.n_series))
    if schema.layout == "long":
        return pd.DataFrame({schema.id_col: frame_ids(panel, series), schema.time_col: time} | dict(columns))
    if schema.time_col is not None:
        return pd.DataFrame({schema.time_col: time} | dict(columns))
    return pd.DataFrame(dict(columns), index=time.rename(schema.index_name))


def frame_time(panel: Panel, series: np.ndarray, steps: np.ndarray) -> pd.Index:
    """Return the stamps (M,) of steps of series as the caller's type of time."""
    absolute = panel.grid.is_absolute
    return restore_time(panel.stamps(series, steps), panel.schema.time_dtype, absolute=absolute)


def frame_ids(panel: Panel, series: np.ndarray) -> pd.Index:
    """Return the ids (M,) of series as the caller's type of id."""
    schema = panel.schema
    ids = restore_ids(panel.ids, schema.id_dtype, schema.id_levels, schema.id_levels_dtype, schema.id_ordered)
    return ids.take(series)


def static_frame(panel: Panel) -> pd.DataFrame:
    """Return the static covariates of a panel as a frame, one row an id (N rows)."""
    covariates = panel.schema.of_role("static")
    columns: dict[Label, Any] = {panel.schema.id_col: frame_ids(panel, np.arange(panel.n_series))}
    for covariate, numbers in zip(covariates, panel.static.T, strict=True):
        if covariate.levels is None:
            columns[covariate.name] = numbers
        else:
            levels = np.array([*covariate.levels, None], dtype=object)  # None, the last, where the number is missing
            columns[covariate.name] = levels[np.nan_to_num(numbers, nan=-1).astype(np.int64)]
    return pd.DataFrame(columns)
