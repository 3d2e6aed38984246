"""The steps to come: known covariates to fill in and put behind each series, and values given for targets."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tsformer.data.axis import show_stamp
from tsformer.data.columns import read_ids, read_numbers, read_time, restore_time, time_zone, to_wall_time
from tsformer.data.covariates import SHOWN, encode, warn_unseen
from tsformer.data.frames import to_pandas
from tsformer.data.layout import column_of, columns_of
from tsformer.data.panel import Panel, check_finite, frame_ahead, frame_time, ruled_out

UNITS = {"D": "days", "h": "hours", "min": "minutes", "B": "business days", "MS": "months", "ME": "months"}


def future_frame(panel: Panel, horizon: int) -> pd.DataFrame:
    """Return the frame to fill with known covariates: ids and stamps of the steps to come, the columns empty.

    Parameters
    ----------
    panel
        The history, N series.
    horizon
        Steps after each series.

    Returns
    -------
    DataFrame
        N x horizon rows in the caller's kind of frame, numbers NaN, levels None.

    Examples
    --------
    >>> import pandas as pd
    >>> from tsformer.data.panel import to_panel
    >>> df = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=9), "y": 1.0, "price": 5.0})
    >>> future_frame(to_panel(df, known="price"), 2).ds.dt.day.tolist()
    [10, 11]
    """
    n_rows = panel.n_series * horizon
    return frame_ahead(
        panel,
        horizon,
        {
            covariate.name: np.full(n_rows, np.nan) if covariate.levels is None else np.full(n_rows, None, dtype=object)
            for covariate in panel.schema.of_role("known")
        },
    )


def with_future(panel: Panel, future: Any, horizon: int) -> Panel:
    """Return the panel with the steps to come behind each series: known covariates from a frame, all else missing.

    Parameters
    ----------
    panel
        The history, N series.
    future
        A frame laid out like the history, matched by id, stamp and column name; its order, further columns, ids and
        rows do not matter. Stamps without a zone are on the clock of the history's zone. None: there is nothing to
        know, and the panel is returned as it is.
    horizon
        Steps after each series.

    Raises
    ------
    ValueError
        When there are known covariates and no ``future``, or the other way round; for duplicate keys; and for all that
        is missing at once: ids, rows, columns and single values.

    Warns
    -----
    UserWarning
        Of levels that training has not seen: they count as missing.
    """
    known = panel.schema.of_role("known")
    if future is None:
        if not known:
            return panel
        names = ", ".join(repr(covariate.name) for covariate in known)
        raise ValueError(
            f"the forecast needs the known covariates of the steps to come, {names}: give predict future=, a frame "
            f"of them; make_future() returns the one to fill"
        )
    if not known:
        raise ValueError(
            "there are no known covariates, so future has no use: leave it out, or name its columns with known=[...] "
            "before fit"
        )
    frame = to_pandas(future)[0]
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"future must be a DataFrame, got {type(future).__name__}")
    rows, present = _match(panel, frame, horizon, "future")
    found = rows >= 0
    problems = _missing_rows(panel, found, present)

    longer = _lengthened(panel, horizon)
    ahead = (longer.indptr[1:, None] + np.arange(-horizon, 0))[found]  # rows to fill, of the longer panel
    unseen = {}
    for place, covariate in enumerate(known):
        if covariate.name not in frame.columns:
            problems.append(f"no column {covariate.name!r}; {columns_of(frame, covariate.name)}")
            continue
        column = column_of(frame, covariate.name, "known covariate").iloc[rows[found]]
        encoded = encode(column, covariate.name, covariate)
        longer.known[ahead, place] = encoded.numbers
        unseen[covariate.name] = encoded.unseen
        empty = np.isnan(encoded.numbers) if covariate.levels is None else column.isna().to_numpy(dtype=bool)
        if empty.any():
            first = longer.describe(int(ahead[empty.argmax()]), covariate.name)
            problems.append(f"{np.count_nonzero(empty)} missing values, the first: {first}")
    if problems:
        raise ValueError(f"future lacks what the forecast of {horizon} steps needs. {'; '.join(problems)}")
    warn_unseen(unseen)
    check_finite(longer)
    return longer


def given_values(panel: Panel, given: Any, horizon: int, loss: object = None) -> np.ndarray:
    """Return future values of targets that are known or assumed.

    Parameters
    ----------
    panel
        The history, N series of C channels.
    given
        A frame laid out like the history (a Series for a Series), matched by id, stamp and column name; targets and
        rows may be left out, and values be NaN.
    horizon
        H, steps after each series.
    loss
        Of the model: the name of a distribution rules values out.

    Returns
    -------
    np.ndarray
        (N, H, C) float64, target units; NaN where nothing is given.

    Raises
    ------
    TypeError
        When it is no frame.
    ValueError
        For values of unknown ids or of stamps outside the horizon, duplicates, values that are infinite or ruled out,
        or no value at all.
    """
    schema = panel.schema
    frame = to_pandas(given)[0]
    if isinstance(frame, pd.Series) and panel.n_channels == 1 and schema.time_col is None:
        frame = frame.to_frame(schema.targets[0])
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"given must be a DataFrame in the layout of the data, got {type(given).__name__}")
    places = [place for place, name in enumerate(schema.targets) if name in frame.columns]
    if not places:
        raise ValueError(f"given has no column of a target, {list(schema.targets)}; {columns_of(frame)}")
    names = [schema.targets[place] for place in places]
    numbers = np.stack([read_numbers(column_of(frame, name, "target", "given"), name) for name in names], axis=1)
    says_something = ~np.isnan(numbers).all(axis=1)
    frame, numbers = frame[says_something], numbers[says_something]
    if not len(frame):
        raise ValueError("given has no value: give some, or leave it out")
    if np.isinf(numbers).any():
        column = names[int(np.argwhere(np.isinf(numbers))[0, 1])]
        raise ValueError(f"given has infinite values in column {column!r}: replace them by numbers, or by NaN")
    rows, _ = _match(panel, frame, horizon, "given")
    found = rows >= 0
    _check_all_found(panel, frame, rows[found], horizon)
    values = np.full((*rows.shape, panel.n_channels), np.nan)
    steps = values[found]
    steps[:, places] = numbers[rows[found]]
    values[found] = steps
    wrong = ruled_out(values, loss)
    if wrong.any():
        raise ValueError(f"given has values that loss={loss!r} rules out, the first: {values[wrong][0]:g}")
    return values


def _check_all_found(panel: Panel, frame: pd.DataFrame, rows: np.ndarray, horizon: int) -> None:
    """Refuse rows of given values that are no steps of the forecast, unknown ids first."""
    schema = panel.schema
    others = np.setdiff1d(np.arange(len(frame)), rows)
    if not others.size:
        return
    series = _series_of(panel, frame, "given")[others]
    if (series < 0).any():
        unknown = pd.unique(frame[schema.id_col].iloc[others[series < 0]]).tolist()
        raise ValueError(
            f"given has values of {len(unknown)} ids that are not in the history, the first: {unknown[0]!r}. "
            f"Leave them out, or add their history"
        )
    column = frame.index if schema.time_col is None else frame[schema.time_col]
    time = read_time(column.take(others[:1]), "the time of given")
    length = panel.lengths[series[0]]
    raise ValueError(
        f"given has {others.size} rows that are no steps of the forecast, the first: "
        f"{show_stamp(time.stamps[0], time.zone)}{_of_id(panel, series[0])}. The {horizon} steps go from "
        f"{_show(panel, series[0], length)} to {_show(panel, series[0], length + horizon - 1)}: leave out the others, "
        f"or raise horizon"
    )


def _series_of(panel: Panel, frame: pd.DataFrame, what: str) -> np.ndarray:
    """Return the series (M,) that each row of a frame is of, -1 for an unknown id."""
    id_col = panel.schema.id_col
    if panel.schema.layout != "long":
        return np.zeros(len(frame), dtype=np.int64)
    ids = read_ids(column_of(frame, id_col, "id", what), f"{id_col!r} of {what}")
    return pd.Index(panel.ids, dtype=object).get_indexer(pd.Index(ids.values, dtype=object))[ids.codes]


def _match(panel: Panel, frame: pd.DataFrame, horizon: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of a frame for each step to come (N, H), -1 where there is none, and which series (N,) it has."""
    schema, grid = panel.schema, panel.grid
    rows, present = np.full((panel.n_series, horizon), -1), np.zeros(panel.n_series, dtype=bool)
    series = _series_of(panel, frame, what)
    time = frame.index if schema.time_col is None else column_of(frame, schema.time_col, "time", what)
    if not len(frame):
        return rows, present
    name = f"the index of {what}" if schema.time_col is None else f"{schema.time_col!r} of {what}"
    stamps, clock = _stamps_like(panel, time, name)
    mine = np.flatnonzero(series >= 0)
    present[series[mine]] = True

    # Which step a row may be, by its place on the axis; it is that step if the stamps are equal.
    distance = grid.ordinals(clock[mine]) - grid.ordinals(panel.start)[series[mine]]
    ahead = distance // grid.stride(panel.start.dtype) - panel.lengths[series[mine]]
    near = (ahead >= 0) & (ahead < horizon)
    mine, ahead = mine[near], ahead[near]
    series = series[mine]
    exact = read_time(frame_time(panel, series, panel.lengths[series] + ahead), name).stamps == stamps[mine]
    mine, ahead, series = mine[exact], ahead[exact], series[exact]
    rows[series, ahead] = mine
    twice = np.flatnonzero(rows[series, ahead] != mine)
    if twice.size:
        first = twice[0]
        raise ValueError(
            f"{what} has {twice.size} surplus rows that are duplicates, the first: "
            f"{_show(panel, series[first], panel.lengths[series[first]] + ahead[first])}"
            f"{_of_id(panel, series[first])}. Keep one row of each"
        )
    return rows, present


