"""What the caller gave: which column is time, which id, which are the channels."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from tsformer.data.columns import is_number

Layout = Literal["long", "wide", "series", "array"]
Label = str | int


class Input(NamedTuple):
    """The columns of the caller's data, still in the caller's order and dtypes."""

    layout: Layout
    time: pd.Series | pd.Index
    time_name: str
    time_col: str | None
    ids: pd.Series | None
    columns: tuple[pd.Series, ...]
    targets: tuple[Label, ...]
    index_name: Label | None = None
    series_name: Label | None = None
    covariates: tuple[pd.Series, ...] = ()


def read_layout(
    X: Any,
    *,
    id_col: str,
    time_col: str,
    target_cols: Label | Sequence[Label] | None,
    fitted: tuple[Layout, tuple[Label, ...]] | None,
    roles: Mapping[Label, str] | None = None,
) -> Input:
    """Return the time, id, target and covariate columns of a frame, a Series or an array.

    Parameters
    ----------
    X
        The caller's data.
    id_col, time_col, target_cols
        Names, as in `to_panel`.
    fitted
        Layout and targets of the data that a model was fitted on.
    roles
        Columns of the frame that are covariates or the weight, not targets, and what they are.

    Raises
    ------
    TypeError
        When ``X`` is none of these.
    ValueError
        When a column is missing, ambiguous or twice there, or there are no rows.
    """
    declared = (target_cols,) if isinstance(target_cols, (str, int)) else target_cols
    targets = fitted[1] if fitted else None if declared is None else tuple(to_label(name) for name in declared)
    if targets is not None and (not targets or len(set(targets)) < len(targets)):
        raise ValueError(f"target_cols must name each target once, got {list(targets)}")
    if roles and isinstance(X, (pd.Series, np.ndarray, list, tuple)):
        raise ValueError(
            f"{', '.join(f'{name!r} ({role})' for name, role in roles.items())}: columns of a frame, and X is of type "
            f"{type(X).__name__}. Give a DataFrame that has them beside the target"
        )
    if isinstance(X, pd.Series):
        found = _read_series(X, targets if fitted else None)
    elif isinstance(X, pd.DataFrame):
        if fitted and fitted[0] == "array" and not set(fitted[1]) <= set(X.columns):
            raise ValueError(
                f"the forecaster was fitted on an array, whose channels are {list(fitted[1])}: give an array, or a "
                f"frame with these columns; {columns_of(X)}"
            )
        found = _read_frame(X, id_col, time_col, targets, roles or {})
    elif isinstance(X, (np.ndarray, list, tuple)):
        found = _read_array(X, targets if fitted else None)
    elif hasattr(X, "tocsr"):
        raise TypeError("X is sparse, and sparse input is not supported: give X.toarray()")
    else:
        raise TypeError(
            f"X must be a DataFrame or Series of pandas, polars or the like, or an array (T,) or (T, C); "
            f"got {type(X).__name__}"
        )
    if declared is not None and not fitted and targets != found.targets:
        raise ValueError(
            f"the only targets here are {list(found.targets)}, target_cols={list(targets or ())}: leave it out"
        )
    if not len(found.time):
        raise ValueError("X has no rows")
    if fitted and (fitted[0] == "long") != (found.layout == "long"):
        way_out = "add that column" if fitted[0] == "long" else "give the same columns without it"
        has = "a long frame, with ids" if fitted[0] == "long" else "data without ids"
        raise ValueError(f"the forecaster was fitted on {has} in the column {id_col!r}: {way_out}")
    return found


def _read_series(X: pd.Series, targets: tuple[Label, ...] | None) -> Input:
    """Return a Series as one channel."""
    if targets is not None and len(targets) != 1:
        raise ValueError(
            f"the forecaster was fitted on the columns {list(targets)}: give a frame that has them, not a Series"
        )
    own = "y" if X.name is None else to_label(X.name)
    return _over_index("series", X.index, [X], targets or (own,), series_name=None if X.name is None else own)


def _read_array(X: Any, targets: tuple[Label, ...] | None) -> Input:
    """Return an array as channels ``y``, or ``y0, y1 ...``, over integer time."""
    array = np.asarray(X)
    if array.ndim not in (1, 2):
        raise ValueError(f"an array must be of shape (T,) or (T, C), got {array.shape}")
    if array.ndim == 2 and not array.shape[1]:
        raise ValueError(f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    n_channels = 1 if array.ndim == 1 else array.shape[1]
    names: tuple[Label, ...] = ("y",) if array.ndim == 1 else tuple(f"y{i}" for i in range(n_channels))
    if targets is not None and len(targets) != n_channels:
        raise ValueError(f"the forecaster was fitted on {len(targets)} channels, this array has {n_channels}")
    columns = [pd.Series(column) for column in np.atleast_2d(array.T)]
    return _over_index("array", pd.RangeIndex(len(array)), columns, targets or names)


def _over_index(
    layout: Layout,
    index: pd.Index,
    columns: list[pd.Series],
    targets: tuple[Label, ...],
    series_name: Label | None = None,
) -> Input:
    """Return columns whose time is the index."""
    if isinstance(index, pd.MultiIndex):
        raise ValueError(
            f"X has an index of {index.nlevels} levels {list(index.names)}: turn them into columns, .reset_index()"
        )
    name = None if index.name is None else to_label(index.name)
    return Input(
        layout, index, "the index", None, None, tuple(columns), targets, index_name=name, series_name=series_name
    )


def _read_frame(
    X: pd.DataFrame, id_col: str, time_col: str, targets: tuple[Label, ...] | None, roles: Mapping[Label, str]
) -> Input:
    """Return a long or a wide frame."""
    if isinstance(X.columns, pd.MultiIndex):
        raise ValueError(f"X has columns of {X.columns.nlevels} levels: give them one name each")
    if id_col in X.index.names:
        raise ValueError(f"{id_col!r} is in the index of X: turn it into a column, .reset_index()")
    covariates = tuple(
        column_of(X, name, role if role == "weight" else f"{role} covariate") for name, role in roles.items()
    )
    if id_col in X.columns:
        if time_col not in X.columns:
            raise ValueError(
                f"no time column {time_col!r} in a frame with ids; {columns_of(X, time_col)}. Set time_col"
            )
        if targets is None:
            targets = (_only_number(X, [id_col, time_col, *roles]),)
        _check_one_role_each({"id": [id_col], "time": [time_col], "target": targets})
        columns = [column_of(X, name, "target") for name in targets]
        time, ids = column_of(X, time_col, "time"), column_of(X, id_col, "id")
        found = Input("long", time, repr(time_col), time_col, ids, tuple(columns), targets)
        return found._replace(covariates=covariates)
    has_time = time_col in X.columns
    if not has_time:
        _check_index_is_time(X, time_col)
    if targets is None:
        names = [name for name in X.columns if name != time_col and name not in roles]
        numbers = [name for name in names if is_number(column_of(X, name, "target"), booleans=False)]
        _warn_of_spoilt_numbers(X, [name for name in names if name not in numbers])
        targets = tuple(to_label(name) for name in numbers)
        if not targets:
            raise ValueError(
                f"no numeric column to forecast; {columns_of(X)}. Booleans are one where target_cols names them"
            )
    if has_time:
        _check_one_role_each({"time": [time_col], "target": targets})
    columns = [column_of(X, name, "target") for name in targets]
    if has_time:
        found = Input("wide", column_of(X, time_col, "time"), repr(time_col), time_col, None, tuple(columns), targets)
    else:
        found = _over_index("wide", X.index, columns, targets)
    return found._replace(covariates=covariates)


def _check_one_role_each(columns: Mapping[str, Sequence[Label]]) -> None:
    """Raise a ValueError when a column is two of id, time and target."""
    role_of: dict[Label, str] = {}
    for role, names in columns.items():
        for name in names:
            if name in role_of:
                raise ValueError(
                    f"column {name!r} cannot be both {role_of[name]} and {role}: set id_col, time_col and target_cols "
                    f"to columns of their own"
                )
            role_of[name] = role


def _only_number(X: pd.DataFrame, taken: Sequence[Label]) -> Label:
    """Return the target of a long frame that declares none; ``taken`` columns are something else."""
    if "y" in X.columns:
        return "y"
    others = [name for name in X.columns if name not in taken]
    numbers = [to_label(name) for name in others if is_number(column_of(X, name, "target"), booleans=False)]
    if len(numbers) != 1:
        found = f"the numeric columns are {numbers}" if numbers else "no other column is numeric"
        raise ValueError(f"which column is the target? There is no 'y', and {found}: set target_cols")
    return numbers[0]


def _warn_of_spoilt_numbers(X: pd.DataFrame, left_out: list[Any]) -> None:
    """Warn of text columns that are numbers but for a few cells: they were hardly meant to be left out."""
    for name in left_out:
        column = X[name]
        if column.dtype.kind in "biufcmM" or not _mostly_numbers(column.head(100)):
            continue
        numbers = pd.to_numeric(column, errors="coerce")
        spoilt = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
        if _mostly_numbers(column) and len(spoilt):
            warnings.warn(
                f"column {name!r} is left out as text, but only {len(spoilt)} of its {len(column)} values are no "
                f"numbers, the first {column.iloc[spoilt[0]]!r} in row {spoilt[0]}: correct them, or name the columns "
                f"to forecast (target_cols)",
                UserWarning,
                stacklevel=6,
            )


def _mostly_numbers(column: pd.Series) -> bool:
    """Return whether at least half of the values there are read as numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return False
    there = column.dropna()
    return len(there) > 0 and 2 * int(pd.to_numeric(there, errors="coerce").notna().sum()) >= len(there)


