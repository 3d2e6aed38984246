"""Series in memory: `Panel`, the one form in which all data go on, and `Schema`, how they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tsformer.data.axis import show_stamp
from tsformer.data.columns import time_zone
from tsformer.data.covariates import Covariate, Role
from tsformer.data.frequency import Grid, make_grid
from tsformer.data.layout import Label, Layout

ROLES: tuple[Role, ...] = ("known", "observed", "static")
# Sums of squares of larger values are infinite.
LARGEST = 1e150


@dataclass(frozen=True)
class Schema:
    """How the caller's data look, so that forecasts go back the same way.

    Parameters
    ----------
    layout
        What the caller gave.
    id_col
        Name of the id column that makes a frame long.
    time_col
        Name of the time column; None: time is the index.
    targets
        Channel names in order.
    freq
        Canonical pandas alias, or an integer step.
    time_dtype, id_dtype
        As they came.
    index_name, series_name
        Name of a time index, and of a Series.
    id_levels, id_levels_dtype, id_ordered
        Categories of a categorical id column.
    covariates
        Columns beside the targets, with the levels that training saw.
    """

    layout: Layout
    id_col: str
    time_col: str | None
    targets: tuple[Label, ...]
    freq: str | int
    time_dtype: str
    id_dtype: str = "object"
    index_name: Label | None = None
    series_name: Label | None = None
    id_levels: tuple[Label, ...] | None = None
    id_levels_dtype: str | None = None
    id_ordered: bool = False
    covariates: tuple[Covariate, ...] = ()

    def of_role(self, role: Role) -> tuple[Covariate, ...]:
        """Return the covariates of a role, in the order of their columns in the panel."""
        return tuple(covariate for covariate in self.covariates if covariate.role == role)

    def levels_of(self, role: Role) -> tuple[int, ...]:
        """Return how many levels each covariate of a role has, 0 for numbers."""
        return tuple(0 if c.levels is None else len(c.levels) for c in self.of_role(role))

    @property
    def zone(self) -> str | None:
        """Time zone of which the panel's stamps are the UTC; None where they are wall time or have no zone."""
        zone = time_zone(self.time_dtype) if make_grid(self.freq).is_absolute else None
        return None if zone is None else str(zone)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Schema:
        """Return the schema that `to_dict` wrote."""
        plain: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in fields.items()}
        written = [dict(covariate) for covariate in plain.pop("covariates", ())]
        for covariate in written:
            covariate["levels"] = None if covariate["levels"] is None else tuple(covariate["levels"])
        return cls(**plain, covariates=tuple(Covariate(**covariate) for covariate in written))


def no_columns() -> np.ndarray:
    """Return covariates of which there are none; a panel gives them its own length."""
    return np.empty((0, 0))


@dataclass(frozen=True)
class Panel:
    """Series on a regular time axis: N series of C channels, end to end in one array of T rows.

    Parameters
    ----------
    values
        (T, C) float64, target units; NaN where missing, also at stamps that the caller's rows skipped.
    indptr
        (N + 1,) int64: series ``i`` is rows ``indptr[i]:indptr[i + 1]``.
    start
        (N,) first stamp of each series: int64, or datetime64 (with a zone: UTC below a day, wall time from a day up).
    ids
        (N,) ids, sorted; one empty id when the data have none.
    schema
        How the data came.
    known, observed, static
        (T, K), (T, O) and (N, S) float64: covariates in the order of the schema, categories as numbers of their
        levels; NaN where missing or of an unseen level. None by default: width 0.
    weight
        (T,) float64: what an error at each row counts, 0 at stamps that the caller's rows skipped; None: all the same.
    """

    values: np.ndarray
    indptr: np.ndarray
    start: np.ndarray
    ids: np.ndarray
    schema: Schema
    known: np.ndarray = field(default_factory=no_columns)
    observed: np.ndarray = field(default_factory=no_columns)
    static: np.ndarray = field(default_factory=no_columns)
    weight: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, length in (("known", len(self.values)), ("observed", len(self.values)), ("static", len(self.ids))):
            if not getattr(self, name).shape[1]:
                object.__setattr__(self, name, np.empty((length, 0)))

    @property
    def n_series(self) -> int:
        """N."""
        return len(self.ids)

    @property
    def n_channels(self) -> int:
        """C."""
        return self.values.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        """(N,) rows of each series."""
        return np.diff(self.indptr)

    @property
    def grid(self) -> Grid:
        """The time axis."""
        return make_grid(self.schema.freq)

    def stamps(self, series: np.ndarray | int, steps: np.ndarray | int) -> np.ndarray:
        """Return the stamps of step numbers (0: first row), broadcast together; steps may lie beyond either end."""
        return self.grid.advance(self.start[series], np.asarray(steps, dtype=np.int64))

    def rows(self, begin: np.ndarray | int, end: np.ndarray | int) -> Panel:
        """Return the panel of steps ``begin`` to ``end`` (excluded) of each series.

        Parameters
        ----------
        begin, end
            (N,) or one number for all; cut to what a series has. A series left without rows keeps its place.

        Returns
        -------
        Panel
            A copy of these rows; the panel itself where they are all it has.
        """
        first = np.clip(np.broadcast_to(begin, self.n_series), 0, self.lengths)
        lengths = np.clip(np.broadcast_to(end, self.n_series), first, self.lengths) - first
        if np.array_equal(lengths, self.lengths):
            return self
        begin_row = self.indptr[:-1] + first
        kept = [slice(i, j) for i, j in zip(begin_row.tolist(), (begin_row + lengths).tolist(), strict=True)]

        def cut(columns: np.ndarray) -> np.ndarray:
            # A copy of slices moves memory as it lies: a quarter of the time of a gather by row numbers.
            return np.concatenate([columns[rows] for rows in kept]) if columns.size else columns

        return replace(
            self,
            values=cut(self.values),
            indptr=np.concatenate([[0], np.cumsum(lengths)]),
            start=self.stamps(np.arange(self.n_series), first),
            known=cut(self.known),
            observed=cut(self.observed),
            weight=None if self.weight is None else cut(self.weight),
        )

    def tail(self, n: np.ndarray | int) -> Panel:
        """Return the panel of the last ``n`` rows of each series."""
        return self.rows(self.lengths - n, self.lengths)

    def with_levels_of(self, schema: Schema) -> Panel:
        """Return the panel with the numbers of levels that another schema has, of the same covariates.

        Levels that it does not have become missing.

        Raises
        ------
        ValueError
            When the covariates are others, or numbers in one and categories in the other.
        """
        if self.schema.covariates == schema.covariates:
            return self
        changed = {role: getattr(self, role).copy() for role in ROLES}
        for role in ROLES:
            ours, theirs = self.schema.of_role(role), schema.of_role(role)
            if [c.name for c in ours] != [c.name for c in theirs]:
                names = ", ".join(repr(c.name) for c in theirs) or "none"
                raise ValueError(f"the {role} covariates must be those of the fit: {names}")
            for column, (our, their) in enumerate(zip(ours, theirs, strict=True)):
                if (our.levels is None) != (their.levels is None):
                    raise ValueError(f"covariate {our.name!r} is of numbers here or in the fit, and not in both")
                if our.levels is not None and their.levels is not None and our.levels != their.levels:
                    place = {level: float(number) for number, level in enumerate(their.levels)}
                    numbers = np.array([*(place.get(level, np.nan) for level in our.levels), np.nan])
                    old = changed[role][:, column]
                    changed[role][:, column] = numbers[np.nan_to_num(old, nan=-1).astype(np.int64)]
        return replace(self, schema=replace(self.schema, covariates=schema.covariates), **changed)

    def describe(self, row: int, column: Label) -> str:
        """Return the column, id and stamp of one value, for messages."""
        series = int(np.searchsorted(self.indptr, row, side="right")) - 1
        stamp = show_stamp(self.stamps(series, row - self.indptr[series]), self.schema.zone)
        of_id = f", id {self.ids[series]!r}" if self.schema.layout == "long" else ""
        return f"column {column!r}{of_id}, {stamp}"