def _stamps_like(panel: Panel, time: pd.Series | pd.Index, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return stamps (M,) in UTC where the history has a zone, and as they lie on the axis of the panel."""
    dtype, start = panel.schema.time_dtype, panel.start
    zone, column = time_zone(dtype), read_time(time, name)
    stamps = column.stamps
    if stamps.dtype.kind != start.dtype.kind:
        kinds = {"M": "dates", "i": "whole numbers"}
        raise ValueError(
            f"{name} holds {kinds[stamps.dtype.kind]}, and the history {kinds[start.dtype.kind]}: "
            f"the next stamp is {_show(panel, 0, panel.lengths[0])}"
        )
    if zone is None:
        if column.zone is not None:
            raise ValueError(
                f"{name} has the time zone {column.zone}, and the history has none: "
                f"drop it with .tz_localize(None), or give the history its zone"
            )
        return stamps, stamps.astype(start.dtype)
    if column.zone is None:
        stamps = _to_utc(stamps, zone, name, absolute=panel.grid.is_absolute)
    clock = stamps if panel.grid.is_absolute else to_wall_time(stamps, zone)
    return stamps, clock.astype(start.dtype)


def _to_utc(stamps: np.ndarray, zone: datetime.tzinfo | str, name: str, *, absolute: bool) -> np.ndarray:
    """Return the wall time of a zone as UTC; ``absolute``: hours that the clock change doubles or skips are refused."""
    if not absolute:
        unit = np.datetime_data(stamps.dtype)[0]
        return read_time(restore_time(stamps, f"datetime64[{unit}, {zone}]", absolute=False), name).stamps
    index = pd.DatetimeIndex(stamps).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    if index.hasnans:
        first = show_stamp(stamps[index.isna().argmax()])
        raise ValueError(
            f"{name} has no time zone, and {first} is not one time in {zone}, where the clock changes: "
            f"give it the zone, with .dt.tz_localize"
        )
    return index.tz_convert(None).to_numpy()


def _missing_rows(panel: Panel, found: np.ndarray, present: np.ndarray) -> list[str]:
    """Return what to say about steps (N, H) that have no row."""
    lacking = np.flatnonzero(~found.all(axis=1))
    groups = (lacking[~present[lacking]], lacking[present[lacking]])
    problems = []
    for group in groups:
        problems += [_shortfall(panel, int(i), found[i], bool(present[i])) for i in group[:SHOWN]]
        if len(group) > SHOWN:
            what = "have rows missing" if present[group[0]] else "have no rows"
            problems.append(f"{len(group) - SHOWN} more ids {what}")
    return problems


def _shortfall(panel: Panel, series: int, found: np.ndarray, present: bool) -> str:
    """Return what one series needs and what it has of it."""
    length, n_found, n_missing = panel.lengths[series], np.count_nonzero(found), np.count_nonzero(~found)
    first, last = (_show(panel, series, length + step) for step in (0, len(found) - 1))
    text = f"{_of_id(panel, series).removeprefix(' of ')}: needed {first} to {last}, ".removeprefix(": ")
    if not n_found:
        return text + ("none of its rows is among them (the history ends one step before)" if present else "no rows")
    if found[:n_found].all():
        text += f"given until {_show(panel, series, length + n_found - 1)}: "
    else:
        text += f"given with gaps, the first at {_show(panel, series, length + int((~found).argmax()))}: "
    unit = UNITS.get(str(panel.schema.freq), "steps")
    return text + f"{n_missing} {unit if n_missing > 1 else unit[:-1]} missing"


def _show(panel: Panel, series: int, step: int) -> str:
    """Return the stamp of a step as text."""
    return show_stamp(panel.stamps(series, step), panel.schema.zone)


def _of_id(panel: Panel, series: int) -> str:
    """Return which id this is, for messages; nothing where there is but one series."""
    return f" of id {panel.ids[series]!r}" if panel.schema.layout == "long" else ""


def _lengthened(panel: Panel, horizon: int) -> Panel:
    """Return the panel with rows of missing values behind each series."""
    rows = np.arange(len(panel.values)) + np.repeat(np.arange(panel.n_series) * horizon, panel.lengths)

    def spread(values: np.ndarray) -> np.ndarray:
        longer = np.full((len(values) + panel.n_series * horizon, values.shape[1]), np.nan)
        longer[rows] = values
        return longer

    return replace(
        panel,
        values=spread(panel.values),
        indptr=panel.indptr + np.arange(panel.n_series + 1) * horizon,
        known=spread(panel.known),
        observed=spread(panel.observed),
        weight=None,  # of what is learned, not of what is forecast
    )
