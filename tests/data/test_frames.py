"""Frames of other libraries go in as pandas and come back as they were."""

import datetime

import numpy as np
import pandas as pd
import pytest

from tsformer.data.frames import to_pandas
from tsformer.data.future import future_frame, with_future
from tsformer.data.panel import to_frame, to_panel

pl = pytest.importorskip("polars")


def days(n, start=datetime.date(2024, 1, 1)):
    return [start + datetime.timedelta(days=k) for k in range(n)]


def long_frame(n=20):
    """Return a polars frame with a value of each kind."""
    return pl.DataFrame(
        {
            "unique_id": ["b"] * n + ["a"] * n,
            "ds": days(n) * 2,
            "y": list(range(2 * n)),
            "price": [float(k % 5) for k in range(2 * n)],
            "promo": [k % 7 == 0 for k in range(2 * n)],
            "sky": ["sun", "rain"] * n,
        }
    )


def forecast(panel, horizon=3):
    return {
        "": np.arange(panel.n_series * horizon * panel.n_channels, dtype=float).reshape(panel.n_series, horizon, -1)
    }


def test_pandas_and_arrays_are_left_alone():
    for X in (pd.DataFrame({"a": [1]}), pd.Series([1]), np.arange(3), [1, 2], None, "text", 3):
        same, restore = to_pandas(X)
        assert same is X and restore(X) is X


@pytest.mark.parametrize("id_type", [None, "Categorical", "Enum"])
@pytest.mark.parametrize("time", ["Date", "us", "ms", "ns", "zone"])
def test_a_long_polars_frame_goes_there_and_back(id_type, time):
    df = long_frame()
    if id_type == "Enum":
        df = df.with_columns(pl.col("unique_id").cast(pl.Enum(["z", "b", "a"])))
    elif id_type:
        df = df.with_columns(pl.col("unique_id").cast(pl.Categorical))
    if time == "zone":
        df = df.with_columns(pl.col("ds").cast(pl.Datetime("us")).dt.replace_time_zone("Europe/Amsterdam"))
    elif time != "Date":
        df = df.with_columns(pl.col("ds").cast(pl.Datetime(time)))
    before = df.clone()
    X, restore = to_pandas(df, time_col="ds")
    panel = to_panel(X, known=["price", "promo", "sky"])
    assert panel.schema.freq == "D" and sorted(panel.ids) == ["a", "b"]
    out = restore(to_frame(panel, forecast(panel), name="Model"))
    assert isinstance(out, pl.DataFrame) and out.columns == ["unique_id", "ds", "Model"]
    assert out.schema["unique_id"] == df.schema["unique_id"] and out.schema["ds"] == df.schema["ds"]
    assert out.schema["Model"] == pl.Float64
    first = out.filter(pl.col("unique_id") == "a")["ds"]
    assert (first if time == "Date" else first.dt.date()).to_list() == days(3, datetime.date(2024, 1, 21))
    assert out.join(df, on=["unique_id", "ds"], how="left").height == 6
    assert df.equals(before)


def test_hours_with_a_zone_over_the_clock_change():
    ds = pl.datetime_range(
        datetime.datetime(2023, 10, 28), datetime.datetime(2023, 10, 29), "1h", time_zone="Europe/Amsterdam", eager=True
    )
    df = pl.DataFrame({"ds": ds, "load": np.arange(25.0)})
    X, restore = to_pandas(df, time_col="ds")
    panel = to_panel(X)
    out = restore(to_frame(panel, forecast(panel, 5), name="Model"))
    assert out.schema["ds"] == df.schema["ds"] and out.columns == ["ds", "load"]
    steps = out["ds"].dt.convert_time_zone("UTC").diff().drop_nulls()
    assert (steps == datetime.timedelta(hours=1)).all() and out["ds"].dt.hour().to_list() == [1, 2, 2, 3, 4]


