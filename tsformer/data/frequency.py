"""Regular time axes: the names of frequencies, their inference, and stamps to step numbers and back."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

import numpy as np
import pandas as pd

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "D": 86_400_000_000_000,
    "W": 604_800_000_000_000,
}
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MONTHS_PER_PERIOD = {"M": 1, "Q": 3, "Y": 12}
Edge = Literal["start", "end", "business start", "business end"]
EDGES: dict[str, Edge] = {"{}S": "start", "{}E": "end", "B{}S": "business start", "B{}E": "business end"}
MONTH_GRIDS = {
    name.format(letter): (months, edge) for letter, months in MONTHS_PER_PERIOD.items() for name, edge in EDGES.items()
}

OLD_ALIASES = {
    **{"M": "ME", "Q": "QE", "Y": "YE", "A": "YE", "AS": "YS", "BM": "BME", "BQ": "BQE", "BY": "BYE", "BA": "BYE"},
    **{"BAS": "BYS", "H": "h", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns", "d": "D", "w": "W", "b": "B"},
}
EXAMPLES = "'h', '15min', 'D', 'B', 'W-MON', 'MS', 'ME', 'QS', 'YE', or a whole number for integer time"

# Mondays of week zero, and a day before any calendar stamp, so that counts of business days stay positive.
MONDAY = np.datetime64("1970-01-05", "D")
_BEFORE_ALL = np.datetime64("0001-01-01", "D")


@dataclass(frozen=True)
class Grid:
    """The regular time axis of one frequency.

    Parameters
    ----------
    freq
        Canonical name: a current pandas alias, or the step of integer time.
    kind
        What one step is: a number (``"integer"``), a fixed time (``"absolute"`` below a day, ``"wall"`` for days
        and weeks), weekdays (``"business"``) or months (``"month"``).
    step
        Size of one step: the number itself, nanoseconds, business days or months.
    anchor
        Weekday of weekly stamps (0 = Monday), or a month (0 = January) that a quarter or year is counted from.
    period
        Months that the anchor repeats after: 1, 3 or 12.
    edge
        Where in its month a stamp lies.
    """

    freq: str | int
    kind: Literal["integer", "absolute", "wall", "business", "month"]
    step: int
    anchor: int | None = None
    period: int = 1
    edge: Edge = "start"

    @property
    def is_integer(self) -> bool:
        """Whether time is a whole number, not a date."""
        return self.kind == "integer"

    @property
    def is_absolute(self) -> bool:
        """Whether steps are equal in absolute time (below a day); longer ones are counted on the wall clock."""
        return self.kind == "absolute"

    def stride(self, dtype: np.dtype) -> int:
        """Return how far two neighbouring stamps lie apart in `ordinals`.

        Raises
        ------
        ValueError
            When the frequency is finer than what ``dtype`` resolves.
        """
        if self.kind not in ("absolute", "wall"):
            return self.step
        unit, count = np.datetime_data(dtype)
        resolution = NANOSECONDS[unit] * count
        if self.step % resolution:
            raise ValueError(
                f"freq={self.freq!r} is finer than the time column, which is of type {dtype}: "
                f"convert it first, for example with .astype('datetime64[ns]')"
            )
        return self.step // resolution

    def ordinals(self, stamps: np.ndarray) -> np.ndarray:
        """Return int64 positions on the axis (same shape), `stride` apart for neighbouring stamps."""
        if self.kind == "business":
            return np.busday_count(_BEFORE_ALL, stamps.astype("M8[D]"))
        if self.kind == "month":
            return stamps.astype("M8[M]").astype(np.int64)
        return stamps.view(np.int64) if stamps.dtype.kind == "M" else stamps

    def misplaced(self, stamps: np.ndarray) -> np.ndarray | None:
        """Return where stamps cannot belong to this frequency (a weekend, not a month end); None if any may."""
        if self.kind == "business":
            return ~np.is_busday(stamps.astype("M8[D]"))
        if self.kind == "wall" and self.anchor is not None:
            return weekdays(stamps) != self.anchor
        if self.kind == "month":
            months = stamps.astype("M8[M]")
            wrong = stamps.astype("M8[D]") != _edge_of_month(months, self.edge)
            return wrong | ((months.astype(np.int64) - (self.anchor or 0)) % self.period != 0)
        return None

    def advance(self, start: np.ndarray, steps: np.ndarray | int) -> np.ndarray:
        """Return the stamps ``steps`` steps after ``start`` (broadcast together), of the dtype of ``start``."""
        if self.kind in ("integer", "absolute", "wall"):
            moved = start.view(np.int64) + steps * self.stride(start.dtype)
            if np.any((moved < start.view(np.int64)) & (np.asarray(steps) > 0)):
                raise ValueError(
                    f"time goes beyond what {start.dtype} can hold: ask for fewer steps, or give dates of a coarser "
                    f"unit (.astype('datetime64[s]'))"
                )
            return moved.astype(np.int64, copy=False).view(start.dtype)
        days = start.astype("M8[D]")
        time_of_day = start - days
        if self.kind == "business":
            moved_days = np.busday_offset(days, steps * self.step, roll="forward")
        else:
            moved_days = _edge_of_month(start.astype("M8[M]") + steps * self.step, self.edge)
        return (moved_days + time_of_day).astype(start.dtype)

    def time_of_day(self, stamps: np.ndarray) -> np.ndarray | None:
        """Return the time since midnight where the grid counts days, None where it is part of the ordinal."""
        return stamps - stamps.astype("M8[D]") if self.kind in ("business", "month") else None


def _edge_of_month(months: np.ndarray, edge: str) -> np.ndarray:
    """Return the first or last (business) day of each month, as days."""
    day = months.astype("M8[D]") if edge.endswith("start") else (months + 1).astype("M8[D]") - 1
    if edge.startswith("business"):
        return np.busday_offset(day, 0, roll="forward" if edge.endswith("start") else "backward")
    return day


def make_grid(freq: object) -> Grid:
    """Return the time axis of a frequency.

    Parameters
    ----------
    freq
        A pandas alias, current or old (``"M"``, ``"H"``, ``"15T"`` ...), a pandas offset, a timedelta, or a positive
        whole number for integer time.

    Raises
    ------
    TypeError, ValueError
        When this is no frequency, or one that the library has no axis for.

    Examples
    --------
    >>> make_grid("15T").freq, make_grid("M").freq, make_grid("W").freq, make_grid(10).freq
    ('15min', 'ME', 'W-SUN', 10)
    """
    if isinstance(freq, (bool, np.bool_)) or freq is None:
        raise TypeError(f"freq must be one of {EXAMPLES}; got {freq!r}")
    if hasattr(freq, "__index__"):
        step = int(freq.__index__())
        if step < 1:
            raise ValueError(f"freq={step} must be a positive step of integer time")
        return Grid(step, "integer", step)
    if not isinstance(freq, (str, Hashable)):
        raise TypeError(f"freq must be one of {EXAMPLES}; got {freq!r} of type {type(freq).__name__}")
    return _make_grid(freq)


@lru_cache(maxsize=256)
def _make_grid(freq: Hashable) -> Grid:
    """Parse a frequency that is not a whole number."""
    text = freq.strip() if isinstance(freq, str) else _alias_of(freq)
    match = re.fullmatch(r"(\d*)([A-Za-z]+)(?:-([A-Za-z]{3}))?", text)
    if match is None:  # "1h30min", "1.5h": sums and fractions of fixed times
        match = re.fullmatch(r"(\d*)([A-Za-z]+)()", _alias_of(text))
    count, name, suffix = match.groups() if match else ("", "", None)
    number, name, suffix = int(count or 1), OLD_ALIASES.get(name, name), (suffix or "").upper()
    prefix = str(number) if number > 1 else ""
    if number and name in NANOSECONDS and name != "W" and not suffix:
        return Grid(prefix + name, "wall" if name == "D" else "absolute", number * NANOSECONDS[name])
    if number and name == "B" and not suffix:
        return Grid(prefix + name, "business", number)
    if number and name == "W" and (suffix or "SUN") in WEEKDAYS:
        suffix = suffix or "SUN"
        return Grid(f"{prefix}W-{suffix}", "wall", number * NANOSECONDS["W"], WEEKDAYS.index(suffix))
    if number and name in MONTH_GRIDS:
        period, edge = MONTH_GRIDS[name]
        if period == 1 and not suffix:
            return Grid(prefix + name, "month", number, 0, period, edge)
        suffix = suffix or ("JAN" if edge.endswith("start") else "DEC")
        if period > 1 and suffix in MONTHS:
            return Grid(f"{prefix}{name}-{suffix}", "month", number * period, MONTHS.index(suffix), period, edge)
    raise ValueError(f"freq={freq!r} is not a frequency known here: use one of {EXAMPLES}")


def _alias_of(freq: object) -> str:
    """Return the pandas alias of an offset, a timedelta or a compound name; "" when pandas knows none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas on its own old names
        try:
            offset = pd.tseries.frequencies.to_offset(cast(str, freq))
        except (ValueError, TypeError):
            return ""
    return "" if offset is None else str(offset.freqstr)


