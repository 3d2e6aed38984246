"""From the stamps that rows have to the regular axis they belong on: order, frequency, duplicates, gaps."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from tsformer.data.columns import IdColumn, to_wall_time
from tsformer.data.frequency import EXAMPLES, MONTHS, NANOSECONDS, WEEKDAYS, Grid, canonical_freq, make_grid, weekdays

# A gap may multiply the rows by at most this, once they pass the second number: more is a wrong date.
MAX_GROWTH, ROWS_NEVER_REFUSED = 10, 100_000
# With this share of equal steps, each longer than the frequency, it is the frequency that is wrong.
SURELY = 0.9


def infer_freq(stamps: np.ndarray, follows: np.ndarray) -> str | int:
    """Return the most common step of sorted stamps, as a frequency.

    Parameters
    ----------
    stamps
        (T,) datetime64 (wall time) or int64, in order within each series.
    follows
        (T - 1,) bool: True where row ``i + 1`` follows row ``i`` in the same series.

    Raises
    ------
    ValueError
        When no series has two rows, or the stamps are Monday to Friday (then ``freq="B"`` is proposed).
    """
    if not follows.any():
        raise ValueError(f"the frequency cannot be told from series of one row: set freq ({EXAMPLES})")
    steps = np.diff(stamps.view(np.int64))
    step = _most_common(steps, follows)
    if stamps.dtype.kind != "M":
        return step
    unit, count = np.datetime_data(stamps.dtype)
    duration = step * count * NANOSECONDS[unit]
    day = NANOSECONDS["D"]
    if duration >= 28 * day:
        monthly = _infer_months(stamps, follows)
        if monthly is not None:
            return monthly
    if duration % day == 0:
        if duration == day and steps[follows].max() > step and _skips_weekends(stamps, follows):
            raise ValueError(
                'no regular frequency: the rows are Monday to Friday. Set freq="B" for business days '
                '(or freq="D" to treat each weekend as missing)'
            )
        if duration % NANOSECONDS["W"] == 0:
            days = weekdays(stamps)
            if (days == days[0]).all():
                return canonical_freq(f"{duration // NANOSECONDS['W']}W-{WEEKDAYS[days[0]]}")
    name = next(name for name in ("D", "h", "min", "s", "ms", "us", "ns") if duration % NANOSECONDS[name] == 0)
    return canonical_freq(f"{duration // NANOSECONDS[name]}{name}")


def _skips_weekends(stamps: np.ndarray, follows: np.ndarray) -> bool:
    """Return whether stamps go over weekends and never lie in one."""
    days = weekdays(stamps)
    return days.max() < 5 and bool((np.diff(days)[follows] < 0).any())


def _infer_months(stamps: np.ndarray, follows: np.ndarray) -> str | int | None:
    """Return the monthly, quarterly or yearly frequency that every stamp fits, None if there is none."""
    months = stamps.astype("M8[M]").astype(np.int64)
    step = _most_common(np.diff(months), follows)
    for name in ("MS", "ME", "BMS", "BME"):
        wrong = make_grid(name).misplaced(stamps)
        if wrong is not None and not wrong.any():
            break
    else:
        return None
    for period, size in (("Y", 12), ("Q", 3)):
        phase = months[0] % size
        if step % size == 0 and (months % size == phase).all():
            # A quarter may be named by any of its months: pandas counts starts from January, ends to December.
            month = MONTHS[phase] if period == "Y" or name.endswith("S") else MONTHS[phase + 9]
            return canonical_freq(f"{step // size}{name.replace('M', period)}-{month}")
    return canonical_freq(f"{step}{name}")


def _most_common(steps: np.ndarray, counts: np.ndarray) -> int:
    """Return the most frequent of the steps that count, the smallest of several."""
    first = steps[counts.argmax()]
    if 2 * np.count_nonzero((steps == first) & counts) > np.count_nonzero(counts):  # the usual case, without a sort
        return int(first)
    values, numbers = np.unique(steps[counts], return_counts=True)
    return int(values[numbers.argmax()])


def sort_order(ids: IdColumn, stamps: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the order of rows by series and time, None when they are in order already, and the offsets of the series.

    Both (T,) and (N + 1,) int64.
    """
    ends = np.cumsum(ids.counts)
    goes_back = stamps[1:] < stamps[:-1]
    goes_back[ends[:-1] - 1] = False  # from one id to the next it may
    if not goes_back.any() and len(ids.runs) == len(ids.values):  # each series whole and in order, as M4 has them
        if (ids.runs[1:] > ids.runs[:-1]).all():
            return None, np.concatenate([[0], ends])
        series = np.argsort(ids.runs)
        begin, end = (ends - ids.counts)[series].tolist(), ends[series].tolist()
        order = np.concatenate([np.arange(i, j) for i, j in zip(begin, end, strict=True)])
        return order, np.concatenate([[0], np.cumsum(ids.counts[series])])
    codes = ids.codes
    return np.lexsort((stamps, codes)), np.concatenate([[0], np.cumsum(np.bincount(codes))])


