"""Single columns: from whatever dtype the caller has to plain arrays, and back as they came."""

from __future__ import annotations

import datetime
import warnings
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

NUMBER_KINDS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")
# Up to this many ids are looked up one by one; of more, the runs are found first.
FEW_ROWS = 10_000


class TimeColumn(NamedTuple):
    """A time column as plain arrays."""

    stamps: np.ndarray
    """(T,) int64, or datetime64 in its own unit: UTC where the column has a zone."""
    dtype: str
    """The dtype that forecasts go back in."""
    zone: datetime.tzinfo | None
    """Time zone of the column, None without one."""


class IdColumn(NamedTuple):
    """An id column as codes into its sorted values, one a run of equal ids: few where the rows are in order."""

    runs: np.ndarray
    """(R,) int64 codes."""
    counts: np.ndarray
    """(R,) int64 rows of each run."""
    values: np.ndarray
    """(N,) sorted ids that occur."""
    dtype: str
    levels: tuple | None
    """Categories of a categorical column, in their order, also those that do not occur."""
    levels_dtype: str | None
    ordered: bool

    @property
    def codes(self) -> np.ndarray:
        """(T,) int64, of each row."""
        return np.repeat(self.runs, self.counts)


def read_time(column: pd.Series | pd.Index, name: str) -> TimeColumn:
    """Return a time column as int64 or datetime64 stamps.

    Parameters
    ----------
    column
        Dates (numpy, pyarrow, with or without zone, ``date`` objects, text that parses) or whole numbers.
    name
        How errors call it.

    Raises
    ------
    ValueError
        For missing stamps, and for what is neither date nor whole number.
    """
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise ValueError(
            f"{name} has {missing.size} missing values (first in row {missing[0]}): drop or fill those rows"
        )
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return read_time(column.astype(dtype.categories.dtype), name)
    if isinstance(dtype, pd.PeriodDtype):
        raise ValueError(f"{name} holds periods: convert them to dates with .to_timestamp() first")
    kind = pd.api.types.infer_dtype(column) if dtype.kind == "O" else ""
    if dtype.kind in "iu" or kind == "integer":
        plain = str(dtype) if dtype.kind in "iu" else "int64"
        return TimeColumn(np.asarray(column, dtype=np.int64), plain, None)
    if kind in ("string", "date", "datetime", "datetime64"):
        column = parse_dates(column, name)
    elif dtype.kind != "M":
        raise ValueError(f"{name} must hold dates or whole numbers, got {dtype}: convert it, or name the time column")
    index = pd.DatetimeIndex(column)
    plain = str(dtype) if dtype.kind == "M" else str(index.dtype)
    if index.tz is not None and isinstance(dtype, pd.DatetimeTZDtype) and not _has_name(plain):
        raise ValueError(
            f"{name} has a time zone without a name, {index.tz!r}: set a named one, .dt.tz_convert('Europe/Paris')"
        )
    stamps = index.tz_convert(None) if index.tz is not None else index
    return TimeColumn(stamps.to_numpy(), plain, index.tz)


def _has_name(dtype: str) -> bool:
    """Return whether the name of a dtype leads back to it."""
    try:
        pd.api.types.pandas_dtype(dtype)
    except (TypeError, ValueError):
        return False
    return True


