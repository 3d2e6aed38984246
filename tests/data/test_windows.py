import numpy as np
import pandas as pd
import pytest
import torch

from tsformer.data import windows as w
from tsformer.data.panel import to_panel
from tsformer.data.time_features import calendar


def make_panel(lengths=(50, 7, 20), channels=2, missing=0.1, freq="D", tz=None):
    rng = np.random.default_rng(0)
    parts = []
    for i, n in enumerate(lengths):
        ds = pd.date_range("2024-01-01", periods=n, freq=freq, tz=tz)
        values = rng.normal(100 * i, 10, (n, channels))
        values[rng.random((n, channels)) < missing] = np.nan
        parts.append(pd.DataFrame({"unique_id": f"s{i}", "ds": ds} | {f"c{k}": values[:, k] for k in range(channels)}))
    return to_panel(pd.concat(parts), target_cols=[f"c{k}" for k in range(channels)], freq=freq)


def make_windows(panel, series, cutoffs, counts=None, context=8, horizon=4, **kwargs):
    statistics = w.series_statistics(panel)
    kwargs = {"context_length": context, "horizon": horizon, "statistics": statistics} | kwargs
    return w.Windows(panel, np.asarray(series), np.asarray(cutoffs), counts, **kwargs)


def slow_window(panel, series, cutoff, begin, end):
    """The steps of one window, one by one."""
    rows = panel.values[panel.indptr[series] : panel.indptr[series + 1]]
    steps = [cutoff + k for k in range(begin, end)]
    blank = np.full(panel.n_channels, np.nan)
    return np.array([rows[s] if 0 <= s < len(rows) else blank for s in steps]).reshape(end - begin, panel.n_channels)


def test_a_batch_equals_its_windows_cut_one_by_one():
    panel = make_panel()
    series, cutoffs = np.array([0, 0, 1, 1, 2, 2, 0]), np.array([8, 46, 1, 7, 0, 20, 50])
    batch = make_windows(panel, series, cutoffs).batch(np.arange(7))
    assert batch.context.shape == (7, 8, 2) and batch.target.shape == (7, 4, 2)
    assert batch.context.dtype == torch.float64 and batch.context_mask.dtype == torch.bool
    assert batch.calendar is None
    for i in range(7):
        for name, begin, end in (("context", -8, 0), ("target", 0, 4)):
            expected = slow_window(panel, series[i], cutoffs[i], begin, end)
            assert np.array_equal(getattr(batch, name)[i].numpy(), np.nan_to_num(expected))
            assert np.array_equal(getattr(batch, f"{name}_mask")[i].numpy(), ~np.isnan(expected))


def test_a_batch_knows_whether_it_has_gaps():
    panel = make_panel(missing=0)
    windows = make_windows(panel, [0, 0, 0], [8, 7, panel.lengths[0] - 3])
    known = [(b.is_context_complete, b.is_target_complete) for b in (windows.batch(np.array([i])) for i in range(3))]
    assert known == [(True, True), (False, True), (True, False)]
    assert windows.batch(np.arange(3)).to("meta")[-2:] == (False, False)
    assert windows.batch(np.array([0])).to("meta")[-2:] == (True, True)


def test_steps_outside_a_series_are_masked_never_taken_from_its_neighbour():
    panel = make_panel(missing=0)
    batch = make_windows(panel, [1, 1], [2, 7]).batch(np.array([0, 1]))
    assert batch.context_mask[0, :, 0].tolist() == [False] * 6 + [True] * 2
    assert (batch.context[0, :6] == 0).all()
    assert not batch.target_mask[1].any() and (batch.target[1] == 0).all()


def test_prediction_windows_have_no_target():
    panel = make_panel()
    batch = make_windows(panel, [0, 1, 2], panel.lengths, horizon=0).batch(np.arange(3))
    assert batch.target.shape == (3, 0, 2)


def test_the_panel_is_shared_and_left_as_it_is():
    panel = make_panel()
    before = panel.values.copy()
    windows = make_windows(panel, [0], [20])
    batch = windows.batch(np.array([0]))
    batch.context.zero_()
    assert np.array_equal(panel.values, before, equal_nan=True)
    panel.values[19] = 12345.0
    assert (windows.batch(np.array([0])).context[0, -1] == 12345.0).all()


def test_runs_of_cutoffs_equal_single_cutoffs():
    panel = make_panel(lengths=(50, 7, 20, 1, 2))
    runs = w.training_runs(panel.lengths, 8, 4)
    compact = make_windows(panel, *runs)
    series, cutoffs = w.training_cutoffs(panel.lengths, 8, 4)
    single = make_windows(panel, series, cutoffs)
    assert len(compact) == len(single) == len(series)
    index = np.random.default_rng(1).permutation(len(single))
    assert np.array_equal(compact.locate(index)[0], series[index]) and np.array_equal(
        compact.locate(index)[1], cutoffs[index]
    )
    for one, other in zip(compact.batch(index)[:6], single.batch(index)[:6], strict=True):
        assert torch.equal(one, other)


def test_millions_of_windows_cost_nothing_until_cut():
    values = to_panel(np.zeros(2_000_100))
    windows = make_windows(values, *w.training_runs(values.lengths, 90, 10), context=90, horizon=10)
    assert len(windows) == 2_000_001 and windows.series.size == 1
    assert windows.batch(np.array([0, 2_000_000])).context.shape == (2, 90, 1)


