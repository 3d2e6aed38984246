"""Covariates: which columns are what, and their values as numbers or as numbers of levels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from tsformer.data.columns import is_number, read_numbers
from tsformer.data.layout import Label, column_of, to_label

Role = Literal["static", "known", "observed"]
Level = str | int | float

# Lists in messages stop here.
SHOWN = 3


@dataclass(frozen=True)
class Covariate:
    """A column beside the targets.

    Parameters
    ----------
    name
        Its name.
    role
        ``"static"``: one value a series; ``"known"``: also in the future; ``"observed"``: in the past only.
    levels
        Levels of a categorical or text column, in order; None: numbers (booleans count as 0 and 1).
    """

    name: Label
    role: Role
    levels: tuple[Level, ...] | None = None


class Encoded(NamedTuple):
    """A column as numbers."""

    numbers: np.ndarray
    """(T,) float64: the numbers, or numbers of levels from 0 on; NaN where missing or of an unseen level."""
    levels: tuple[Level, ...] | None
    unseen: list[Level]
    """Levels that are not among the fitted ones."""


def declare_roles(
    known: Label | Sequence[Label] | None,
    observed: Label | Sequence[Label] | None,
    static: Label | Sequence[Label] | None,
) -> dict[Label, Role]:
    """Return the role of each declared column: static, then known, then observed ones, in the order given.

    Raises
    ------
    ValueError
        When a column is named twice.
    """
    declared: tuple[tuple[Role, Label | Sequence[Label] | None], ...]
    declared = (("static", static), ("known", known), ("observed", observed))
    roles: dict[Label, Role] = {}
    for role, names in declared:
        is_listed = isinstance(names, (str, int, Sequence, np.ndarray, pd.Index))
        if names is not None and not is_listed:
            raise TypeError(f"{role} must name columns: a name or a list of names, got {type(names).__name__}")
        for name in (names,) if isinstance(names, (str, int)) else names if names is not None else ():
            name = to_label(name)
            if name in roles:
                twice = f"both as {roles[name]} and as {role}" if roles[name] != role else f"twice as {role}"
                raise ValueError(f"column {name!r} is named {twice}: a covariate has one role")
            roles[name] = role
    return roles


def check_roles(roles: Mapping[Label, str], targets: Sequence[Label], id_col: str | None, time_col: str) -> None:
    """Raise a ValueError when a covariate or the weight is also a target, the id or the time; or static without ids."""
    taken: dict[Label, str] = {name: "a target" for name in targets} | {time_col: "the time column"}
    if id_col is not None:
        taken[id_col] = "the id column"
    for name, role in roles.items():
        if name in taken:
            hint = ". Set target_cols to name the targets" if taken[name] == "a target" else ""
            what, way_out = f"{role} covariate", f"leave it out of {role}"
            if role == "weight":
                what, way_out = role, "name another column"
            raise ValueError(f"{what} {name!r} is {taken[name]}: {way_out}{hint}")
        if role == "static" and id_col is None:
            raise ValueError(
                f"static covariate {name!r}: static covariates tell series apart, so they need a long frame with ids"
            )


def encode(column: pd.Series, name: Label, fitted: Covariate | None = None) -> Encoded:
    """Return a covariate's column as numbers.

    Parameters
    ----------
    column
        Numbers, booleans, text or categories, of any dtype.
    name
        How errors call it.
    fitted
        What it was in training: its levels are kept. None: levels are those that occur, text sorted, categories in
        their order.

    Raises
    ------
    ValueError
        For dates and other objects, and for text where training had numbers.
    """
    numeric = is_number(column)
    if numeric if fitted is None else fitted.levels is None:
        if not numeric and not column.isna().all():
            raise ValueError(f"covariate {name!r} held numbers in training and is {column.dtype} here: convert it")
        numbers = read_numbers(column, name) if numeric else np.full(len(column), np.nan)
        return Encoded(numbers, None, [])
    codes, uniques = pd.factorize(column)
    found = [value.item() if isinstance(value, np.generic) else value for value in np.asarray(uniques, dtype=object)]
    if fitted is not None and fitted.levels is not None:
        levels = fitted.levels
    else:
        levels = _ordered(column, name, found)
    place = pd.Index(levels, dtype=object).get_indexer(pd.Index(found, dtype=object)).astype(np.float64)
    unseen = [level for level, at in zip(found, place, strict=True) if at < 0]
    place[place < 0] = np.nan
    return Encoded(np.append(place, np.nan)[codes], levels, unseen)  # a missing value has the code -1


def encode_all(
    columns: Mapping[Label, pd.Series], roles: Mapping[Label, Role], fitted: Sequence[Covariate] | None
) -> tuple[tuple[Covariate, ...], dict[Label, np.ndarray]]:
    """Return the covariates that columns hold, in the order of ``roles``, and the columns as numbers.

    Warns
    -----
    UserWarning
        Once, of all levels that are not among the fitted ones.
    """
    trained = {covariate.name: covariate for covariate in fitted or ()}
    encoded = {name: encode(columns[name], name, trained.get(name)) for name in roles}
    warn_unseen({name: column.unseen for name, column in encoded.items()})
    covariates = tuple(Covariate(name, role, encoded[name].levels) for name, role in roles.items())
    return covariates, {name: column.numbers for name, column in encoded.items()}


def _ordered(column: pd.Series, name: Label, found: list) -> tuple[Level, ...]:
    """Return the levels that occur: categories in their order, others sorted."""
    wrong = next((level for level in found if not isinstance(level, (str, int, float))), None)
    if wrong is not None or column.dtype.kind in "Mmc":
        what = column.dtype if wrong is None else type(wrong).__name__
        raise ValueError(
            f"covariate {name!r} must hold numbers, booleans, text or categories, got {what}: convert it, "
            f"or leave it out of the covariates"
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        occurs = set(found)
        return tuple(level for level in column.dtype.categories.tolist() if level in occurs)
    try:
        return tuple(sorted(found))
    except TypeError:  # text and numbers have no common order
        return tuple(sorted(found, key=str))


def warn_unseen(unseen: Mapping[Label, list[Level]]) -> None:
    """Warn once of all levels that training has not seen."""
    parts = [f"{name!r}: {shorten([repr(level) for level in levels])}" for name, levels in unseen.items() if levels]
    if parts:
        warnings.warn(
            f"levels unseen in training are treated as missing, in column {'; in column '.join(parts)}",
            UserWarning,
            stacklevel=4,
        )


def shorten(texts: Sequence[str]) -> str:
    """Return the first few texts, and how many more there are."""
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more


def static_columns(table: pd.DataFrame, id_col: str) -> list[Label]:
    """Return the columns of a frame of static covariates: all but the id.

    Raises
    ------
    ValueError
        When there are none.
    """
    names = [to_label(name) for name in table.columns if name != id_col]
    if not names:
        raise ValueError(f"static has no columns besides the id {id_col!r}: give it a column for each covariate")
    return names


def static_rows(table: pd.DataFrame, names: Iterable[Label], ids: np.ndarray, id_col: str) -> dict[Label, pd.Series]:
    """Return columns (N,) of a frame of static covariates, in the order of ids (N,).

    Parameters
    ----------
    table
        One row an id, which is the column ``id_col`` or the index.
    names
        Columns to take.

    Raises
    ------
    ValueError
        Naming the ids that have no row or several, and columns that are missing.
    """
    keys = pd.Index(np.asarray(table[id_col] if id_col in table.columns else table.index, dtype=object))
    if keys.has_duplicates:
        twice = keys[keys.duplicated()].unique()
        raise ValueError(f"static has several rows for {shorten([repr(key) for key in twice])}: keep one row an id")
    place = keys.get_indexer(pd.Index(ids, dtype=object))
    if (place < 0).any():
        absent = shorten([repr(name) for name in ids[place < 0]])
        raise ValueError(
            f"static has no row for {np.count_nonzero(place < 0)} ids: {absent}. Add a row for each, or give X the "
            f"columns"
        )
    return {name: column_of(table, name, "static covariate", "static").iloc[place] for name in names}


def one_value_a_series(values: pd.Series, numbers: np.ndarray, series: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the value of each series (N,) of a covariate (T,) that does not change in it; NaN where all is missing.

    Parameters
    ----------
    values, numbers
        (T,) the column as it came, and encoded.
    series
        (T,) number of the series of each row.
    ids
        (N,) for messages.

    Raises
    ------
    ValueError
        Naming the column, an id and two of its values.
    """
    rows = np.flatnonzero(~np.isnan(numbers))
    first = np.full(len(ids), -1)
    first[series[rows[::-1]]] = rows[::-1]
    changed = rows[numbers[rows] != numbers[first[series[rows]]]]
    if changed.size:
        row = int(changed[0])
        both = f"{values.iloc[first[series[row]]]} and {values.iloc[row]}"
        raise ValueError(
            f"static covariate {values.name!r} changes within id {ids[series[row]]!r}: {both}. "
            f"A static column has one value an id; name it as known or observed instead"
        )
    return np.where(first < 0, np.nan, numbers[first])