def parse_dates(column: pd.Series | pd.Index, name: str) -> pd.Series | pd.Index:
    """Return text or date objects as datetimes, or say which value is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas guesses the format aloud
        try:
            return cast("pd.Series | pd.Index", pd.to_datetime(column))
        except (ValueError, TypeError):
            pass
        try:
            return cast("pd.Series | pd.Index", pd.to_datetime(column, format="ISO8601"))
        except (ValueError, TypeError):
            pass
        try:  # 13/01/2024: a first number above 12 is no month
            return cast("pd.Series | pd.Index", pd.to_datetime(column, dayfirst=True))
        except (ValueError, TypeError):
            parsed = pd.to_datetime(column, errors="coerce", utc=True)
    bad = np.flatnonzero(parsed.isna())
    if not bad.size:  # several offsets from UTC, as a CSV of a zone with summer time has them
        return cast("pd.Series | pd.Index", parsed)
    example = column.take(bad[:1]).tolist()[0]
    raise ValueError(
        f"{name} holds {example!r}, which is no date like the others: write all of them alike (2024-01-31, say), or "
        f"convert them with pandas.to_datetime"
    )


def to_wall_time(stamps: np.ndarray, zone: datetime.tzinfo | str) -> np.ndarray:
    """Return UTC stamps (any shape) as the wall time of a zone, in the same unit."""
    flat = pd.DatetimeIndex(stamps.reshape(-1), tz="UTC").tz_convert(zone).tz_localize(None)
    return flat.to_numpy().reshape(stamps.shape)


def restore_time(stamps: np.ndarray, dtype: str, *, absolute: bool) -> pd.Index:
    """Return stamps as an index of the dtype they came in.

    Parameters
    ----------
    stamps
        (T,) int64 or datetime64; with a zone in ``dtype``, UTC if ``absolute``, else wall time.
    dtype
        As `TimeColumn` says.
    absolute
        Whether the stamps of a column with a zone are UTC.
    """
    index = pd.Index(stamps)
    if stamps.dtype.kind == "M":
        zone = time_zone(dtype)
        if zone is not None and absolute:
            index = cast(pd.DatetimeIndex, index).tz_localize("UTC").tz_convert(zone)
        elif zone is not None:
            # A midnight that the clock change skips becomes the first hour after it; one that it repeats is the first.
            first = np.ones(len(index), dtype=bool)
            index = cast(pd.DatetimeIndex, index).tz_localize(zone, ambiguous=first, nonexistent="shift_forward")
    if stamps.dtype.kind != "M" and len(stamps):
        parsed = pd.api.types.pandas_dtype(dtype)
        limits = np.iinfo(getattr(parsed, "numpy_dtype", parsed))
        if stamps.max() > limits.max or stamps.min() < limits.min:
            return index  # a small integer type that the future does not fit
    return index.astype(dtype)


def time_zone(dtype: str) -> datetime.tzinfo | str | None:
    """Return the zone in the name of a dtype, None if there is none."""
    if not dtype.startswith(("datetime64", "timestamp")):
        return None
    parsed = pd.api.types.pandas_dtype(dtype)
    if isinstance(parsed, pd.ArrowDtype):
        return parsed.pyarrow_dtype.tz
    return getattr(parsed, "tz", None)


def read_ids(column: pd.Series, name: str) -> IdColumn:
    """Return an id column as codes into its sorted values.

    Raises
    ------
    ValueError
        For missing ids.
    """
    dtype = column.dtype
    levels, levels_dtype, ordered = None, None, False
    if isinstance(dtype, pd.CategoricalDtype):
        levels, ordered = tuple(dtype.categories.tolist()), bool(dtype.ordered)
        levels_dtype = str(dtype.categories.dtype)
        codes, counts, uniques = _runs(column.cat.codes)
        is_missing, values = np.asarray(uniques)[codes] < 0, dtype.categories.to_numpy()[uniques]
    else:
        codes, counts, uniques = _runs(column)
        is_missing, values = codes < 0, np.asarray(uniques)
    if is_missing.any():
        raise ValueError(f"{name} has {counts[is_missing].sum()} missing ids: drop those rows or name their series")
    try:
        order = np.argsort(values, kind="stable")
    except TypeError:  # ids of mixed types have no order of their own
        order = np.argsort(values.astype(str), kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        codes = rank[codes]
    return IdColumn(codes, counts, values[order], str(dtype), levels, levels_dtype, ordered)


def one_id(n_rows: int) -> IdColumn:
    """Return the ids of rows that have none: all belong to one series."""
    return IdColumn(np.zeros(1, dtype=np.int64), np.array([n_rows]), np.array([""]), "object", None, None, False)


def _runs(column: pd.Series) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return runs of equal values, codes and rows of each (R,), and the values that the codes are of."""
    is_plain = isinstance(column.dtype, np.dtype)
    values: Any = column.to_numpy() if is_plain else column.array
    is_compared_fast = column.dtype != object if is_plain else getattr(column.dtype, "storage", None) == "pyarrow"
    if is_compared_fast and len(values) > FEW_ROWS:
        begin = _begins(values)
        if 2 * len(begin) < len(values):  # then it is enough to look up the first row of each run
            codes, uniques = pd.factorize(values[begin])
            return codes, np.diff(begin, append=len(values)), uniques
    codes, uniques = pd.factorize(values)
    begin = _begins(codes)
    return codes[begin], np.diff(begin, append=len(values)), uniques


def _begins(values: Any) -> np.ndarray:
    """Return the first row of each run of equal values."""
    changes = values[1:] != values[:-1]
    if not isinstance(changes, np.ndarray):
        changes = changes.to_numpy(dtype=bool, na_value=True)
    return np.flatnonzero(np.append(True, changes)[: len(values)])


def restore_ids(ids: np.ndarray, dtype: str, levels: tuple | None, levels_dtype: str | None, ordered: bool) -> pd.Index:
    """Return ids as an index of the dtype they came in."""
    if levels is None:
        return pd.Index(ids, dtype=dtype)
    return pd.CategoricalIndex(ids, categories=pd.Index(levels, dtype=levels_dtype), ordered=ordered)


def is_number(column: pd.Series, *, booleans: bool = True) -> bool:
    """Return whether a column holds real numbers, whatever its dtype."""
    kind = column.dtype.kind
    if kind == "b":
        return booleans
    if isinstance(column.dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return False
    return kind in "iuf" or (kind == "O" and pd.api.types.infer_dtype(column, skipna=True) in NUMBER_KINDS)


def read_numbers(column: pd.Series, name: object) -> np.ndarray:
    """Return a column as float64 with NaN where it is missing.

    Raises
    ------
    ValueError
        When it holds text, dates, categories or complex numbers.
    """
    if not is_number(column):
        if column.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: target {name!r} must hold numbers, give its parts as columns"
            )
        raise ValueError(
            f"target {name!r} must hold numbers, got {column.dtype}: convert it, or leave it out of target_cols"
        )
    if column.dtype.kind == "O":
        column = column.where(column.notna(), np.nan)
        return column.to_numpy(dtype=np.float64)
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy().astype(np.float64, copy=False)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
