"""Frames of other libraries: polars and the like become pandas frames, and results go back as they came."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd


class Restore(Protocol):
    """The way back to the caller's kind of frame. It can be pickled and holds no rows."""

    def __call__(self, result: Any, same: Mapping[str, str] | None = None) -> Any:
        """Return a pandas result as the caller's kind; ``same``: new columns that take the dtype of another."""


def to_pandas(X: Any, *, time_col: str | None = None) -> tuple[Any, Restore]:
    """Return data as pandas has them, and the function that takes results back to the caller's kind of frame.

    Parameters
    ----------
    X
        A frame or series of a library that narwhals knows (polars, pyarrow, modin ...). Anything else, pandas
        objects and arrays among it, is returned as it is.
    time_col
        Column that such a frame must have, as it has no index; None: not asked.

    Returns
    -------
    X
        DataFrame or Series over a plain index.
    restore
        Turns a pandas DataFrame or Series into the caller's kind, its index left out; ids and stamps get the dtype
        that they have in ``X``. For pandas objects and arrays: the result as it is.

    Raises
    ------
    TypeError
        For a lazy frame.
    ValueError
        When there is no column ``time_col``.
    """
    if X is None or isinstance(X, (pd.DataFrame, pd.Series, np.ndarray, list, tuple)):
        return X, as_it_is
    import narwhals as nw  # loaded only where another library's frame may be in play

    native = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(native, nw.LazyFrame):
        raise TypeError(f"X is lazy ({type(X).__name__}): give a frame with rows, for example with .collect()")
    if isinstance(native, nw.Series):
        return _column_in(native), partial(_frame_out, like=native.head(0).to_frame())
    if not isinstance(native, nw.DataFrame):
        return X, as_it_is
    if time_col is not None and time_col not in native.columns:
        raise ValueError(
            f"no time column {time_col!r}, and a frame of type {type(X).__name__} has no index of dates: "
            f"the columns are {', '.join(map(repr, native.columns[:10]))}. Set time_col"
        )
    columns = {name: _column_in(native[name]) for name in native.columns}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(native)), copy=False)
    return frame, partial(_frame_out, like=native.head(0))


def as_it_is(result: Any, same: Mapping[str, str] | None = None) -> Any:
    """Return a result that needs no way back."""
    return result


def _column_in(column: Any) -> pd.Series:
    """Return a narwhals series as a pandas one, by numpy alone: pyarrow is not needed."""
    import narwhals as nw

    dtype = column.dtype
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        values: Any = pd.Series(utc.to_numpy(), copy=False).dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    elif isinstance(dtype, (nw.Categorical, nw.Enum)):
        text = column.cast(nw.String).to_numpy()
        values = pd.Categorical(text, categories=getattr(dtype, "categories", None))
    else:
        values = column.to_numpy()
    return pd.Series(values, name=column.name, copy=False)


def _frame_out(result: pd.DataFrame | pd.Series, same: Mapping[str, str] | None = None, *, like: Any) -> Any:
    """Return a pandas result as a native frame (a series for a series) of the library that ``like`` is of."""
    if isinstance(result, pd.Series):
        return _column_out(result, result.name, like.schema.get(result.name), like).to_native()
    wanted = {name: like.schema.get((same or {}).get(name, name)) for name in result.columns}
    first, *others = (_column_out(result[name], name, wanted[name], like) for name in result.columns)
    return first.to_frame().with_columns(*others).to_native()  # from_dict would forget the levels of an Enum


def _column_out(column: pd.Series, name: Any, wanted: Any, like: Any) -> Any:
    """Return a pandas column as a narwhals series, of the dtype ``wanted`` where that can hold it."""
    import narwhals as nw

    zone = getattr(column.dtype, "tz", None)
    if zone is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if column.dtype == "datetime64[s]":  # a unit that others lack
        column = column.astype("datetime64[ms]")
    is_text = not (column.dtype.kind in "biufmM" and isinstance(column.dtype, np.dtype))
    values = column.to_numpy(dtype=object) if is_text else column.to_numpy()
    made = nw.new_series(str(name or ""), values.tolist() if is_text else values, backend=like.implementation)
    if zone is not None:
        made = made.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
    # Numbers are forecasts, whatever a target of that name was; text dates come back as dates.
    is_new = wanted is None or column.dtype.kind == "f" or (column.dtype.kind == "M" and wanted == nw.String)
    return made if is_new else made.cast(wanted)
