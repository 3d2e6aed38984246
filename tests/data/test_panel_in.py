"""What goes in: layouts, dtypes, the regular axis. Each test is named after what it protects against."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tsformer.data import columns
from tsformer.data.panel import Schema, check_trainable, to_panel


def days(n, start="2024-01-01"):
    return pd.date_range(start, periods=n)


def wave(n, level=100.0, seed=0):
    return level + 10 * np.sin(2 * np.pi * np.arange(n) / 7) + np.random.default_rng(seed).normal(0, 0.5, n)


def long_frame(n=60, ids=("s1", "s2", "s3"), start="2024-01-01"):
    parts = [pd.DataFrame({"unique_id": u, "ds": days(n, start), "y": wave(n, seed=i)}) for i, u in enumerate(ids)]
    return pd.concat(parts, ignore_index=True)


def same(a, b):
    assert np.array_equal(a.values, b.values, equal_nan=True)
    assert np.array_equal(a.indptr, b.indptr)
    assert np.array_equal(a.start, b.start)
    assert list(a.ids) == list(b.ids)


# ------------------------------------------------------------------------------------------- layouts


def test_long_frame():
    df = long_frame(n=4, ids=("b", "a"))
    panel = to_panel(df)
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.indptr.tolist() == [0, 4, 8] and panel.lengths.tolist() == [4, 4]
    assert panel.values.shape == (8, 1) and panel.values.dtype == np.float64
    assert np.array_equal(panel.values[:4, 0], df.y[4:])
    assert (panel.start == np.datetime64("2024-01-01")).all()
    assert panel.schema.layout == "long" and panel.schema.freq == "D" and panel.schema.targets == ("y",)


def test_wide_frame_by_index_by_column_and_by_integers():
    by_index = pd.DataFrame({"a": [1.0, 2, 3], "b": [4, 5, 6], "text": "x"}, index=days(3))
    by_column = by_index.rename_axis("ds").reset_index()
    by_text = by_column.assign(ds=by_column.ds.dt.strftime("%Y-%m-%d"))
    by_number = by_index.reset_index(drop=True)
    for frame in (by_index, by_column, by_text, by_number):
        panel = to_panel(frame)
        assert panel.values.tolist() == [[1, 4], [2, 5], [3, 6]]
        assert panel.schema.targets == ("a", "b") and panel.schema.layout == "wide"
        assert panel.schema.freq == (1 if frame is by_number else "D")
    assert to_panel(by_index, target_cols=["b"]).values.tolist() == [[4], [5], [6]]


def test_series_and_arrays():
    assert to_panel(pd.Series([1.0, 2], index=days(2), name="load")).schema.targets == ("load",)
    assert to_panel(pd.Series([1.0, 2])).schema.targets == ("y",)
    assert to_panel(np.arange(3)).values.tolist() == [[0], [1], [2]]
    assert to_panel([1, 2, 3]).schema.layout == "array"
    assert to_panel(np.ones((5, 2))).schema.targets == ("y0", "y1")


@pytest.mark.parametrize("X", ["file.csv", None, 3, {"y": [1]}])
def test_other_types_are_refused(X):
    with pytest.raises(TypeError, match="DataFrame"):
        to_panel(X)


def test_target_of_a_long_frame_is_y_or_the_only_number():
    df = long_frame(n=5)
    assert to_panel(df.assign(price=1.0)).schema.targets == ("y",)
    assert to_panel(df.rename(columns={"y": "load"}).assign(note="x")).schema.targets == ("load",)
    with pytest.raises(ValueError, match=r"\['load', 'price'\].*target_cols"):
        to_panel(df.rename(columns={"y": "load"}).assign(price=1.0))
    with pytest.raises(ValueError, match="no other column is numeric"):
        to_panel(df.assign(y="text").rename(columns={"y": "z"}))


def test_missing_columns_are_named_with_the_nearest():
    df = long_frame(n=5)
    with pytest.raises(ValueError, match="no target column 'yy'.*did you mean 'y'"):
        to_panel(df, target_cols=["yy"])
    with pytest.raises(ValueError, match="no time column 'ds'.*'date'"):
        to_panel(df.rename(columns={"ds": "date"}))


def test_dates_in_a_column_that_is_not_the_time_column_are_noticed():
    frame = pd.DataFrame({"date": days(4), "load": 1.0})
    for column in (frame.date, frame.date.dt.strftime("%Y-%m-%d")):
        with pytest.raises(ValueError, match="time_col='date'"):
            to_panel(frame.assign(date=column))


def test_frames_without_time_and_with_levels_are_refused():
    with pytest.raises(ValueError, match="no column 'ds' and the index is of type float64"):
        to_panel(pd.DataFrame({"a": [1.0, 2]}, index=[0.5, 1.5]))
    with pytest.raises(ValueError, match="reset_index"):
        to_panel(long_frame(n=4).set_index(["unique_id", "ds"]))
    with pytest.raises(ValueError, match="2 times"):
        to_panel(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"], index=days(3)))
    with pytest.raises(ValueError, match="no numeric column to forecast; the columns are 'a'. Booleans are one where"):
        to_panel(pd.DataFrame({"a": ["x", "y"]}, index=days(2)))
    with pytest.raises(ValueError, match="no numeric column to forecast; it has no column"):
        to_panel(pd.DataFrame())


def test_empty_input_is_refused():
    for empty in (long_frame().head(0), pd.Series([], dtype=float), np.empty((0, 2)), pd.DataFrame({"y": []})):
        with pytest.raises(ValueError, match="no rows"):
            to_panel(empty)
    with pytest.raises(ValueError, match="shape"):
        to_panel(np.ones((2, 2, 2)))


def test_callers_frame_is_not_changed():
    df = long_frame(n=20).assign(note="n").sample(frac=1, random_state=3)
    df.index = df.index * 2 + 5
    df.attrs["origin"] = "synthetic"
    targets = ["y"]
    before = df.copy(deep=True)
    to_panel(df[["y", "note", "ds", "unique_id"]], target_cols=targets)
    panel = to_panel(df, target_cols=targets)
    panel.values[:] = 0
    pd.testing.assert_frame_equal(df, before)
    assert df.attrs == before.attrs and targets == ["y"]


def test_the_panel_does_not_share_memory_with_the_caller():
    array = np.arange(5.0)
    panel = to_panel(array)
    array[:] = -1
    assert panel.values[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert panel.values.flags.writeable


# ------------------------------------------------------------------------------------------- time


def test_duplicate_stamps_are_counted_with_an_example():
    df = long_frame(n=60, ids=("s1", "s2"))
    extra = df.iloc[[10, 11]].assign(y=lambda d: d.y + 40)
    with pytest.raises(ValueError, match=r"3 surplus rows are duplicates.*2024-01-11 of id 's1'"):
        to_panel(pd.concat([df, extra, df.iloc[[70]]], ignore_index=True))


def test_shuffled_rows_give_the_same_panel():
    df = long_frame(n=100)
    same(to_panel(df.sample(frac=1.0, random_state=11)), to_panel(df))
    same(to_panel(df.sort_values("ds", kind="stable")), to_panel(df))


@pytest.mark.parametrize("dtype", [object, "str", "string[pyarrow]", "string[python]", "category"])
@pytest.mark.parametrize("few_rows", [0, 1000])
def test_ids_of_any_type_in_any_order_give_the_same_panel(dtype, few_rows, monkeypatch):
    monkeypatch.setattr(columns, "FEW_ROWS", few_rows)
    df = pd.concat([long_frame(n=20, ids=(name,)) for name in ("s10", "s9", "s1")], ignore_index=True)
    typed = df.assign(unique_id=df.unique_id.astype(dtype))
    expected = [df[df.unique_id == name].y.tolist() for name in ("s1", "s10", "s9")]
    halves = pd.concat([typed[typed.ds < "2024-01-11"], typed[typed.ds >= "2024-01-11"]])
    late_first = pd.concat([typed[typed.ds >= "2024-01-11"], typed[typed.ds < "2024-01-11"]])
    for rows in (typed, halves, late_first, typed.sort_values("unique_id", kind="stable"), typed.iloc[::-1]):
        panel = to_panel(rows)
        assert panel.ids.tolist() == ["s1", "s10", "s9"]
        assert panel.values.reshape(3, 20).tolist() == expected
    with pytest.raises(ValueError, match="3 missing ids"):
        to_panel(typed.assign(unique_id=typed.unique_id.where(~typed.index.isin([0, 1, 25]))))


@pytest.mark.parametrize("start", ["2023-10-19 22:00", "2023-10-24 22:00", "2024-03-28 00:00"])
def test_hours_across_a_clock_change_are_regular_in_absolute_time(start):
    utc = pd.date_range(start, periods=24 * 9, freq="h", tz="UTC")
    frame = pd.DataFrame({"unique_id": "load", "ds": utc.tz_convert("Europe/Amsterdam"), "y": wave(len(utc))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = to_panel(frame)
    assert panel.schema.freq == "h" and len(panel.values) == len(utc)
    assert panel.start[0] == utc[0].tz_localize(None).to_datetime64()
    assert panel.stamps(0, len(utc)) == (utc[-1] + pd.Timedelta(hours=1)).tz_localize(None).to_datetime64()
    assert panel.schema.zone == "Europe/Amsterdam"


def test_days_across_a_clock_change_are_regular_in_wall_time():
    ds = pd.date_range("2023-10-20", periods=20, tz="Europe/Amsterdam")
    panel = to_panel(pd.DataFrame({"y": wave(20)}, index=ds))
    assert panel.schema.freq == "D" and panel.start[0] == np.datetime64("2023-10-20") and panel.schema.zone is None


def test_old_and_new_aliases_give_the_same_panel():
    for freq, old, start in [("ME", "M", "2018-01-31"), ("h", "H", "2024-03-01"), ("15min", "15T", "2024-03-01")]:
        frame = pd.DataFrame({"y": wave(73)}, index=pd.date_range(start, periods=73, freq=freq))
        same(to_panel(frame, freq=freq), to_panel(frame, freq=old))
        assert to_panel(frame, freq=old).schema.freq == to_panel(frame).schema.freq == freq


def test_month_ends_stay_month_ends():
    panel = to_panel(pd.Series(wave(73), index=pd.date_range("2018-01-31", periods=73, freq="ME")))
    expected = np.array(["2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"], dtype="M8[D]")
    assert np.array_equal(panel.stamps(0, np.arange(73, 77)).astype("M8[D]"), expected)


def test_business_days_are_proposed_and_holidays_are_gaps():
    ds = pd.bdate_range("2023-01-02", "2024-03-28")
    ds = ds[~ds.isin(pd.to_datetime(["2023-04-07", "2023-05-29", "2023-12-25", "2023-12-26", "2024-01-01"]))]
    frame = pd.DataFrame({"unique_id": "stock", "ds": ds, "y": wave(len(ds))})
    with pytest.raises(ValueError, match='freq="B"'):
        to_panel(frame)
    with pytest.warns(UserWarning, match="5 stamps are missing.*2023-04-07 of id 'stock'"):
        panel = to_panel(frame, freq="B")
    assert np.isnan(panel.values).sum() == 5
    expected = np.array(["2024-03-29", "2024-04-01", "2024-04-02", "2024-04-03", "2024-04-04"], dtype="M8[D]")
    assert np.array_equal(panel.stamps(0, panel.lengths[0] + np.arange(5)).astype("M8[D]"), expected)


def test_missing_rows_are_told_and_become_missing_values():
    whole = long_frame(n=200, ids=("s1", "s2"))
    with pytest.warns(UserWarning, match="5 stamps are missing.*2024-03-31 of id 's1'"):
        panel = to_panel(whole.drop(index=range(90, 95)))
    expected = to_panel(whole)
    expected.values[90:95] = np.nan
    same(panel, expected)


def test_gaps_in_several_series_give_one_warning():
    df = long_frame(n=30).drop(index=[5, 40, 41, 70])
    with pytest.warns(UserWarning) as caught:
        panel = to_panel(df)
    assert len(caught) == 1 and "4 stamps" in str(caught[0].message)
    assert panel.lengths.tolist() == [30, 30, 30]


def test_integer_time_of_step_ten():
    frame = pd.DataFrame({"unique_id": "s", "ds": np.arange(100, 900, 10), "y": wave(80)})
    for freq in (None, 10):
        panel = to_panel(frame, freq=freq)
        assert panel.schema.freq == 10 and len(panel.values) == 80
        assert panel.stamps(0, [80, 81, 84]).tolist() == [900, 910, 940]
    with pytest.raises(ValueError, match="freq='D' needs dates, but 'ds' holds whole numbers"):
        to_panel(frame, freq="D")
    with pytest.raises(ValueError, match="freq=10 is a step of integer time, but 'ds' holds dates"):
        to_panel(long_frame(), freq=10)
    with pytest.raises(ValueError, match="is irregular: 203 of id 's'"):
        to_panel(frame.assign(ds=frame.ds.where(frame.ds != 200, 203)), freq=10)


@pytest.mark.parametrize(
    ("ds", "freq", "match"),
    [
        (
            ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04 05:00", "2024-01-05"],
            None,
            "2024-01-04 05.*by 2024-01-04",
        ),
        (
            ["2024-01-01", "2024-01-08", "2024-01-15"],
            "W",
            "2024-01-01 is not on the axis of freq='W-SUN'.*freq='W-MON'",
        ),
        (["2024-01-01", "2024-02-01", "2024-03-01"], "M", "2024-01-01 is not on the axis of freq='ME'.*freq='MS'"),
        (["2024-01-05", "2024-01-06", "2024-01-08"], "B", "2024-01-06 is not on the axis of freq='B'"),
        (["2024-01-31", "2024-02-29", "2024-03-31 12:00"], "ME", "2024-03-31 12:00:00 is not on the axis"),
        (["2024-01-01", "2024-01-02", "2024-01-03 12:00"], "B", "2024-01-03 12:00:00 is not on the axis"),
    ],
)
def test_irregular_stamps_are_named_with_what_was_expected(ds, freq, match):
    frame = pd.DataFrame({"y": 1.0}, index=pd.to_datetime(ds, format="ISO8601"))
    with pytest.raises(ValueError, match="(?s)irregular: " + match):
        to_panel(frame, freq=freq)


def test_one_row_needs_a_frequency():
    frame = long_frame(n=1)
    with pytest.raises(ValueError, match="one row: set freq"):
        to_panel(frame)
    assert to_panel(frame, freq="D").lengths.tolist() == [1, 1, 1]
    assert to_panel(frame, schema=to_panel(long_frame()).schema).schema.freq == "D"


def test_a_wrong_year_does_not_fill_the_memory():
    ds = pd.date_range("2024-01-01", periods=500, freq="h").to_series(index=range(500))
    ds.iloc[-1] = pd.Timestamp("2224-01-21 19:00")
    frame = pd.DataFrame({"unique_id": "s7", "ds": ds, "y": 1.0})
    with pytest.raises(ValueError, match=r"missing between 2024-01-21 18:00:00 of id 's7' and 2224-01-21 19:00:00"):
        to_panel(frame)


def test_missing_stamps_and_ids_are_counted():
    df = long_frame(n=5)
    with pytest.raises(ValueError, match="'ds' has 2 missing values"):
        to_panel(df.assign(ds=df.ds.where(~df.index.isin([3, 4]))))
    for ids in (df.unique_id, df.unique_id.astype("category")):
        with pytest.raises(ValueError, match="'unique_id' has 1 missing ids"):
            to_panel(df.assign(unique_id=ids.where(df.index != 3)))


def test_time_units_and_text_give_the_same_panel():
    df = long_frame(n=30)
    expected = to_panel(df)
    for unit in ("s", "ms", "us", "ns"):
        panel = to_panel(df.astype({"ds": f"datetime64[{unit}]"}))
        same(panel, expected)
        assert panel.schema.time_dtype == f"datetime64[{unit}]"
    same(to_panel(df.assign(ds=df.ds.dt.strftime("%Y-%m-%d"))), expected)
    same(to_panel(df.assign(ds=df.ds.dt.date)), expected)
    with pytest.raises(ValueError, match="'ds' holds 'soon'"):
        to_panel(df.assign(ds="soon"))
    with pytest.raises(ValueError, match="periods.*to_timestamp"):
        to_panel(pd.Series(1.0, index=pd.period_range("2024-01", periods=3, freq="M")))
    with pytest.raises(ValueError, match="float64"):
        to_panel(df.assign(ds=0.5))


# ------------------------------------------------------------------------------------------- ids and lengths


def test_series_end_and_start_on_their_own_days():
    parts = {"long": ("2023-11-01", 122), "stopped": ("2023-11-01", 102), "late": ("2024-01-05", 57)}
    frames = [pd.DataFrame({"unique_id": u, "ds": days(n, s), "y": wave(n)}) for u, (s, n) in parts.items()]
    panel = to_panel(pd.concat(frames))
    assert panel.ids.tolist() == ["late", "long", "stopped"] and panel.lengths.tolist() == [57, 122, 102]
    after = panel.stamps(np.arange(3), panel.lengths).astype("M8[D]").astype(str)
    assert after.tolist() == ["2024-03-02", "2024-03-02", "2024-02-11"]


def test_leading_and_trailing_missing_values_stay():
    panel = to_panel(pd.Series([np.nan, 1, np.nan, 2, np.nan], index=days(5)))
    assert np.isnan(panel.values[:, 0]).tolist() == [True, False, True, False, True]


def test_categorical_ids_with_unused_levels():
    df = long_frame(n=10, ids=("z", "a", "b"))
    ids = pd.Categorical(df.unique_id, categories=["z", "a", "b", "never"])
    subset = df.assign(unique_id=ids)[df.unique_id != "a"]
    panel = to_panel(subset)
    assert panel.ids.tolist() == ["b", "z"]
    assert np.array_equal(panel.values[:10, 0], df.y[df.unique_id == "b"])


def test_ids_may_be_text_objects_numbers_or_mixed():
    df = long_frame(n=10, ids=("1", "2"))
    expected = to_panel(df)
    for ids in (df.unique_id.astype(object), df.unique_id.astype("string")):
        same(to_panel(df.assign(unique_id=ids)), expected)
    assert to_panel(df.assign(unique_id=df.unique_id.astype(int))).ids.tolist() == [1, 2]
    mixed = df.assign(unique_id=[1] * 10 + ["a"] * 10)
    assert to_panel(mixed).ids.tolist() == [1, "a"]


def test_unseen_ids_are_welcome_at_predict():
    schema = to_panel(long_frame()).schema
    assert to_panel(long_frame(ids=("s1", "brand_new")), schema=schema).ids.tolist() == ["brand_new", "s1"]


# ------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "dtype", ["Int64", "Float64", "int8", "float32", "object", "int64[pyarrow]", "double[pyarrow]"]
)
def test_number_dtypes_give_the_same_panel(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    df = long_frame()
    df["y"] = df.y.round()
    same(to_panel(df.astype({"y": "float64" if dtype == "object" else dtype}).astype({"y": dtype})), to_panel(df))


def test_missing_values_of_every_kind_are_nan():
    df = long_frame()
    df["y"] = df.y.round()
    expected = to_panel(df.assign(y=df.y.where(~df.index.isin([3, 70]))))
    for dtype, missing in [("Int64", pd.NA), ("object", None), ("object", pd.NA), ("object", np.nan)]:
        y = df.y.astype("int64").astype(dtype)
        y[[3, 70]] = missing
        same(to_panel(df.assign(y=y)), expected)


def test_pyarrow_columns_give_the_same_panel():
    pa = pytest.importorskip("pyarrow")
    df = long_frame()
    kinds = {"unique_id": pa.string(), "ds": pa.timestamp("us"), "y": pa.float64()}
    same(to_panel(df.astype({name: pd.ArrowDtype(kind) for name, kind in kinds.items()})), to_panel(df))


def test_bool_targets_count_as_zero_and_one_when_declared():
    frame = pd.DataFrame({"y": [1.0, 2, 3], "open": [True, False, True]}, index=days(3))
    assert to_panel(frame).schema.targets == ("y",)
    assert to_panel(frame, target_cols="open").values[:, 0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("bad", [["a", "b", "c"], [1j, 2j, 3j], list(days(3)), ["1", "2", "3"]])
def test_targets_that_are_no_numbers_are_named(bad):
    frame = pd.DataFrame({"load": bad}, index=days(3))
    with pytest.raises(ValueError, match="target 'load' must hold numbers"):
        to_panel(frame, target_cols=["load"])


def test_infinite_values_are_named_by_column_id_and_date():
    df = long_frame(n=60)
    df.loc[[65, 100], "y"] = [np.inf, -np.inf]
    with pytest.raises(ValueError, match="2 values are infinite, the first: column 'y', id 's2', 2024-01-06"):
        to_panel(df)
    df.loc[[65, 100], "y"] = [1e200, np.nan]
    with pytest.raises(
        ValueError, match="1 values are beyond 1e[+]150, too large to be squared, the first: column 'y'"
    ):
        to_panel(df)


def test_a_channel_without_values_is_refused_for_training_only():
    frame = pd.DataFrame({"a": [1.0, 2], "b": np.nan, "c": np.nan}, index=days(2))
    panel = to_panel(frame)
    with pytest.raises(ValueError, match="no value of 'b', 'c'"):
        check_trainable(panel)
    df = long_frame(n=5)
    check_trainable(to_panel(df.assign(y=df.y.where(df.unique_id != "s1"))))


# ------------------------------------------------------------------------------------------- a fitted schema


def test_columns_are_matched_by_name_at_predict():
    wide = pd.DataFrame({"a": 10.0, "b": 1000.0, "c": -500.0}, index=days(20))
    schema = to_panel(wide).schema
    later = to_panel(wide[["c", "a", "b"]].assign(extra=1.0).tail(5), schema=schema)
    assert later.schema.targets == ("a", "b", "c") and later.values[0].tolist() == [10, 1000, -500]
    with pytest.raises(ValueError, match="no target column 'b'"):
        to_panel(wide[["a", "c"]], schema=schema)
    with pytest.raises(ValueError, match="'a', 'b', 'c'"):
        to_panel(wide["a"], schema=schema)


def test_the_layout_at_predict_must_fit():
    long_schema = to_panel(long_frame()).schema
    wide_schema = to_panel(pd.DataFrame({"y": wave(20)}, index=days(20))).schema
    with pytest.raises(ValueError, match="fitted on a long frame"):
        to_panel(pd.DataFrame({"y": wave(20)}, index=days(20)), schema=long_schema)
    with pytest.raises(ValueError, match="fitted on data without ids"):
        to_panel(long_frame(), schema=wide_schema)
    with pytest.raises(ValueError, match="freq='D' needs dates"):
        to_panel(np.arange(5.0), schema=wide_schema)
    with pytest.raises(ValueError, match="fitted on 2 channels, this array has 3"):
        to_panel(np.ones((5, 3)), schema=to_panel(np.ones((5, 2))).schema)
    assert to_panel(pd.Series(wave(5), index=days(5), name="other"), schema=wide_schema).schema.targets == ("y",)


def test_a_schema_survives_json():
    import json

    df = long_frame(n=5)
    schema = to_panel(df.assign(unique_id=df.unique_id.astype("category"))).schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


# ------------------------------------------------------------------------------------------- parts of a panel


def test_rows_and_tail_cut_each_series_and_move_its_start():
    df = pd.concat([long_frame(n=8, ids=("a",)), long_frame(n=3, ids=("b",), start="2024-02-01")])
    panel = to_panel(df)
    tail = panel.tail(5)
    assert tail.lengths.tolist() == [5, 3]
    assert tail.start.astype("M8[D]").astype(str).tolist() == ["2024-01-04", "2024-02-01"]
    assert np.array_equal(tail.values, panel.values[[3, 4, 5, 6, 7, 8, 9, 10]])
    part = panel.rows(np.array([2, 0]), np.array([4, 0]))
    assert part.lengths.tolist() == [2, 0] and np.array_equal(part.values, panel.values[2:4])
    same(panel.rows(0, panel.lengths), panel)


def test_many_series_are_read_without_a_loop_over_them():
    n, t = 20_000, 30
    ids = np.char.add("i", np.char.zfill(np.arange(n).astype(str), 6))
    frame = pd.DataFrame({"unique_id": np.repeat(ids, t), "ds": np.tile(days(t).to_numpy(), n), "y": 1.0})
    panel = to_panel(frame)
    assert panel.n_series == n and (panel.lengths == t).all()


def test_monthly_stamps_inside_the_month_get_a_way_out():
    with pytest.raises(ValueError, match="to_period"):
        to_panel(pd.Series(1.0, index=pd.to_datetime(["2024-01-15", "2024-02-15", "2024-03-15", "2024-04-15"])))


def test_zones_without_a_name_are_refused_and_fixed_offsets_are_fine():
    utc = pd.date_range("2024-03-29", periods=72, freq="h", tz="UTC")
    with pytest.raises(ValueError, match="time zone without a name"):
        to_panel(pd.Series(1.0, index=utc.tz_convert("dateutil/Europe/Paris")))
    assert to_panel(pd.Series(1.0, index=utc.tz_convert("+05:30"))).schema.zone == "UTC+05:30"


def test_midnights_of_another_zone_are_answered_with_utc():
    ds = pd.date_range("2024-03-25", periods=20, tz="UTC").tz_convert("Europe/Paris")
    with pytest.raises(ValueError, match="tz_convert"):
        to_panel(pd.Series(1.0, index=ds))


def test_targets_of_an_array_cannot_be_renamed():
    assert to_panel(np.ones((4, 2)), target_cols=["y0", "y1"]).n_channels == 2
    with pytest.raises(ValueError, match="the only targets here are"):
        to_panel(np.ones((4, 2)), target_cols=["a"])


def test_an_array_of_one_row_has_step_one():
    assert to_panel(np.array([3.0])).schema.freq == 1


def test_a_gap_inside_one_week_is_a_gap_not_business_days():
    with pytest.warns(UserWarning, match="1 stamps are missing.*2024-01-03"):
        panel = to_panel(pd.Series(1.0, index=pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"])))
    assert panel.schema.freq == "D"


def test_days_that_fall_together_on_the_wall_clock_are_irregular():
    utc = pd.to_datetime(["2023-10-28 00:30", "2023-10-29 00:30", "2023-10-29 01:30", "2023-10-30 01:30"])
    wall = utc.tz_localize("UTC").tz_convert("Europe/Paris")  # 02:30 each, twice on the day of the change
    with pytest.raises(ValueError, match="irregular"):
        to_panel(pd.Series(1.0, index=wall), freq="D")


def test_numbers_with_a_few_spoilt_cells_are_not_left_out_in_silence():
    frame = pd.DataFrame({"a": np.arange(200.0), "sold": np.arange(200).astype(str), "note": "q"}, index=days(200))
    frame.loc[frame.index[[7, 9]], "sold"] = "n/a?"
    with pytest.warns(UserWarning, match="'sold' is left out as text, but only 2 of its 200 .* 'n/a\\?' in row 7"):
        assert to_panel(frame).schema.targets == ("a",)
