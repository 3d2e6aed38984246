"""Which cut-offs of a panel become windows, and their gather into a `Batch` by index arithmetic."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch

from tsformer.batch import Batch
from tsformer.data.panel import Panel
from tsformer.data.series import ROLES
from tsformer.data.time_features import calendar

# Rows whose statistics are computed at a time; a series is never parted.
STATISTICS_ROWS = 2**16


class SeriesStatistics(NamedTuple):
    """Scale of each series, from its training rows."""

    mean: np.ndarray
    """(N, C) float64, target units."""
    deviation: np.ndarray
    """(N, C) float64, target units, population standard deviation; exactly 0 for a constant."""


class CovariateScales(NamedTuple):
    """Mean and deviation of the covariates of each role, over all training rows; 0 and 1 for categories."""

    known: np.ndarray
    """(2, K) float64."""
    observed: np.ndarray
    """(2, O) float64."""
    static: np.ndarray
    """(2, S) float64."""


def covariate_scales(panel: Panel) -> CovariateScales:
    """Return the scales of the covariates of a panel, training rows only.

    A covariate of numbers that never changes is centred and left at deviation 1.
    """
    scales = []
    for role in ROLES:  # the fields above, in order
        covariates, values = panel.schema.of_role(role), getattr(panel, role)
        scale = np.array([np.zeros(len(covariates)), np.ones(len(covariates))])
        for column, covariate in enumerate(covariates):
            numbers = values[~np.isnan(values[:, column]), column]
            if covariate.levels is None and len(numbers):
                deviation = numbers.std()
                scale[:, column] = numbers.mean(), deviation if deviation > 0 else 1.0
        scales.append(scale)
    return CovariateScales(*scales)


def series_statistics(panel: Panel, end: np.ndarray | int | None = None) -> SeriesStatistics:
    """Return mean and deviation of the observed values of each series; rows of weight 0 do not count.

    Parameters
    ----------
    panel
        N series of C channels.
    end
        (N,) rows of each series that count, None: all.

    Returns
    -------
    SeriesStatistics
        Without NaN: a series with no observed value has the average over the others (0 if there are none).
    """
    if end is not None:
        panel = panel.rows(0, end)
    indptr, weight = panel.indptr, panel.weight
    mean, deviation = np.full((2, panel.n_series, panel.n_channels), np.nan)
    # As many series at a time as stay in the processor's cache: half the time of all at once.
    edges = np.unique(np.searchsorted(indptr, np.arange(0, indptr[-1], STATISTICS_ROWS)))
    for first, last in itertools.pairwise([*edges, panel.n_series]):
        rows = slice(indptr[first], indptr[last])
        offsets, counts = indptr[first : last + 1] - indptr[first], None if weight is None else weight[rows] > 0
        for channel in range(panel.n_channels):
            mean[first:last, channel], deviation[first:last, channel] = _channel_statistics(
                panel.values[rows, channel], offsets, counts
            )
    for values in (*mean.T, *deviation.T):
        unknown = np.isnan(values)
        values[unknown] = 0 if unknown.all() else values[~unknown].mean()
    return SeriesStatistics(mean, deviation)


def _channel_statistics(
    values: np.ndarray, indptr: np.ndarray, counts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (N,) mean and deviation of one channel, NaN of a series with no value (T,) that is observed and counts."""
    observed = ~np.isnan(values)
    if counts is not None:
        observed &= counts
    if not observed.all():
        values = values[observed]
        indptr = np.concatenate([[0], np.cumsum(observed)])[indptr]
    number = np.diff(indptr)
    known = number > 0
    mean, deviation = np.full((2, len(number)), np.nan)
    if known.any():
        begin, number = indptr[:-1][known], number[known]
        # Sums start from the first value of each series, so that constants come out exact and levels of 1e12 keep
        # their digits.
        origin = values[begin]
        centred = values - np.repeat(origin, number)
        shift = np.add.reduceat(centred, begin) / number
        centred -= np.repeat(shift, number)
        mean[known] = origin + shift
        deviation[known] = np.sqrt(np.add.reduceat(np.square(centred, out=centred), begin) / number)
    return mean, deviation


