"""Known covariates of the steps to come: matched by name and key; what is missing is said."""

import numpy as np
import pandas as pd
import pytest

from tsformer.data.future import future_frame, with_future
from tsformer.data.panel import to_panel
from tsformer.data.windows import Windows, series_statistics


def days(n, start="2024-01-01", **kwargs):
    return pd.date_range(start, periods=n, **kwargs)


def history(n=100, ids=("s1", "s2"), **columns):
    parts = [
        pd.DataFrame({"unique_id": u, "ds": days(n), "y": np.arange(n) + 1.0, "temp": 10.0 * i + np.arange(n) / n})
        for i, u in enumerate(ids)
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def filled(panel, horizon=10):
    """Return a future frame in which every value of ``temp`` is another."""
    frame = future_frame(panel, horizon)
    return frame.assign(temp=np.arange(len(frame)) + 0.5)


@pytest.fixture
def panel():
    return to_panel(history(), known="temp", observed=None)


# --------------------------------------------------------------------------------------- the right rows


def test_the_frame_to_fill_has_the_keys_to_come(panel):
    frame = future_frame(panel, 3)
    assert frame.columns.tolist() == ["unique_id", "ds", "temp"]
    assert frame.unique_id.tolist() == ["s1"] * 3 + ["s2"] * 3
    assert frame.ds.tolist() == list(days(3, "2024-04-10")) * 2
    assert frame.temp.isna().all() and frame.temp.dtype == np.float64
    sky = to_panel(history(sky="blue"), known="sky")
    assert future_frame(sky, 2).sky.tolist() == [None] * 4


def test_the_future_lies_behind_each_series(panel):
    longer = with_future(panel, filled(panel), 10)
    assert longer.lengths.tolist() == [110, 110] and panel.lengths.tolist() == [100, 100]
    for i in (0, 1):
        rows = slice(longer.indptr[i], longer.indptr[i + 1])
        assert np.array_equal(longer.known[rows][:100], panel.known[i * 100 : (i + 1) * 100])
        assert longer.known[rows][100:, 0].tolist() == [10 * i + k + 0.5 for k in range(10)]
        assert np.array_equal(longer.values[rows][:100], panel.values[i * 100 : (i + 1) * 100])
        assert np.isnan(longer.values[rows][100:]).all()


def test_observed_and_static_do_not_go_on():
    df = history(visits=1.0, size=np.repeat([3, 4], 100))
    panel = to_panel(df, known="temp", observed="visits", static="size")
    longer = with_future(panel, filled(panel, 2).assign(visits=7.0), 2)
    assert np.isnan(longer.observed[100:102]).all() and (longer.observed[:100] == 1).all()
    assert longer.static.tolist() == [[3], [4]]


def test_windows_read_the_future(panel):
    longer = with_future(panel, filled(panel), 10)
    windows = Windows(
        longer, np.arange(2), panel.lengths, context_length=5, horizon=10, statistics=series_statistics(panel)
    )
    batch = windows.batch(np.arange(2))
    assert batch.known[1, 5:, 0].tolist() == [10.5 + k for k in range(10)]
    assert not batch.target_mask.any() and batch.context_mask.all()


def test_order_and_surplus_do_not_matter(panel):
    future = filled(panel)
    expected = with_future(panel, future, 10).known
    more = future_frame(panel, 25).merge(future, on=["unique_id", "ds"], how="left", suffixes=("_", ""))
    more = more.assign(temp=more.temp.fillna(-1.0)).drop(columns="temp_")
    stranger = future.assign(unique_id="s9", temp=np.nan)
    for other in (
        future[["temp", "ds", "unique_id"]],
        future.sample(frac=1, random_state=0),
        future.assign(note="x", y=np.nan),
        more,
        pd.concat([history()[["unique_id", "ds", "temp"]], stranger, future]),
        future.astype({"unique_id": "category"}),
        future.astype({"unique_id": object}),
    ):
        before = other.copy(deep=True)
        assert np.array_equal(with_future(panel, other, 10).known, expected, equal_nan=True)
        pd.testing.assert_frame_equal(other, before)


def test_swapped_columns_are_matched_by_name():  # E1
    rng = np.random.default_rng(1)
    df = history(ids=("shop",), price=rng.integers(5, 10, 100) * 1.0, promo=rng.integers(0, 2, 100) * 1.0)
    panel = to_panel(df, known=["price", "promo"])
    future = future_frame(panel, 7).assign(price=np.arange(7) + 5.0, promo=0.0)
    one, other = (with_future(panel, f, 7) for f in (future, future[["promo", "ds", "price", "unique_id"]]))
    assert np.array_equal(one.known, other.known)
    assert one.known[100:].tolist() == [[5.0 + k, 0.0] for k in range(7)]


@pytest.mark.parametrize("given", ["datetime64[s]", "datetime64[us]", "datetime64[ns]", "text", "date"])
@pytest.mark.parametrize("unit", ["datetime64[s]", "datetime64[us]", "datetime64[ns]"])
def test_units_of_time_mix(unit, given):  # D3
    df = history().astype({"ds": unit})
    panel = to_panel(df, known="temp")
    future = filled(panel)
    expected = with_future(panel, future, 10).known
    if given == "text":
        future["ds"] = future.ds.dt.strftime("%Y-%m-%d")
    elif given == "date":
        future["ds"] = future.ds.dt.date
    else:
        future["ds"] = future.ds.astype(given)
    assert np.array_equal(with_future(panel, future, 10).known, expected)


def test_pyarrow_columns():  # D4
    pytest.importorskip("pyarrow")
    arrow = {"ds": "timestamp[us][pyarrow]", "unique_id": "string[pyarrow]", "y": "double[pyarrow]"}
    plain, backed = (to_panel(df, known="temp") for df in (history(), history().astype(arrow)))
    future = filled(plain)
    expected = with_future(plain, future, 10).known
    types = {"ds": arrow["ds"], "unique_id": arrow["unique_id"], "temp": "double[pyarrow]"}
    for panel in (plain, backed):
        for frame in (future, future.astype(types), filled(panel)):
            assert np.array_equal(with_future(panel, frame, 10).known, expected)


@pytest.mark.parametrize("begin", ["2023-10-27 00:00", "2024-03-29 00:00", "2024-06-01 00:00"])  # clock changes
def test_time_zones_mix(begin):
    ds = days(60, begin, freq="h", tz="Europe/Amsterdam")
    panel = to_panel(pd.DataFrame({"unique_id": "a", "ds": ds, "y": 1.0, "temp": 2.0}), known="temp")
    future = filled(panel, 24)
    expected = with_future(panel, future, 24).known
    assert expected[60:, 0].tolist() == [k + 0.5 for k in range(24)]
    for zone in ("UTC", "America/New_York"):
        moved = future.assign(ds=future.ds.dt.tz_convert(zone).astype(f"datetime64[ns, {zone}]"))
        assert np.array_equal(with_future(panel, moved, 24).known, expected)
    local = future.assign(ds=future.ds.dt.tz_localize(None))  # on the clock of the history's zone
    if begin == "2023-10-27 00:00":
        assert local.ds.is_unique  # the hour that comes twice lies in the history
    assert np.array_equal(with_future(panel, local, 24).known, expected)


def test_an_hour_that_comes_twice_needs_its_zone():
    ds = days(48, "2023-10-27 00:00", freq="h", tz="Europe/Amsterdam")
    panel = to_panel(pd.DataFrame({"unique_id": "a", "ds": ds, "y": 1.0, "temp": 2.0}), known="temp")
    future = filled(panel, 12)
    assert with_future(panel, future, 12).known[48:, 0].tolist() == [k + 0.5 for k in range(12)]
    with pytest.raises(ValueError, match="2023-10-29 02:00:00 is not one time in Europe/Amsterdam"):
        with_future(panel, future.assign(ds=future.ds.dt.tz_localize(None)), 12)


def test_days_with_a_zone_that_skips_midnight():
    zone = "America/Havana"  # 2024-03-10 begins at 01:00
    ds = days(9, "2024-03-01", tz=zone)
    panel = to_panel(pd.DataFrame({"unique_id": "a", "ds": ds, "y": 1.0, "temp": 2.0}), known="temp")
    future = filled(panel, 4)
    for frame in (
        future,
        future.assign(ds=future.ds.dt.tz_convert("UTC")),
        future.assign(ds=days(4, "2024-03-10")),
    ):
        assert with_future(panel, frame, 4).known[9:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]


def test_a_zone_where_the_history_has_none_is_refused(panel):
    future = filled(panel)
    with pytest.raises(ValueError, match="'ds' of future has the time zone UTC, and the history has none"):
        with_future(panel, future.assign(ds=future.ds.dt.tz_localize("UTC")), 10)


@pytest.mark.parametrize("freq", ["ME", "MS", "W-MON", "B", "15min", "QS-JAN", "YE-DEC"])
def test_every_frequency(freq):
    df = pd.DataFrame({"unique_id": "a", "ds": days(30, freq=freq), "y": 1.0, "temp": 2.0})
    panel = to_panel(df, known="temp", freq=freq)
    longer = with_future(panel, filled(panel, 5).sample(frac=1, random_state=0), 5)
    assert longer.known[30:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    future = filled(panel, 5)
    future["ds"] = future.ds + pd.Timedelta(minutes=1)
    with pytest.raises(ValueError, match="none of its rows is among them \\(the history ends one step before\\)"):
        with_future(panel, future, 5)


def test_integer_time():
    df = pd.DataFrame({"unique_id": "a", "ds": np.arange(100, 900, 10), "y": 1.0, "temp": 2.0})
    panel = to_panel(df, known="temp")
    assert future_frame(panel, 3).ds.tolist() == [900, 910, 920]
    assert with_future(panel, filled(panel, 3), 3).known[80:, 0].tolist() == [0.5, 1.5, 2.5]
    with pytest.raises(ValueError, match="holds dates, and the history whole numbers: the next stamp is 900"):
        with_future(panel, filled(panel, 3).assign(ds=days(3)), 3)


def test_series_that_end_on_different_days():
    df = history()
    panel = to_panel(df.drop(index=df.index[190:]), known="temp")
    future = future_frame(panel, 4)
    assert future.ds.tolist() == [*days(4, "2024-04-10"), *days(4, "2024-03-31")]
    longer = with_future(panel, future.assign(temp=np.arange(8.0)), 4)
    assert longer.known[100:104, 0].tolist() == [0, 1, 2, 3] and longer.known[-4:, 0].tolist() == [4, 5, 6, 7]


def test_wide_frames():
    wide = pd.DataFrame({"a": 1.0, "b": 2.0, "temp": 3.0}, index=days(20).rename("when"))
    panel = to_panel(wide, known="temp")
    future = future_frame(panel, 3)
    assert future.columns.tolist() == ["temp"] and future.index.name == "when"
    assert future.index.tolist() == list(days(3, "2024-01-21"))
    assert with_future(panel, future.assign(temp=[7.0, 8, 9])[::-1], 3).known[20:, 0].tolist() == [7, 8, 9]
    by_column = to_panel(wide.rename_axis("ds").reset_index(), known="temp")
    frame = future_frame(by_column, 3)
    assert frame.columns.tolist() == ["ds", "temp"]
    assert with_future(by_column, frame.assign(temp=1.0), 3).known[20:, 0].tolist() == [1, 1, 1]
    with pytest.raises(
        ValueError, match=r"steps needs\. needed 2024-01-21 to 2024-01-23, given until 2024-01-22: 1 day m"
    ):
        with_future(panel, future.assign(temp=1.0).iloc[:2], 3)
    with pytest.raises(ValueError, match="no time column 'ds' in future"):
        with_future(by_column, future.assign(temp=1.0), 3)


# ------------------------------------------------------------------------------------- levels and booleans


def kinds_frame():
    return history(holiday=np.tile(np.arange(100) % 7 == 6, 2), weather=np.resize(["sun", "rain"], 200)).assign(
        kind=pd.Categorical(np.resize(["x", "y", "x"], 200), categories=["x", "y"])
    )


def test_booleans_text_and_categories():  # E4
    panel = to_panel(kinds_frame(), known=["holiday", "weather", "kind"])
    future = future_frame(panel, 7).assign(holiday=True, weather="sun", kind="x")
    for frame in (future, future.assign(kind=pd.Categorical(["x"] * 14, categories=["z", "x"]))):
        assert (with_future(panel, frame, 7).known[100:107] == [1, 1, 0]).all()


def test_a_level_seen_only_in_the_future_is_named_and_missing():  # E4
    panel = to_panel(kinds_frame(), known=["holiday", "weather", "kind"])
    future = future_frame(panel, 7).assign(holiday=True, weather="snow", kind="x")
    with pytest.warns(UserWarning, match="column 'weather': 'snow'") as caught:
        longer = with_future(panel, future, 7)
    assert len(caught) == 1 and np.isnan(longer.known[100:107, 1]).all() and (longer.known[100:107, 2] == 0).all()


def test_unseen_levels_beyond_the_horizon_say_nothing():
    panel = to_panel(kinds_frame(), known="weather")
    future = future_frame(panel, 9).assign(weather="sun")
    future.loc[future.groupby("unique_id").cumcount() >= 7, "weather"] = "snow"
    assert not np.isnan(with_future(panel, future, 7).known).any()


# ------------------------------------------------------------------------------------- what is missing


def test_short_series_and_absent_ids_are_listed():  # E2
    panel = to_panel(history(), known="temp")
    future = filled(panel)
    short = future[future.unique_id == "s1"].head(7)
    with pytest.raises(ValueError) as error:
        with_future(panel, short, 10)
    text = str(error.value)
    assert "id 's1': needed 2024-04-10 to 2024-04-19, given until 2024-04-16: 3 days missing" in text
    assert "id 's2': needed 2024-04-10 to 2024-04-19, no rows" in text


def test_gaps_are_named(panel):
    future = filled(panel).drop(index=[12, 14])
    with pytest.raises(ValueError, match="id 's2'.*given with gaps, the first at 2024-04-12: 2 days missing") as error:
        with_future(panel, future, 10)
    assert "'s1'" not in str(error.value)


def test_rows_of_another_time_are_none(panel):
    with pytest.raises(ValueError, match="id 's1': needed 2024-04-10 to 2024-04-19, none of its rows is among them"):
        with_future(panel, history(), 10)
    for empty in (filled(panel).head(0), pd.DataFrame({"unique_id": [], "ds": [], "temp": []})):
        with pytest.raises(ValueError, match="no rows"):
            with_future(panel, empty, 10)


def test_only_a_few_ids_are_shown():
    panel = to_panel(history(20, ids=[f"n{i}" for i in range(9)]), known="temp")
    future = filled(panel, 5)
    with pytest.raises(ValueError, match="6 more ids have rows missing") as error:
        with_future(panel, future.groupby("unique_id").head(4), 5)
    assert "'n2'" in str(error.value) and "'n3'" not in str(error.value)
    with pytest.raises(ValueError, match="5 more ids have no rows"):
        with_future(panel, future[future.unique_id == "n0"], 5)


def test_a_missing_value_is_named(panel):  # E3
    future = filled(panel)
    future.loc[(future.unique_id == "s1") & (future.ds == "2024-04-14"), "temp"] = np.nan
    with pytest.raises(ValueError, match="1 missing values, the first: column 'temp', id 's1', 2024-04-14"):
        with_future(panel, future, 10)
    sky = to_panel(history(sky=np.resize(["sun", "rain"], 200)), known="sky")
    with pytest.raises(ValueError, match="20 missing values, the first: column 'sky', id 's1', 2024-04-10"):
        with_future(sky, future_frame(sky, 10), 10)


def test_an_infinite_value_is_named(panel):
    future = filled(panel)
    future.loc[15, "temp"] = np.inf
    with pytest.raises(ValueError, match="infinite, the first: column 'temp', id 's2', 2024-04-15"):
        with_future(panel, future, 10)


def test_missing_columns_are_named_with_all_else(panel):
    two = to_panel(history(price=1.0), known=["temp", "price"])
    future = filled(two).drop(columns="price").rename(columns={"temp": "tmep"}).head(12)
    with pytest.raises(ValueError, match="8 days missing.*no column 'temp'.*'tmep'.*no column 'price'"):
        with_future(two, future, 10)
    with pytest.raises(ValueError, match="no id column 'unique_id' in future"):
        with_future(panel, filled(panel).drop(columns="unique_id"), 10)
    with pytest.raises(ValueError, match="no time column 'ds' in future"):
        with_future(panel, filled(panel).drop(columns="ds"), 10)


def test_duplicate_keys_are_an_error(panel):
    future = filled(panel)
    with pytest.raises(ValueError, match="1 surplus rows that are duplicates, the first: 2024-04-12 of id 's1'"):
        with_future(panel, pd.concat([future, future.iloc[[2]].assign(temp=9.0)]), 10)


def test_a_future_without_known_covariates_is_an_error():
    panel = to_panel(history(), observed="temp")
    with pytest.raises(ValueError, match="there are no known covariates"):
        with_future(panel, filled(to_panel(history(), known="temp")), 10)


def test_a_future_must_be_a_frame(panel):
    for other in ([1.0, 2.0], pd.Series([1.0]), "future.csv"):
        with pytest.raises(TypeError, match="future must be a DataFrame"):
            with_future(panel, other, 10)


def test_a_hundred_thousand_series_at_once():
    n, ids = 4, np.arange(100_000)
    df = pd.DataFrame({"unique_id": np.repeat(ids, n), "ds": np.tile(days(n), len(ids)), "y": 1.0})
    df["temp"] = np.arange(len(df)) * 1.0
    panel = to_panel(df, known="temp")
    future = filled(panel, 3)
    longer = with_future(panel, future.sample(frac=1, random_state=0), 3)
    assert np.array_equal(longer.known.reshape(len(ids), 7)[:, 4:].ravel(), future.temp)