def _check_index_is_time(X: pd.DataFrame, time_col: str) -> None:
    """Raise a ValueError when a frame without time column has an index that is no time."""
    if isinstance(X.index, pd.RangeIndex):
        # A default index would count as integer time; not when a column plainly holds the dates.
        for name in X.columns:
            column = X[name]
            if isinstance(column, pd.Series) and (column.dtype.kind == "M" or _looks_like_dates(column)):
                raise ValueError(
                    f"column {name!r} holds dates, but the time column is {time_col!r}: set time_col={name!r}"
                )
        return
    kinds = ("datetime64", "integer", "string", "date", "datetime", "period")
    if pd.api.types.infer_dtype(X.index) not in kinds:
        raise ValueError(
            f"no time: there is no column {time_col!r} and the index is of type {X.index.dtype}; "
            f"{columns_of(X, time_col)}. Set time_col, or an index of dates or whole numbers"
        )


def _looks_like_dates(column: pd.Series) -> bool:
    """Return whether a text column begins with a date."""
    value = column.iloc[0] if len(column) else None
    return isinstance(value, str) and re.match(r"\s*\d{4}[-/.]\d{1,2}([-/.]|$)", value) is not None


def column_of(X: pd.DataFrame, name: Label, role: str, where: str = "") -> pd.Series:
    """Return one column of a frame, by default of ``X``, or say that it is missing or twice there."""
    if name not in X.columns:
        raise ValueError(f"no {role} column {name!r}{where and ' in ' + where}; {columns_of(X, name)}")
    column = X[name]
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"column {name!r} is there {column.shape[1]} times: give each column its own name")
    return column


def columns_of(X: pd.DataFrame, wanted: Label = "") -> str:
    """Return the columns there are, with the nearest to a wanted name."""
    names = [str(name) for name in X.columns]
    near = difflib.get_close_matches(str(wanted), names, n=1)
    if not names:
        return "it has no column"
    shown = ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"the columns are {shown}" + (f" (did you mean {near[0]!r}?)" if near else "")


def to_label(name: Any) -> Label:
    """Return a column name as text or a plain whole number."""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return int(name)
    raise ValueError(f"column names must be text or whole numbers, got {name!r}: rename the column")
