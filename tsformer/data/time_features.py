"""Calendar features of timestamps: known into the future, counted on the wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tsformer.data.columns import to_wall_time
from tsformer.data.frequency import NANOSECONDS, make_grid

SIZES = {"second": 60, "minute": 60, "hour": 24, "dayofweek": 7, "day": 31, "week": 53, "month": 12}
HOLIDAY = "holiday:"


def calendar_fields(freq: str | int, holidays: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the calendar fields that change from step to step, or season to season, at a frequency.

    Parameters
    ----------
    freq
        Frequency.
    holidays
        Countries whose public holidays are fields too, as the package ``holidays`` names them: ``"DE"``, or
        ``"DE-BY"`` for a part of one.

    Raises
    ------
    ValueError
        For integer and yearly time, which have none; for holidays at steps above a day, of a country that is not
        known, or without the package.

    Examples
    --------
    >>> calendar_fields("h"), calendar_fields("ME")
    (('hour', 'dayofweek', 'month'), ('month',))
    """
    countries = (holidays,) if isinstance(holidays, str) else tuple(holidays or ())
    grid, fields = make_grid(freq), _fields_of(freq)
    if countries and (grid.kind == "month" or grid.step > (1 if grid.kind == "business" else NANOSECONDS["D"])):
        raise ValueError(
            f"holidays are days, and freq={grid.freq!r} has longer steps: leave holidays out, or give their number "
            f"in each step as a known covariate"
        )
    for country in countries:
        _holidays_of(country, 2000)
    return (*fields, *(HOLIDAY + country for country in countries))


def _fields_of(freq: str | int) -> tuple[str, ...]:
    """Return the fields of a frequency, without holidays."""
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
    return tuple(2 if field.startswith(HOLIDAY) else SIZES[field] for field in fields)


def calendar(stamps: np.ndarray, fields: tuple[str, ...], tz: str | None = None) -> np.ndarray:
    """Return the calendar fields of timestamps.

    Parameters
    ----------
    stamps
        datetime64 of any shape (...): wall time, or UTC when ``tz`` is given.
    fields
        Names, as `calendar_fields` gives them; ``"holiday:DE"`` is 1 on public holidays of that country.
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
    if name.startswith(HOLIDAY):
        return _is_holiday(name.removeprefix(HOLIDAY), days)
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


def _is_holiday(country: str, days: np.ndarray) -> np.ndarray:
    """Return 1 for the days (...) that are holidays, else 0."""
    if not days.size:
        return np.zeros(days.shape, dtype=np.int64)
    first, last = (int(day.astype("M8[Y]").astype(np.int64)) + 1970 for day in (days.min(), days.max()))
    table = _holiday_table(country, first, last)
    return table[(days - np.datetime64(f"{first:04d}-01-01", "D")).astype(np.int64)]


@lru_cache(maxsize=64)
def _holiday_table(country: str, first: int, last: int) -> np.ndarray:
    """Return 1 for each holiday among the days of some years, else 0."""
    begin = np.datetime64(f"{first:04d}-01-01", "D")
    table = np.zeros((last - first + 1) * 366, dtype=np.int64)
    dates = [date for year in range(first, last + 1) for date in _holidays_of(country, year)]
    table[(np.array(dates, dtype="M8[D]") - begin).astype(np.int64)] = 1
    return table


def _nearest(code: str, choices: Sequence[str]) -> list[str]:
    """Return the codes that share most letters with one, place by place: they are too short to compare otherwise."""
    return sorted(choices, key=lambda choice: -sum(a == b for a, b in zip(code, choice, strict=False)))[:8]


@lru_cache(maxsize=4096)
def _holidays_of(country: str, year: int) -> tuple[np.datetime64, ...]:
    """Return the public holidays of a country, or of a part of it, in one year."""
    try:
        import holidays
    except ImportError:
        raise ValueError(f"holidays={country!r} needs the package holidays: pip install 'tsformer[holidays]'") from None
    code, _, part = country.partition("-")
    try:
        found = holidays.country_holidays(code, subdiv=part or None, years=year)
    except NotImplementedError:
        parts = holidays.list_supported_countries(include_aliases=False)
        choices = [f"{code}-{name}" for name in parts[code]] if part and code in parts else list(parts)
        raise ValueError(
            f"holidays={country!r} is no country or part of one that the package holidays knows; "
            f"near are {', '.join(_nearest(country.upper(), choices))}"
        ) from None
    return tuple(np.datetime64(date, "D") for date in found if date.year == year)