def check_finite(panel: Panel) -> None:
    """Raise a ValueError that names the first infinite target or covariate, or one too large to be squared."""
    parts = [(panel.schema.targets, panel.values)]
    parts += [(tuple(c.name for c in panel.schema.of_role(role)), getattr(panel, role)) for role in ROLES]
    for names, values in parts:
        too_large = (values > LARGEST) | (values < -LARGEST)
        if too_large.any():
            row, column = (int(i) for i in np.argwhere(too_large)[0])
            what = "infinite" if np.isinf(values[row, column]) else f"beyond {LARGEST:g}, too large to be squared"
            is_static = values is panel.static
            first = (
                f"column {names[column]!r}, id {panel.ids[row]!r}" if is_static else panel.describe(row, names[column])
            )
            raise ValueError(
                f"{np.count_nonzero(too_large)} values are {what}, the first: {first}. "
                f"Replace them by numbers, or by NaN for missing"
            )


def ruled_out(values: np.ndarray, loss: object) -> np.ndarray:
    """Return where values (...) have no probability under the distribution of a loss; nowhere for other losses."""
    if loss == "log_normal":
        return values <= 0
    if loss == "negative_binomial":
        return (values < 0) | (values != np.floor(values)) & ~np.isnan(values)
    return np.zeros(values.shape, dtype=bool)


def check_support(panel: Panel, loss: object) -> None:
    """Raise a ValueError that names the first target that the distribution of a loss rules out, if there is one."""
    values, wrong = panel.values, ruled_out(panel.values, loss)
    if wrong.any():
        kind, way_out = "not positive", "loss='normal' or loss='student_t'"
        if loss == "negative_binomial":
            kind, way_out = "no counts (0, 1, 2 ...)", "loss='log_normal' (positive values) or loss='student_t'"
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"loss={loss!r}: {np.count_nonzero(wrong)} values are {kind}, the first: {values[row, column]:g} in "
            f"{panel.describe(row, panel.schema.targets[column])}. Replace them (by NaN where they mean missing), or "
            f"train with {way_out}"
        )


def check_trainable(panel: Panel) -> None:
    """Check that every channel and covariate has an observed value somewhere.

    Raises
    ------
    ValueError
        Naming those that have none.
    """
    schema = panel.schema
    empty = _unobserved(schema.targets, panel.values)
    if empty:
        raise ValueError(f"no value of {empty} is observed: every row is missing. Leave it out with target_cols")
    for role in ROLES:
        empty = _unobserved([covariate.name for covariate in schema.of_role(role)], getattr(panel, role))
        if empty:
            raise ValueError(f"no value of {role} covariate {empty} is there: every row is missing. Leave it out")


def _unobserved(names: Sequence[Label], values: np.ndarray) -> str:
    """Return the names of columns that are missing in every row."""
    return ", ".join(repr(name) for name, is_empty in zip(names, np.isnan(values).all(axis=0), strict=True) if is_empty)