@pytest.mark.parametrize(
    ("n", "context", "horizon", "expected"),
    [
        (12, 8, 4, [8]),  # exactly one full window
        (15, 8, 4, [8, 9, 10, 11]),
        (11, 8, 4, [3, 4, 5, 6, 7]),  # too short: less context, the horizon whole
        (6, 24, 6, [1, 2, 3, 4, 5]),  # shorter than the horizon: cut
        (10, 24, 3, [3, 4, 5, 6, 7]),
        (2, 8, 4, [1]),
        (1, 8, 4, []),
        (0, 8, 4, []),
    ],
)
def test_training_cutoffs_of_long_and_short_series(n, context, horizon, expected):
    series, cutoffs = w.training_cutoffs(np.array([n]), context, horizon)
    assert cutoffs.tolist() == expected and series.tolist() == [0] * len(expected)


def test_no_window_is_an_error():
    panel = make_panel(lengths=(1, 1))
    with pytest.raises(ValueError, match="the longest series has 1 rows"):
        make_windows(panel, *w.training_runs(panel.lengths, 8, 4))
    with pytest.raises(ValueError, match="outside its series"):
        make_windows(panel, [0], [2])
    with pytest.raises(ValueError, match=r"0 \.\.\. 1"):
        make_windows(panel, [2], [0])


def test_validation_cutoffs_lie_behind_the_training_rows():
    lengths, split = np.array([100, 30, 5, 2]), np.array([80, 27, 4, 2])
    series, cutoffs = w.validation_cutoffs(lengths, split, horizon=6, limit=1000)
    assert cutoffs[series == 0].tolist() == list(range(80, 95))
    assert cutoffs[series == 1].tolist() == [27] and cutoffs[series == 2].tolist() == [4]
    assert not (series == 3).any()
    few_series, few = w.validation_cutoffs(lengths, split, horizon=6, limit=5)
    assert len(few) == 5 and few[0] == 80 and few_series[-1] == 2
    again = w.validation_cutoffs(lengths, split, horizon=6, limit=5)
    assert np.array_equal(again[1], few)


def test_test_cutoffs_are_every_window():
    series, cutoffs = w.test_cutoffs(np.array([10, 4, 3]), np.array([6, 2, 2]), horizon=2)
    assert series.tolist() == [0, 0, 0, 1] and cutoffs.tolist() == [6, 7, 8, 2]


def test_statistics_are_those_of_numpy_over_observed_training_rows():
    panel = make_panel(lengths=(50, 7, 20))
    end = np.array([40, 5, 20])
    mean, deviation = w.series_statistics(panel, end)
    for i in range(3):
        rows = panel.values[panel.indptr[i] : panel.indptr[i] + end[i]]
        assert np.allclose(mean[i], np.nanmean(rows, axis=0)) and np.allclose(deviation[i], np.nanstd(rows, axis=0))
    panel.values[panel.indptr[0] + 40 : panel.indptr[1]] = 1e9
    assert np.array_equal(w.series_statistics(panel, end).mean, mean)


def test_statistics_do_not_depend_on_how_many_series_are_taken_at_a_time(monkeypatch):
    panel = make_panel(lengths=(50, 7, 20, 1, 33))
    at_once = w.series_statistics(panel)
    for rows in (1, 8, 55, 57):
        monkeypatch.setattr(w, "STATISTICS_ROWS", rows)
        assert all(np.array_equal(a, b) for a, b in zip(w.series_statistics(panel), at_once, strict=True))


@pytest.mark.parametrize("level", [0.0, 7.0, 1e6 / 3, -3.5, 1e12 / 7])
def test_a_constant_has_its_own_mean_and_no_deviation(level):
    mean, deviation = w.series_statistics(to_panel(np.full(1001, level)))
    assert mean[0, 0] == level and deviation[0, 0] == 0


def test_large_levels_keep_their_digits():
    unit = 100 + np.sin(np.arange(1000.0))
    small, large = w.series_statistics(to_panel(unit)), w.series_statistics(to_panel(unit + 1e12))
    assert np.allclose(large.deviation, small.deviation, rtol=1e-3)


def test_a_series_without_values_has_the_average_of_the_others():
    panel = make_panel(lengths=(10, 10, 10), channels=1, missing=0)
    panel.values[:10] = np.nan
    mean, deviation = w.series_statistics(panel)
    assert mean[0] == pytest.approx(mean[1:].mean()) and deviation[0] == pytest.approx(deviation[1:].mean())
    panel.values[:] = np.nan
    assert not any(w.series_statistics(panel)[k].any() for k in (0, 1))


def test_the_calendar_goes_on_before_and_after_the_series():
    panel = make_panel(lengths=(10,), freq="h", tz="Europe/Amsterdam")
    fields = ("hour", "dayofweek")
    batch = make_windows(panel, [0, 0], [3, 10], calendar_fields=fields).batch(np.array([0, 1]))
    assert batch.calendar.shape == (2, 12, 2) and batch.calendar.dtype == torch.int64
    hours = pd.date_range("2024-01-01 02:00", periods=12, freq="h")  # ten rows from midnight, less eight of context
    assert batch.calendar[1, :, 0].tolist() == hours.hour.tolist()
    assert batch.calendar[0, :, 0].tolist() == list(range(19, 24)) + list(range(7))
    expected = calendar(panel.stamps(0, np.arange(-5, 7)), fields, "Europe/Amsterdam")
    assert np.array_equal(batch.calendar[0].numpy(), expected)


def test_a_window_is_the_same_alone_and_in_a_batch():
    panel = make_panel()
    windows = make_windows(panel, *w.training_runs(panel.lengths, 8, 4))
    together = windows.batch(np.arange(len(windows)))
    for i in (0, 5, len(windows) - 1):
        alone = windows.batch(np.array([i]))
        assert all(torch.equal(one[0], other[i]) for one, other in zip(alone[:6], together[:6], strict=True))