@dataclass(frozen=True)
class RowAxis:
    """The stamps of rows in order of series and time.

    Parameters
    ----------
    stamps
        (T,) int64 or datetime64; UTC or wall time where there is a zone.
    indptr
        (N + 1,) int64, offsets of the series.
    ids
        (N,) ids for messages; None: one series without an id.
    name
        What messages call the time.
    zone
        Time zone, None without one.
    is_utc
        Whether stamps with a zone are still UTC.
    """

    stamps: np.ndarray
    indptr: np.ndarray
    ids: np.ndarray | None
    name: str
    zone: datetime.tzinfo | None = None
    is_utc: bool = True

    @property
    def follows(self) -> np.ndarray:
        """(T - 1,) bool: True where row ``i + 1`` follows row ``i`` in the same series."""
        inside = np.ones(len(self.stamps) - 1, dtype=bool)
        inside[self.indptr[1:-1] - 1] = False
        return inside

    def in_wall_time(self) -> RowAxis:
        """Return the axis with stamps on the clock of its zone."""
        if self.zone is None or not self.is_utc:
            return self
        return replace(self, stamps=to_wall_time(self.stamps, self.zone), is_utc=False)

    def check_duplicates(self) -> None:
        """Raise a ValueError if a series has two rows for one stamp."""
        twice = np.flatnonzero((self.stamps[1:] == self.stamps[:-1]) & self.follows)
        if twice.size:
            same, way_out = "id and time", "Keep"
            if self.ids is None:
                same = "time"
                way_out = "Are these several series? Name their column (id_col; on the command line data.id=), or keep"
            raise ValueError(
                f"{twice.size} surplus rows are duplicates (same {same}), the first: "
                f"{self._describe(twice[0])}. {way_out} one row of each, with drop_duplicates or a groupby mean, say"
            )

    def choose_grid(self, freq: str | int | None) -> Grid:
        """Return the grid of a frequency, by default of the most common step."""
        is_integer = self.stamps.dtype.kind != "M"
        if freq is None:
            wall = self.in_wall_time()
            return make_grid(infer_freq(wall.stamps, wall.follows))
        grid = make_grid(freq)
        if is_integer and not grid.is_integer:
            raise ValueError(
                f"freq={grid.freq!r} needs dates, but {self.name} holds whole numbers: convert it, or set freq=1"
            )
        if grid.is_integer and not is_integer:
            raise ValueError(
                f"freq={grid.freq!r} is a step of integer time, but {self.name} holds dates: set freq='D', say"
            )
        return grid

    def place(self, grid: Grid) -> tuple[np.ndarray | slice, np.ndarray]:
        """Return where each row goes on the regular axis, and the offsets of the series there.

        Raises
        ------
        ValueError
            For a stamp off the axis, or a gap so long that its date must be wrong.

        Warns
        -----
        UserWarning
            With the number of missing stamps and the first of them.
        """
        wrong = grid.misplaced(self.stamps)
        if wrong is not None and wrong.any():
            raise self._irregular(grid, int(wrong.argmax()))
        stride, follows = grid.stride(self.stamps.dtype), self.follows
        ahead = np.diff(grid.ordinals(self.stamps))
        time_of_day = grid.time_of_day(self.stamps)
        if time_of_day is not None:  # the ordinals are days: the hour must be the same all along
            moved = follows & (time_of_day[1:] != time_of_day[:-1])
            if moved.any():
                raise self._irregular(grid, int(moved.argmax()) + 1)
        if ((ahead == stride) | ~follows).all():
            return slice(None), self.indptr
        off = follows & ((ahead % stride != 0) | (ahead <= 0))  # the wall clock may stand still
        if off.any():
            raise self._irregular(grid, int(off.argmax()) + 1)

        steps = np.where(follows, ahead // stride, 1)
        rows = np.concatenate([[0], np.cumsum(steps)])
        n_rows, n_missing = rows[-1] + 1, rows[-1] + 1 - len(rows)
        if n_rows > MAX_GROWTH * len(rows) and n_rows > ROWS_NEVER_REFUSED:
            longest = int(steps.argmax())
            raise ValueError(
                f"{steps[longest] - 1:,} steps of freq={grid.freq!r} are missing between {self._describe(longest)} and "
                f"{self._show(self.stamps[longest + 1])}: check that date, or set a longer freq"
            )
        usual = _most_common(steps, follows)
        if usual > 1 and np.count_nonzero(steps[follows] == usual) >= SURELY * np.count_nonzero(follows):
            raise ValueError(
                f"freq={grid.freq!r} does not fit: nearly every row of {self.name} is {usual} such steps after the one "
                f"before it, from {self._describe(0)}. Set the freq of the data, or resample them"
            )
        before = int((steps > 1).argmax())
        first = grid.advance(self.stamps[before], 1)
        warnings.warn(
            f"{n_missing} stamps are missing from the regular axis (freq={grid.freq!r}), the first: "
            f"{self._describe(before, first)}. They are treated as missing values",
            UserWarning,
            stacklevel=5,
        )
        return rows, np.append(rows[self.indptr[:-1]], n_rows)

    def _irregular(self, grid: Grid, row: int) -> ValueError:
        """Return the error for a row off the axis."""
        text = f"{self.name} is irregular: {self._describe(row)} is not on the axis of freq={grid.freq!r}"
        if row and self.follows[row - 1] and not self._is_misplaced(grid, row - 1):
            expected = self._show(grid.advance(self.stamps[row - 1], 1))
            text += f", where {self._show(self.stamps[row - 1])} is followed by {expected}"
        try:
            fits = infer_freq(self.stamps, self.follows)
        except ValueError:
            fits = grid.freq
        hint = f"set freq={fits!r}, which fits the most common step" if fits != grid.freq else "set another freq"
        if self.zone is not None and not self.is_utc:
            hint += ", convert the time with .dt.tz_convert('UTC')"
        if grid.kind == "wall" and grid.step >= 28 * NANOSECONDS["D"]:
            hint += ", move monthly stamps to the first of the month with .dt.to_period('M').dt.to_timestamp()"
        return ValueError(f"{text}. Correct the stamp, {hint}, or resample the data")

    def _is_misplaced(self, grid: Grid, row: int) -> bool:
        """Return whether the stamp of one row cannot belong to the grid."""
        wrong = grid.misplaced(self.stamps[row : row + 1])
        return wrong is not None and bool(wrong[0])

    def _describe(self, row: int, stamp: Any = None) -> str:
        """Return the stamp of a row, with its id."""
        text = self._show(self.stamps[row] if stamp is None else stamp)
        if self.ids is None:
            return text
        series = np.searchsorted(self.indptr, row, side="right") - 1
        return f"{text} of id {self.ids[series]!r}"

    def _show(self, stamp: Any) -> str:
        """Return a stamp as text, in its zone."""
        return show_stamp(stamp, self.zone if self.is_utc else None)


def show_stamp(stamp: Any, zone: datetime.tzinfo | str | None = None) -> str:
    """Return a stamp as text: a number, a date, or a date and time; of UTC stamps in the time of a zone."""
    if np.asarray(stamp).dtype.kind != "M":
        return str(stamp)
    time = pd.Timestamp(cast(np.datetime64, np.asarray(stamp)[()]))
    if zone is not None:
        time = time.tz_localize("UTC").tz_convert(zone)
    return str(time).removesuffix(" 00:00:00")