def test_a_wide_frame_keeps_its_time_and_whole_numbers_become_forecasts():
    df = pl.DataFrame({"ds": days(10), "a": list(range(10)), "b": [0.5] * 10})
    X, restore = to_pandas(df, time_col="ds")
    panel = to_panel(X)
    values = {"": np.full((1, 2, 2), 1.25)}
    out = restore(to_frame(panel, values, name="Model"))
    assert out.columns == ["ds", "a", "b"] and out["a"].to_list() == [1.25, 1.25]
    with pytest.raises(ValueError, match="no time column 'when'.*no index.*'ds', 'a', 'b'.*time_col"):
        to_pandas(df, time_col="when")


def test_integer_time_and_ids():
    df = pl.DataFrame({"unique_id": [7] * 5 + [3] * 5, "ds": list(range(5)) * 2, "y": [1.0] * 10})
    df = df.with_columns(pl.col("unique_id").cast(pl.Int16))
    X, restore = to_pandas(df)
    panel = to_panel(X)
    out = restore(to_frame(panel, forecast(panel), name="Model"))
    assert out.schema["unique_id"] == pl.Int16 and out["ds"].to_list() == [5, 6, 7] * 2


def test_text_dates_come_back_as_dates():
    df = long_frame().with_columns(pl.col("ds").cast(pl.String))
    X, restore = to_pandas(df)
    panel = to_panel(X)
    out = restore(to_frame(panel, forecast(panel), name="Model"))
    assert out.schema["ds"].is_temporal() and out["ds"][0] == datetime.datetime(2024, 1, 21)


def test_missing_values_of_every_kind():
    df = long_frame().with_columns(
        pl.when(pl.int_range(40) == 3).then(None).otherwise(pl.col(name)).alias(name) for name in ("y", "promo", "sky")
    )
    panel = to_panel(to_pandas(df)[0], known=["promo", "sky"])
    for array in (panel.values, panel.known):
        assert np.isnan(array[23]).all() and np.isnan(array).sum() == array.shape[1]  # row 3 of "b", behind "a"


def test_a_polars_series():
    X, restore = to_pandas(pl.Series("load", [1.0, 2.0, 3.0]))
    panel = to_panel(X)
    assert panel.schema.targets == ("load",)
    out = restore(to_frame(panel, forecast(panel), name="Model"))
    assert isinstance(out, pl.Series) and out.name == "load" and out.to_list() == [0, 1, 2]


def test_the_future_frame_is_filled_in_polars():
    df = long_frame()
    X, restore = to_pandas(df)
    panel = to_panel(X, known=["price", "promo", "sky"])
    future = restore(future_frame(panel, 4))
    assert future.schema["ds"] == pl.Date and future.schema["sky"] == pl.String and future["sky"].null_count() == 8
    future = future.with_columns(price=pl.lit(2.0), promo=pl.lit(True), sky=pl.lit("sun"))
    assert (with_future(panel, future, 4).known[20:24] == [2, 1, 1]).all()


def test_any_side_may_be_polars():
    df = long_frame()
    table = pl.DataFrame({"unique_id": ["a", "b"], "size": [1, 2]})
    panel = to_panel(df, known=["price", "sky"], static=table)
    plain = to_panel(to_pandas(df)[0], known=["price", "sky"], static=to_pandas(table)[0])
    assert np.array_equal(panel.known, plain.known) and panel.static.tolist() == [[1], [2]]
    pandas_future = future_frame(plain, 2).assign(price=1.0, sky="sun")
    assert np.array_equal(with_future(panel, pandas_future, 2).known, with_future(plain, pandas_future, 2).known)


def test_a_lazy_frame_is_refused():
    with pytest.raises(TypeError, match=r"lazy.*\.collect\(\)"):
        to_pandas(long_frame().lazy())


def test_pyarrow_tables():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"unique_id": ["a"] * 5, "ds": pa.array(days(5)), "y": [1.0, None, 3.0, 4.0, 5.0]})
    X, restore = to_pandas(table, time_col="ds")
    panel = to_panel(X)
    assert np.isnan(panel.values).sum() == 1
    out = restore(to_frame(panel, forecast(panel), name="Model"))
    assert isinstance(out, pa.Table) and out.schema.field("ds").type == pa.date32()
