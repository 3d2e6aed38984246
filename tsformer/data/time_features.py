"""Calendar features of timestamps: known into the future, counted on the wall clock."""

from __future__ import annotations

import numpy as np

from tsformer.data.columns import to_wall_time
from tsformer.data.frequency import NANOSECONDS, make_grid

SIZES = {"second": 60, "minute": 60, "hour": 24, "dayofweek": 7, "day": 31, "week": 53, "month": 12}


def calendar_fields(freq: str | int) -> tuple[str, ...]:
    """Return the calendar fields that change from step to step, or season to season, at a frequency.

    Raises
    ------
    ValueError
        For integer and yearly time, which have none.

    Examples
    --------
    >>> calendar_fields("h"), calendar_fields("ME")
    (('hour', 'dayofweek', 'month'), ('month',))
    """
    grid = make_grid(freq)
    if grid.kind == "integer":
        raise ValueError(
            f"freq={grid.freq}: integer time has no calendar. Set timestamp_encoding='none', or give dates"
        )
    if grid.kind == "month":
        if grid.step % 12 == 0:
            raise ValueError(f"freq={grid.freq!r}: yearly data have no calendar. Set timestamp_encoding='none'")
        return ("month",)
    if grid.kind == "business":
        return ("dayofweek", "day", "month")
    if grid.step >= NANOSECONDS["W"]:
        return ("week", "month")
    if grid.step >= NANOSECONDS["D"]:
        return ("dayofweek", "day", "month")
    fields = ("second", "minute", "hour", "dayofweek", "month")
    return fields[0:] if grid.step % NANOSECONDS["min"] else fields[1:] if grid.step % NANOSECONDS["h"] else fields[2:]


def calendar_sizes(fields: tuple[str, ...]) -> tuple[int, ...]:
    """Return how many levels each field has."""
    return tuple(SIZES[field] for field in fields)


def calendar(stamps: np.ndarray, fields: tuple[str, ...], tz: str | None = None) -> np.ndarray:
    """Return the calendar fields of timestamps.

    Parameters
    ----------
    stamps
        datetime64 of any shape (...): wall time, or UTC when ``tz`` is given.
    fields
        Names, as `calendar_fields` gives them.
    tz
        Zone whose wall time counts.

    Returns
    -------
    (..., F) int64, each in ``[0, size)`` of `calendar_sizes`.
    """
    wall = stamps if tz is None else to_wall_time(stamps, tz)
    days = wall.astype("M8[D]")
    return np.stack([_field(name, wall, days) for name in fields], axis=-1)


def _field(name: str, wall: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Return one field, counted from 0."""
    if name == "month":
        return wall.astype("M8[M]").astype(np.int64) % 12
    if name == "day":
        return (days - wall.astype("M8[M]").astype("M8[D]")).astype(np.int64)
    weekday = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    if name == "dayofweek":
        return weekday
    if name == "week":  # ISO: a week belongs to the year of its Thursday
        thursday = days + (3 - weekday)
        return (thursday - thursday.astype("M8[Y]").astype("M8[D]")).astype(np.int64) // 7
    seconds = (wall - days).astype("m8[s]").astype(np.int64)
    return {"hour": seconds // 3600, "minute": seconds // 60 % 60, "second": seconds % 60}[name]