def last_observed(panel: Panel, series: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
    """Return the last observed values before cut-offs (B,) of series, (B, C); NaN where there is none."""
    begin = panel.indptr[series]
    last = np.full((len(series), panel.n_channels), np.nan)
    for channel in range(panel.n_channels):
        observed = np.flatnonzero(~np.isnan(panel.values[:, channel]))
        place = np.searchsorted(observed, begin + cutoffs) - 1
        is_there = place >= 0
        is_there[is_there] = observed[place[is_there]] >= begin[is_there]
        last[is_there, channel] = panel.values[observed[place[is_there]], channel]
    return last


def training_runs(lengths: np.ndarray, context_length: int, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the windows to train on, as runs of consecutive cut-offs: small, however many windows there are.

    Every full window where a series has one; in shorter series the cut-offs that leave some context and, where
    possible, the whole horizon; none in series of fewer than two rows.

    Parameters
    ----------
    lengths
        (N,) rows of each series that may be targets.
    context_length, horizon
        Steps before and after the cut-off.

    Returns
    -------
    series, first, count
        (S,) int64 each: the cut-offs ``first`` to ``first + count - 1`` of ``series``, for `Windows`.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    last_full = lengths - horizon
    first = np.maximum(1, np.minimum(context_length, last_full // 2))
    first = np.where(last_full >= context_length, context_length, first)
    last = np.where(last_full >= first, last_full, lengths - 1)
    count = np.where(lengths >= 2, last - first + 1, 0)
    series = np.flatnonzero(count > 0)
    return series, first[series], count[series]


def training_cutoffs(lengths: np.ndarray, context_length: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of `training_runs` one by one: series and cut-offs, (W,) int64 each, in order."""
    series, first, count = training_runs(lengths, context_length, horizon)
    return _pick(series, first, np.cumsum(count), np.arange(count.sum()))


def validation_cutoffs(
    lengths: np.ndarray, split: np.ndarray, horizon: int, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows whose targets lie behind the training rows, evenly spaced, at most ``limit`` over all series.

    Parameters
    ----------
    lengths, split
        (N,) rows of each series, and the first of them that is not for training.
    horizon
        Steps after a cut-off; a series too short for one whole window has one at ``split``, cut.
    limit
        Most windows in total.

    Returns
    -------
    series, cutoffs
        (W,) int64 each; the same for the same input.
    """
    lengths, split = np.asarray(lengths, dtype=np.int64), np.asarray(split, dtype=np.int64)
    count = np.where((lengths > split) & (split >= 1), np.maximum(lengths - horizon - split + 1, 1), 0)
    total = int(count.sum())
    chosen = np.arange(total)
    if total > limit:
        chosen = np.round(np.linspace(0, total - 1, limit)).astype(np.int64)
    return _pick(np.arange(len(lengths)), split, np.cumsum(count), chosen)


def test_cutoffs(lengths: np.ndarray, begin: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every window, stride 1, whose targets lie in rows ``begin`` to the end of a series.

    Parameters
    ----------
    lengths, begin
        (N,) rows of each series, and the first of them that is for the test.
    horizon
        Steps after a cut-off, all inside the series.

    Returns
    -------
    series, cutoffs
        (W,) int64 each, in order.
    """
    lengths, begin = np.asarray(lengths, dtype=np.int64), np.asarray(begin, dtype=np.int64)
    count = np.maximum(lengths - horizon - begin + 1, 0)
    return _pick(np.arange(len(lengths)), begin, np.cumsum(count), np.arange(count.sum()))


test_cutoffs.__test__ = False  # type: ignore[attr-defined]  # pytest would take the name for a test


def _pick(series: np.ndarray, first: np.ndarray, ends: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return series and cut-off of windows, by their number in runs of consecutive cut-offs that end at ``ends``."""
    run = np.searchsorted(ends, index, side="right")
    begins = np.concatenate([[0], ends[:-1]])
    return series[run], first[run] + index - begins[run]


class Windows:
    """Windows of a panel, cut only when a batch asks for them. The panel is shared, never copied.

    Parameters
    ----------
    panel
        N series of C channels.
    series, cutoffs
        (W,) int64: series, and row of it that is the window's first target step (= rows before it).
    counts
        (W,) int64: how many consecutive cut-offs each entry stands for (`training_runs`); None: one each.
    context_length, horizon
        Steps before and from the cut-off on. Steps outside a series are masked.
    statistics, by_window
        Scale of each series; True: of each window, which needs ``counts=None``.
    calendar_fields
        Calendar fields of every step to add; none by default.
    scales
        Of the covariates; None: they go into the batch in units of their own.

    Raises
    ------
    ValueError
        When there is no window, or a series or cut-off is outside the panel.

    Examples
    --------
    >>> import numpy as np
    >>> from tsformer.data.panel import to_panel
    >>> panel = to_panel(np.arange(10.0))
    >>> runs = training_runs(panel.lengths, context_length=4, horizon=2)
    >>> windows = Windows(panel, *runs, context_length=4, horizon=2, statistics=series_statistics(panel))
    >>> len(windows), windows.batch(np.array([0])).target.squeeze().tolist()
    (5, [4.0, 5.0])
    """

    def __init__(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        counts: np.ndarray | None = None,
        *,
        context_length: int,
        horizon: int,
        statistics: SeriesStatistics,
        by_window: bool = False,
        calendar_fields: tuple[str, ...] = (),
        scales: CovariateScales | None = None,
    ) -> None:
        self.panel = panel
        self.series = np.asarray(series, dtype=np.int64)
        self.cutoffs = np.asarray(cutoffs, dtype=np.int64)
        counts = np.ones_like(self.cutoffs) if counts is None else np.asarray(counts, dtype=np.int64)
        self.ends = np.cumsum(counts)
        self.context_length, self.horizon = context_length, horizon
        self.calendar_fields = tuple(calendar_fields)
        self.statistics, self.by_window, self.scales = statistics, by_window, scales
        if not self.ends.size or not self.ends[-1]:
            raise ValueError(
                f"no window: the longest series has {panel.lengths.max(initial=0)} rows. Training needs two or more, "
                f"evaluation the whole horizon of {horizon}: give more rows, or lower the horizon"
            )
        if self.series.min() < 0 or self.series.max() >= panel.n_series:
            raise ValueError(f"series must lie in 0 ... {panel.n_series - 1}")
        if self.cutoffs.min() < 0 or (self.cutoffs + counts - 1 > panel.lengths[self.series]).any():
            raise ValueError(
                "a cut-off lies outside its series: at most as many rows can be before it as the series has"
            )
        self._values = torch.from_numpy(panel.values)
        self._covariates = {
            role: (torch.from_numpy(getattr(panel, role)), None if scales is None else torch.from_numpy(scales[i]))
            for i, role in enumerate(CovariateScales._fields)
            if getattr(panel, role).shape[1]
        }
        self._weight = None
        if panel.weight is not None:  # only ratios count, so huge ones need not overflow
            self._weight = torch.from_numpy(panel.weight / max(panel.weight.max(), 1e-300))[:, None]
        self._mean, self._deviation = torch.from_numpy(statistics.mean), torch.from_numpy(statistics.deviation)
        self._steps = torch.arange(-context_length, horizon)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def locate(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return series and cut-off (B,) of window numbers (B,)."""
        return _pick(self.series, self.cutoffs, self.ends, np.asarray(index, dtype=np.int64))

    def batch(self, index: np.ndarray) -> Batch:
        """Return the windows of these numbers (B,)."""
        series, cutoffs = self.locate(index)
        begin, end = self.panel.indptr[series], self.panel.indptr[series + 1]
        rows = torch.from_numpy(begin + cutoffs)[:, None] + self._steps  # (B, L + H)
        inside = (rows >= torch.from_numpy(begin)[:, None]) & (rows < torch.from_numpy(end)[:, None])
        rows = rows.clamp_(0, len(self._values) - 1)
        values = self._values[rows]  # (B, L + H, C)
        mask = inside[..., None] & ~values.isnan()
        values.masked_fill_(~mask, 0.0)
        context = self.context_length
        scale_of = torch.from_numpy(index if self.by_window else series)
        context_mask, target_mask, weight = mask[:, :context], mask[:, context:], None
        if self._weight is not None:
            weight = self._weight[rows[:, context:]].float()  # (B, H, 1)
            target_mask = target_mask & (weight > 0)
        return Batch(
            context=values[:, :context],
            context_mask=context_mask,
            target=values[:, context:],
            target_mask=target_mask,
            series_mean=self._mean[scale_of],
            series_deviation=self._deviation[scale_of],
            calendar=self._calendar(series, cutoffs) if self.calendar_fields else None,
            known=self._gather("known", rows, inside),
            observed=self._gather("observed", rows[:, :context], inside[:, :context]),
            static=self._gather("static", torch.from_numpy(series)),
            weight=weight,
            is_context_complete=bool(context_mask.all()),
            is_target_complete=bool(target_mask.all()),
        )

    def _calendar(self, series: np.ndarray, cutoffs: np.ndarray) -> torch.Tensor:
        """Return (B, L + H, F) calendar fields, also of steps outside the series."""
        steps = cutoffs[:, None] + np.arange(-self.context_length, self.horizon)
        stamps = self.panel.stamps(series[:, None], steps)
        return torch.from_numpy(calendar(stamps, self.calendar_fields, self.panel.schema.zone))

    def _gather(self, role: str, rows: torch.Tensor, inside: torch.Tensor | None = None) -> torch.Tensor | None:
        """Return covariates (..., K) of rows (...) as float32, NaN where a row is outside its series; None of none."""
        if role not in self._covariates:
            return None
        columns, scale = self._covariates[role]
        values = columns[rows]
        if scale is not None:  # before the cast, so that large numbers keep their digits
            values = (values - scale[0]) / scale[1]
        values = values.float()
        return values if inside is None else values.masked_fill_(~inside[..., None], torch.nan)
