"""Forecasts go back as the caller's data came."""

import numpy as np
import pandas as pd
import pytest

from tsformer.data.panel import to_frame, to_panel


def days(n, start="2024-01-01"):
    return pd.date_range(start, periods=n)


def long_frame(n=10, ids=("s1", "s2")):
    return pd.concat([pd.DataFrame({"unique_id": u, "ds": days(n), "y": np.arange(n) * 1.0}) for u in ids])


def forecast(panel, horizon=3, suffixes=("",)):
    shape = (panel.n_series, horizon, panel.n_channels)
    return {s: np.arange(np.prod(shape), dtype=float).reshape(shape) + 100 * i for i, s in enumerate(suffixes)}


def test_long_frame_of_one_target():
    panel = to_panel(long_frame())
    out = to_frame(panel, forecast(panel, suffixes=("", "-median", "-lo-80", "-hi-80")), name="Model")
    assert out.columns.tolist() == ["unique_id", "ds", "Model", "Model-median", "Model-lo-80", "Model-hi-80"]
    assert out.unique_id.tolist() == ["s1"] * 3 + ["s2"] * 3
    assert out.ds.tolist() == list(days(3, "2024-01-11")) * 2
    assert out.Model.tolist() == [0, 1, 2, 3, 4, 5] and out.index.tolist() == list(range(6))
    assert out.Model.dtype == np.float64


def test_long_frame_of_several_targets_and_own_names():
    df = long_frame().rename(columns={"unique_id": "shop", "ds": "date"}).assign(z=1.0)
    panel = to_panel(df, id_col="shop", time_col="date", target_cols=["y", "z"])
    out = to_frame(panel, forecast(panel, suffixes=("", "-lo-80")), name="Model")
    assert out.columns.tolist() == ["shop", "date", "y", "y-lo-80", "z", "z-lo-80"]
    assert out.z.tolist() == [1, 3, 5, 7, 9, 11]


def test_each_series_is_continued_from_its_own_end():
    df = pd.concat([long_frame(10, ("a",)), long_frame(6, ("b",))])
    panel = to_panel(df)
    out = to_frame(panel, forecast(panel, 1), name="Model")
    assert out.ds.tolist() == [pd.Timestamp("2024-01-11"), pd.Timestamp("2024-01-07")]


def test_wide_frames_keep_their_kind_of_time():
    by_index = pd.DataFrame({"a": 1.0, "b": 2.0}, index=days(5).rename("when"))
    panel = to_panel(by_index)
    out = to_frame(panel, forecast(panel), name="Model")
    assert (
        out.columns.tolist() == ["a", "b"] and out.index.name == "when" and out.index[0] == pd.Timestamp("2024-01-06")
    )
    by_column = by_index.rename_axis("ds").reset_index()
    panel = to_panel(by_column)
    out = to_frame(panel, forecast(panel, suffixes=("", "-hi-90")), name="Model")
    assert out.columns.tolist() == ["ds", "a", "a-hi-90", "b", "b-hi-90"] and out.ds[0] == pd.Timestamp("2024-01-06")


def test_whole_numbers_as_column_names_stay_numbers():
    panel = to_panel(pd.DataFrame(np.ones((5, 2)), index=days(5)))
    assert to_frame(panel, forecast(panel), name="Model").columns.tolist() == [0, 1]


def test_series_in_series_out():
    panel = to_panel(pd.Series(1.0, index=days(5), name="load"))
    out = to_frame(panel, forecast(panel), name="Model")
    assert isinstance(out, pd.Series) and out.name == "load" and out.index[0] == pd.Timestamp("2024-01-06")
    assert to_frame(panel, forecast(panel, suffixes=("", "-lo-80")), name="M").columns.tolist() == [
        "load",
        "load-lo-80",
    ]
    assert to_frame(*[p := to_panel(pd.Series([1.0, 2]))], forecast(p), name="Model").name is None


def test_arrays_give_a_frame_over_integers():
    panel = to_panel(np.arange(4.0))
    out = to_frame(panel, forecast(panel), name="Model")
    assert out.columns.tolist() == ["y"] and out.index.tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    "dtype", ["datetime64[s]", "datetime64[ns]", "datetime64[us, Europe/Amsterdam]", "timestamp[us][pyarrow]"]
)
def test_time_dtype_as_it_came(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    zone = "Europe/Amsterdam" if "Amsterdam" in dtype else None
    df = long_frame()
    df["ds"] = df.ds.dt.tz_localize(zone).astype(dtype)
    panel = to_panel(df)
    out = to_frame(panel, forecast(panel), name="Model")
    assert out.ds.dtype == df.ds.dtype
    merged = df.merge(out, on=["unique_id", "ds"], how="outer")
    assert len(merged) == len(df) + len(out)


@pytest.mark.parametrize("dtype", ["int64", "int32", "Int64", "uint16"])
def test_integer_time_as_it_came(dtype):
    df = long_frame().assign(ds=list(range(100, 200, 10)) * 2).astype({"ds": dtype})
    panel = to_panel(df)
    out = to_frame(panel, forecast(panel), name="Model")
    assert out.ds.dtype == dtype and out.ds.tolist() == [200, 210, 220] * 2


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_id_dtype_as_it_came(dtype):
    df = long_frame().astype({"unique_id": dtype})
    panel = to_panel(df)
    out = to_frame(panel, forecast(panel), name="Model")
    assert out.unique_id.dtype == df.unique_id.dtype
    assert len(out.merge(df[["unique_id"]].drop_duplicates(), on="unique_id")) == len(out)


def test_categories_keep_their_levels_and_order():
    df = long_frame(ids=("z", "b"))
    df["unique_id"] = pd.Categorical(df.unique_id, categories=["z", "a", "b", "never"], ordered=True)
    panel = to_panel(df)
    out = to_frame(panel, forecast(panel, 1), name="Model")
    assert out.unique_id.dtype == df.unique_id.dtype and out.unique_id.tolist() == ["b", "z"]


@pytest.mark.parametrize("end", ["2023-10-28 22:00", "2023-10-30 10:00", "2024-03-30 22:00"])
def test_hours_around_a_clock_change_go_on_in_absolute_time(end):
    utc = pd.date_range(end=end, periods=100, freq="h", tz="UTC")
    frame = pd.DataFrame({"unique_id": "load", "ds": utc.tz_convert("Europe/Amsterdam"), "y": 1.0})
    panel = to_panel(frame)
    out = to_frame(panel, forecast(panel, 6), name="Model")
    expected = pd.date_range(utc[-1] + pd.Timedelta(hours=1), periods=6, freq="h").tz_convert("Europe/Amsterdam")
    assert out.ds.dtype == frame.ds.dtype and out.ds.tolist() == expected.tolist()


def test_days_over_a_clock_change_go_on_at_midnight():
    frame = pd.DataFrame({"y": 1.0}, index=pd.date_range("2023-10-01", periods=28, tz="Europe/Amsterdam"))
    panel = to_panel(frame)
    out = to_frame(panel, forecast(panel, 3), name="Model")
    expected = pd.date_range("2023-10-29", periods=3, tz="Europe/Amsterdam")
    assert out.index.tolist() == expected.tolist() and out.index.dtype == frame.index.dtype


def test_a_midnight_that_does_not_exist_is_moved_forward():
    frame = pd.DataFrame({"y": 1.0}, index=pd.date_range("2018-10-20", periods=15, tz="America/Sao_Paulo"))
    panel = to_panel(frame)
    out = to_frame(panel, forecast(panel, 2), name="Model")
    assert out.index[0] == pd.Timestamp("2018-11-04 01:00", tz="America/Sao_Paulo")