def canonical_freq(freq: object) -> str | int:
    """Return the canonical name of a frequency: a current pandas alias, or an integer step.

    Raises
    ------
    TypeError, ValueError
        As `make_grid`.
    """
    return make_grid(freq).freq


def weekdays(stamps: np.ndarray) -> np.ndarray:
    """Return the weekday of each stamp, Monday 0."""
    return (stamps.astype("M8[D]") - MONDAY).astype(np.int64) % 7


def season_length(freq: str | int) -> int:
    """Return how many steps the usual season of a frequency has.

    A day for hours and minutes, a week for days, a year for weeks, months and quarters, a minute for seconds;
    1 where there is none (yearly, integer time).

    Examples
    --------
    >>> [season_length(freq) for freq in ("h", "15min", "D", "B", "W-MON", "ME", "QS-JAN", "YE-DEC", 1)]
    [24, 96, 7, 5, 52, 12, 4, 1, 1]
    """
    grid = make_grid(freq)
    if grid.kind == "integer":
        return 1
    if grid.kind == "business":
        return max(1, 5 // grid.step)
    if grid.kind == "month":
        return max(1, 12 // grid.step)
    if grid.step >= NANOSECONDS["W"]:
        season = 52 * NANOSECONDS["W"]
    elif grid.step >= NANOSECONDS["D"]:
        season = NANOSECONDS["W"]
    elif grid.step >= NANOSECONDS["min"]:
        season = NANOSECONDS["D"]
    else:
        season = NANOSECONDS["min"] if grid.step >= NANOSECONDS["s"] else NANOSECONDS["s"]
    return max(1, season // grid.step)
