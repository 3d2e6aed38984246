"""What goes wrong for people who forecast with deep-learning libraries, each as a test named after its kind."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import tsformer

NAME = "TransformerForecaster"


def keys(frame: pd.DataFrame) -> set[tuple]:
    return set(zip(frame["unique_id"].astype(str), frame["ds"], strict=True))


def days_after(frame: pd.DataFrame, horizon: int) -> set[tuple]:
    """Keys of a right daily forecast: from the day after each series' own last row."""
    last = frame.groupby("unique_id", observed=True)["ds"].max()
    step = pd.Timedelta(days=1)
    return {(str(u), day + step * (i + 1)) for u, day in last.items() for i in range(horizon)}


def within(forecast: pd.DataFrame, bounds: dict[str, tuple[float, float]]) -> None:
    for name, (low, high) in bounds.items():
        values = forecast.loc[forecast["unique_id"].astype(str) == name, NAME]
        assert len(values) and values.between(low, high).all(), (name, values.min(), values.max())


@pytest.fixture
def trained(small):
    """A few hundred steps: enough for bounds to mean something."""
    return lambda h=7, **changes: small(h, **(dict(max_steps=150, learning_rate=3e-3, batch_size=32) | changes))


LEVELS = {"s1": 100.0, "s2": 500.0, "s3": 20.0}


# ------------------------------------------------------------------ values of the target


def test_values_scattered_missing(trained, make_panel):
    frame = make_panel(LEVELS)
    s1, s3 = frame.index[frame.unique_id == "s1"], frame.index[frame.unique_id == "s3"]
    frame.loc[s1[[17, 60, 61]], "y"] = np.nan
    frame.loc[s3[40:48], "y"] = np.nan
    forecaster = trained().fit(frame)
    forecast = forecaster.predict()
    assert np.isfinite(forecaster.history_["train_loss"]).all()
    assert keys(forecast) == days_after(frame, 7)
    within(forecast, {"s1": (50, 150), "s2": (450, 550), "s3": (-30, 70)})


def test_values_missing_at_the_end_and_nothing_but_missing(trained, make_panel):
    frame = make_panel(LEVELS)
    last = frame.groupby("unique_id")["ds"].transform("max")
    frame.loc[(frame.unique_id == "s1") & (last - frame.ds < pd.Timedelta(days=3)), "y"] = np.nan
    frame.loc[frame.unique_id == "s3", "y"] = np.nan
    forecast = trained().fit(frame).predict()
    assert keys(forecast) == days_after(frame, 7)  # from the last row, missing or not
    within(forecast, {"s1": (50, 150), "s2": (450, 550)})
    assert np.isfinite(forecast[NAME]).all()
    with pytest.raises(ValueError, match="'y'"):
        trained().fit(frame.assign(y=np.nan))


def test_values_constant(trained, make_panel):
    constants = {"c0": 0.0, "c7": 7.0, "c5000": 5000.0, "c1e6": 1e6, "neg": -3.5, "tenth": 0.1}
    flat = pd.concat([make_panel({name: value}, n=90, amplitude=0, noise=0) for name, value in constants.items()])
    forecast = trained().fit(pd.concat([flat, make_panel({"wave": 100.0}, n=90)])).predict()
    for name, value in constants.items():
        assert forecast.loc[forecast.unique_id == name, NAME].eq(value).all(), name
    within(forecast, {"wave": (50, 150)})


@pytest.mark.parametrize("factor", [1e9, 1e12, 1e-9])
def test_values_of_any_magnitude(trained, make_panel, factor):
    unit = make_panel({"s1": 100.0}, n=140, noise=0.2)
    forecaster = trained(14, max_steps=60)
    one = forecaster.fit(unit).predict()[NAME].to_numpy()
    many = forecaster.fit(unit.assign(y=unit.y * factor)).predict()[NAME].to_numpy()
    assert many.dtype == np.float64
    np.testing.assert_allclose(many, factor * one, rtol=1e-5)
    assert (many.max() - many.min()) / factor > 5  # the weekly pattern is there


def test_values_infinite(small, make_panel):
    frame = make_panel({"s1": 1.0})
    frame.loc[5, "y"] = np.inf
    with pytest.raises(ValueError, match=r"infinite.*'y'.*'s1'.*2024-01-06"):
        small().fit(frame)


def test_values_sparse_counts(trained):
    rng = np.random.default_rng(5)
    weeks = pd.date_range("2021-01-04", periods=156, freq="W-MON")
    shares = {"s5": 0.05, "s20": 0.2, "s40": 0.4, "s60": 0.6}
    frame = pd.concat(
        pd.DataFrame({"unique_id": name, "ds": weeks, "y": (rng.random(156) < share) * rng.integers(1, 5, 156)})
        for name, share in shares.items()
    )
    forecast = trained(8, max_steps=40, context_length=52, patch_length=4).fit(frame).predict()
    most = frame.groupby("unique_id")["y"].max()
    of_each = forecast.groupby("unique_id")[NAME]
    assert np.isfinite(forecast[NAME]).all() and (of_each.max() < 3 * most).all()
    assert ((of_each.mean() >= -0.5) & (of_each.mean() <= most)).all()


# ------------------------------------------------------------------ time


def test_time_duplicate_keys(small, make_panel):
    frame = make_panel({"s1": 100.0, "s2": 50.0}, n=60)
    extra = frame.iloc[[10, 11]].assign(y=lambda d: d.y + 40)
    with pytest.raises(ValueError, match=r"3 surplus rows.*2024-01-11 of id .s1."):
        small().fit(pd.concat([frame, extra, frame.iloc[[70]]]))


def test_time_shuffled_rows(small, make_panel):
    frame = make_panel(LEVELS, n=100, slope=0.3)
    shuffled = frame.sample(frac=1.0, random_state=11)
    copy = shuffled.copy(deep=True)
    expected = small().fit(frame).predict()
    pd.testing.assert_frame_equal(small().fit(shuffled).predict(), expected)
    pd.testing.assert_frame_equal(small().fit(frame).predict(shuffled), expected)
    pd.testing.assert_frame_equal(shuffled, copy)


@pytest.mark.parametrize("begin", ["2023-10-19 22:00", "2023-10-24 22:00"], ids=["just before", "inside"])
def test_time_clock_change(small, wave, begin):
    utc = pd.date_range(begin, periods=217, freq="h", tz="UTC")
    frame = pd.DataFrame({"unique_id": "load", "ds": utc.tz_convert("Europe/Amsterdam"), "y": wave(217, period=24)})
    forecast = small(6, context_length=48, patch_length=12).fit(frame).predict()
    assert str(forecast["ds"].dt.tz) == "Europe/Amsterdam"
    expected = pd.date_range(utc[-1], periods=7, freq="h")[1:]
    assert list(forecast["ds"].dt.tz_convert("UTC")) == list(expected)


@pytest.mark.parametrize(
    ("old", "new", "begin", "expected"),
    [
        ("M", "ME", "2018-01-31", ["2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"]),
        ("H", "h", "2024-03-01", ["2024-03-04 01:00", "2024-03-04 02:00", "2024-03-04 03:00", "2024-03-04 04:00"]),
        (
            "15T",
            "15min",
            "2024-03-01",
            ["2024-03-01 18:15", "2024-03-01 18:30", "2024-03-01 18:45", "2024-03-01 19:00"],
        ),
    ],
)
def test_time_old_aliases_and_month_ends(small, wave, old, new, begin, expected):
    frame = pd.DataFrame({"unique_id": "m", "ds": pd.date_range(begin, periods=73, freq=new), "y": wave(73)})
    forecasts = [
        small(4, freq=freq, context_length=24, patch_length=4).fit(frame).predict() for freq in (old, new, None)
    ]
    assert list(forecasts[0]["ds"]) == list(pd.to_datetime(expected))
    for other in forecasts[1:]:
        pd.testing.assert_frame_equal(forecasts[0], other)


def test_time_business_days_with_holidays(small, wave):
    ds = pd.bdate_range("2023-01-02", "2024-03-28")
    ds = ds[~ds.isin(pd.to_datetime(["2023-04-07", "2023-05-29", "2023-12-25", "2023-12-26", "2024-01-01"]))]
    frame = pd.DataFrame({"unique_id": "stock", "ds": ds, "y": wave(len(ds), level=50, amplitude=2, period=5)})
    with pytest.warns(UserWarning, match="5 .*2023-04-07"):
        forecast = small(5, freq="B", context_length=20, patch_length=5).fit(frame).predict()
    assert list(forecast["ds"].dt.strftime("%m-%d")) == ["03-29", "04-01", "04-02", "04-03", "04-04"]
    assert forecast[NAME].between(30, 80).all()
    with pytest.raises(ValueError, match='freq="B"'):
        small(5).fit(frame)


def test_time_gap_is_not_closed_up(trained, make_panel):
    whole = make_panel({"s1": 100.0, "s2": 500.0}, n=200)
    gap = whole.drop(index=range(90, 95))
    forecaster = trained(max_steps=40).fit(whole)
    expected = forecaster.predict()
    with pytest.warns(UserWarning, match=r"5 .*2024-03-31"):
        forecast = forecaster.predict(gap)
    pd.testing.assert_frame_equal(forecast, expected)  # the gap lies before the context
    with pytest.warns(UserWarning, match=r"5 .*2024-03-31"):
        refitted = trained(max_steps=40).fit(gap).predict()
    assert keys(refitted) == days_after(whole, 7)


def test_time_integers(small, wave):
    frame = pd.DataFrame({"unique_id": "s", "ds": np.arange(100, 900, 10), "y": wave(80)})
    for freq in (None, 10):
        forecast = small(5, freq=freq).fit(frame).predict()
        assert forecast["ds"].tolist() == [900, 910, 920, 930, 940] and forecast["ds"].dtype == np.int64
    with pytest.raises(ValueError, match="D"):
        small(5, freq="D").fit(frame)


def test_time_of_a_frequency_that_is_not_the_datas(small, make_panel, wave):
    frame = make_panel({"s1": 100.0}, n=60)
    with pytest.raises(ValueError, match="freq='h' does not fit: nearly every row of 'ds' is 24 such steps"):
        small(freq="h").fit(frame)
    hourly = pd.DataFrame({"unique_id": "s1", "ds": pd.date_range("2024-01-01", periods=90, freq="h"), "y": wave(90)})
    with pytest.raises(ValueError, match="does not fit"):
        small().fit(hourly).predict(frame)


def test_time_that_does_not_fit_its_type(small, wave):
    frame = pd.DataFrame({"unique_id": "s", "ds": np.arange(174, 254).astype("uint8"), "y": wave(80)})
    assert small(5).fit(frame).predict()["ds"].tolist() == [254, 255, 256, 257, 258]
    late = pd.date_range("2262-04-08", "2262-04-11 20:00", freq="h", unit="ns")
    frame = pd.DataFrame({"unique_id": "s", "ds": late, "y": wave(len(late))})
    with pytest.raises(ValueError, match="beyond what datetime64.ns. can hold"):
        small(5).fit(frame).predict()


# ------------------------------------------------------------------ panels and ids


def test_panel_all_shorter_than_the_context(trained, make_panel):
    frame = make_panel(LEVELS, n=6)
    forecast = trained(6, context_length=24).fit(frame).predict()
    assert keys(forecast) == days_after(frame, 6) and np.isfinite(forecast[NAME]).all()


def test_panel_one_row_is_too_little(small, make_panel):
    with pytest.raises(ValueError, match="1 training rows.*at least 2"):
        small(freq="D").fit(make_panel(LEVELS, n=1))


def test_panel_short_history_at_predict(trained, make_panel):
    forecaster = trained(context_length=24).fit(make_panel({"s1": 500.0, "s2": 520.0, "s3": 480.0}, n=150))
    forecast = forecaster.predict(make_panel({"s1": 500.0}, n=5, begin="2024-07-01"))
    assert keys(forecast) == {("s1", day) for day in pd.date_range("2024-07-06", periods=7)}
    within(forecast, {"s1": (430, 570)})


def test_panel_ragged_ends(trained, make_panel):
    parts = [
        make_panel({"long": 100.0}, n=122, begin="2023-11-01"),
        make_panel({"stopped": 300.0}, n=102, begin="2023-11-01"),
        make_panel({"late": -40.0}, n=57, begin="2024-01-05"),
    ]
    frame = pd.concat(parts)
    forecast = trained(5).fit(frame).predict()
    assert keys(forecast) == days_after(frame, 5)
    within(forecast, {"long": (50, 150), "stopped": (250, 350), "late": (-90, 10)})


def test_panel_unseen_id(trained, make_panel):
    train = make_panel(LEVELS, n=100)
    forecaster = trained().fit(train)
    both = pd.concat([train[train.unique_id == "s1"], make_panel({"brand_new": 250.0}, n=100)])
    forecast = forecaster.predict(both)
    within(forecast, {"s1": (50, 150), "brand_new": (150, 350)})
    known = forecaster.predict(train)
    np.testing.assert_allclose(
        forecast.loc[forecast.unique_id == "s1", NAME], known.loc[known.unique_id == "s1", NAME], rtol=1e-6
    )


def test_a_window_of_an_unseen_id_knows_no_other(trained, make_panel):
    """A new series has the scale of the window at hand, be there a hundred times smaller ones in the same call."""
    forecaster = trained(loss="normal").fit(make_panel(LEVELS, n=100))
    new = make_panel({"new": 1.0}, n=120)
    new["y"] = np.where(np.arange(120) < 60, 1.0, 100.0)  # flat: no window has a scale of its own
    new["ds"] += pd.Timedelta(days=100)  # after the training
    alone, together = (tsformer.backtest(forecaster, new, windows=n, step=1, level=80) for n in (1, 80))
    last = together[together.cutoff == together.cutoff.max()]
    assert len(last) == len(alone) == 7
    numbers = alone.select_dtypes("number").columns
    np.testing.assert_allclose(last[numbers], alone[numbers], rtol=1e-6)
    assert (alone[f"{NAME}-hi-80"] > alone[f"{NAME}-lo-80"]).all()


def test_panel_categorical_ids(trained, make_panel):
    frame = make_panel({"z": 900.0, "a": 5.0, "b": -300.0}, n=90)
    frame["unique_id"] = pd.Categorical(frame["unique_id"], categories=["z", "a", "b", "never"])
    frame = frame[frame.unique_id != "a"]
    forecast = trained(5).fit(frame).predict()
    assert keys(forecast) == days_after(frame, 5)
    within(forecast, {"z": (850, 950), "b": (-350, -250)})
    assert forecast["unique_id"].dtype == frame["unique_id"].dtype
    assert len(forecast.merge(frame, on="unique_id")) == 10 * 90


# ------------------------------------------------------------------ dtypes and frames


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "int8", "float32", "object"])
def test_dtype_of_the_target(small, make_panel, dtype):
    frame = make_panel({"s1": 100.0, "s2": 60.0}, n=90)
    frame["y"] = frame["y"].round()
    forecast = small(5).fit(frame.astype({"y": dtype})).predict()
    pd.testing.assert_frame_equal(forecast, small(5).fit(frame).predict())
    assert forecast[NAME].dtype == np.float64


def test_dtype_with_missing_integers(small, make_panel):
    frame = make_panel({"s1": 100.0, "s2": 60.0}, n=90)
    frame["y"] = frame["y"].round()
    nullable = frame.astype({"y": "Int64"})
    nullable.loc[[20, 21], "y"] = pd.NA
    frame.loc[[20, 21], "y"] = np.nan
    pd.testing.assert_frame_equal(small(5).fit(nullable).predict(), small(5).fit(frame).predict())


@pytest.mark.parametrize("zone", [None, "Europe/Amsterdam"])
def test_dtypes_of_pyarrow(small, make_panel, zone):
    pa = pytest.importorskip("pyarrow")
    frame = make_panel({"s1": 100.0, "s2": 60.0}, n=90)
    frame["ds"] = frame["ds"].dt.as_unit("us").dt.tz_localize(zone)
    types = {"unique_id": pa.string(), "ds": pa.timestamp("us", zone), "y": pa.float64()}
    backed = frame.astype({name: pd.ArrowDtype(kind) for name, kind in types.items()})
    backed.loc[[20, 21], "y"], frame.loc[[20, 21], "y"] = pd.NA, np.nan
    forecaster, expected = small(5).fit(backed), small(5).fit(frame).predict()
    forecast = forecaster.predict()
    assert forecast["ds"].dtype == backed["ds"].dtype
    assert len(forecast.merge(backed, on="unique_id")) == len(forecast) * 90
    assert forecast[NAME].dtype == np.float64
    pd.testing.assert_frame_equal(forecast.astype(expected.dtypes), expected)
    # Any mix: another dtype at predict, and in what is given.
    pd.testing.assert_frame_equal(forecaster.predict(frame), expected)
    given = expected.head(2).rename(columns={NAME: "y"}).assign(y=7.0)
    scenario = forecaster.predict(given=given.astype(backed.dtypes))
    np.testing.assert_array_equal(scenario[NAME], forecaster.predict(frame, given=given)[NAME])


def test_dtypes_of_single_and_double_precision(small, make_panel):
    frame = make_panel({"s1": 100.0, "s2": 60.0}, n=90)
    one, two = (small(5, max_steps=20).fit(frame.astype({"y": t})).predict()[NAME] for t in ("float32", "float64"))
    np.testing.assert_allclose(one, two, rtol=1e-4)


def test_dates_as_people_write_them(small, make_panel):
    frame = make_panel({"s1": 100.0}, n=90)
    expected = small(5).fit(frame).predict()
    for form in ("%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y%m%d"):
        forecast = small(5).fit(frame.assign(ds=frame.ds.dt.strftime(form))).predict()
        assert list(forecast["ds"]) == list(expected["ds"]), form


def test_wide_columns_in_another_order(trained, wave):
    index = pd.date_range("2024-01-01", periods=120)
    frame = pd.DataFrame(
        {
            "a": wave(120, level=10, amplitude=1),
            "b": wave(120, level=1000, amplitude=50),
            "c": wave(120, level=-500, amplitude=20),
        },
        index=index,
    )
    forecaster = trained(channel_mixing="joint").fit(frame)
    forecast = forecaster.predict(frame[["c", "a", "b"]])
    pd.testing.assert_frame_equal(forecast, forecaster.predict(frame))
    for name, (low, high) in {"a": (0, 20), "b": (800, 1200), "c": (-600, -400)}.items():
        assert forecast[name].between(low, high).all()
    assert list(forecast.index) == list(pd.date_range("2024-04-30", periods=7))
    with pytest.raises(ValueError, match="'b'"):
        forecaster.predict(frame[["a", "c"]])


def test_units_of_time_and_types_of_ids(small, make_panel):
    frame = make_panel({"s1": 100.0, "s2": 50.0}, n=90)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = small().fit(frame).predict()
        for unit in ("s", "us", "ns"):
            forecast = small().fit(frame.astype({"ds": f"datetime64[{unit}]"})).predict()
            assert forecast["ds"].dtype == f"datetime64[{unit}]"
            pd.testing.assert_frame_equal(forecast, expected, check_dtype=False)
        mixed = small().fit(frame.astype({"ds": "datetime64[ns]"})).predict(frame.astype({"ds": "datetime64[s]"}))
        pd.testing.assert_frame_equal(mixed, expected, check_dtype=False)
        as_object = small().fit(frame.astype({"unique_id": object})).predict()
        pd.testing.assert_frame_equal(as_object, expected, check_dtype=False)


# ------------------------------------------------------------------ scaling, leakage, horizon


def test_scalers_never_see_the_hold_out(small, make_panel):
    frame = make_panel({"s1": 100.0, "s2": 30.0}, n=160)
    hold_out = frame.groupby("unique_id").cumcount(ascending=False) < 14
    tampered = frame.assign(y=frame.y.where(~hold_out, frame.y * 1000))
    settings = dict(validation_size=14, blend=False, linear_path=False)
    clean, other = small(14, **settings).fit(frame), small(14, patience=None, **settings).fit(tampered)
    # Validation rows choose epoch and penalty, and weigh a blend: without them and with one epoch the weights must be
    # the same; scales always.
    np.testing.assert_array_equal(clean._fitted.statistics.deviation, other._fitted.statistics.deviation)
    history = frame[~hold_out]
    pd.testing.assert_frame_equal(clean.predict(history), other.predict(history))


def test_horizon_longer_than_trained(trained, make_panel, wave):
    frame = make_panel({"s1": 100.0}, n=400, noise=0.1)
    forecast = trained(14, max_steps=300, learning_rate=5e-3).fit(frame).predict(horizon=120)
    assert keys(forecast) == days_after(frame, 120)
    within(forecast, {"s1": (60, 140)})
    assert np.corrcoef(forecast[NAME], wave(120, noise=0, start=400))[0, 1] > 0.5


# ------------------------------------------------------------------ estimator


def test_refit_is_fresh(small, make_panel):
    a, b = make_panel({"a": 1e5, "b": 2e5, "c": 3e5}, n=90), make_panel({"x": 5.0, "y": 9.0}, n=90, amplitude=1.0)
    settings = dict(max_steps=None, max_epochs=3, patience=2)
    again = small(5, **settings).fit(a).fit(b)
    fresh = small(5, **settings).fit(b)
    pd.testing.assert_frame_equal(again.predict(), fresh.predict())
    assert len(again.history_) == len(fresh.history_) > 0
    assert set(again.predict()["unique_id"]) == {"x", "y"}


def test_same_seed_same_forecast_in_another_process(small, make_panel, tmp_path):
    frame = make_panel(LEVELS, n=90)
    frame.to_csv(tmp_path / "train.csv", index=False)
    here = small(random_state=1, linear_path=False).fit(frame).predict()
    code = (
        "import pandas as pd, torch; torch.set_num_threads(1); from tsformer import TransformerForecaster as F\n"
        "x = pd.read_csv('train.csv', parse_dates=['ds'])\n"
        "f = F(7, context_length=28, patch_length=7, d_model=16, nhead=2, dim_feedforward=32, dropout=0.0, max_steps=5,"
        " verbose=False, random_state=1, linear_path=False)\n"
        "f.fit(x).predict().to_csv('forecast.csv', index=False)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    there = pd.read_csv(tmp_path / "forecast.csv")
    np.testing.assert_allclose(there[NAME], here[NAME], rtol=1e-6)
    assert not np.allclose(small(random_state=2, linear_path=False).fit(frame).predict()[NAME], here[NAME], rtol=1e-3)


def test_callers_frame_is_not_touched(small, make_panel):
    frame = make_panel(LEVELS, n=80).assign(note="n").sample(frac=1, random_state=3)
    frame.index = frame.index * 2 + 5
    frame.attrs["origin"] = "synthetic"
    frame = frame[["y", "note", "ds", "unique_id"]]
    copy, targets = frame.copy(deep=True), ["y"]
    one = small(5, target_cols=targets).fit(frame)
    one.predict(frame)
    pd.testing.assert_frame_equal(frame, copy)
    assert frame.attrs == copy.attrs and targets == ["y"]
    pd.testing.assert_frame_equal(one.predict(), small(5, target_cols=targets).fit(frame).predict())


def test_one_column_has_one_role(small, make_panel):
    frame = make_panel({"s1": 100.0}, n=60)
    for roles, column in [
        (dict(id_col="ds"), "'ds' cannot be both id and time"),
        (dict(target_cols="unique_id"), "'unique_id' cannot be both id and target"),
        (dict(id_col="none", target_cols=["y", "ds"]), "'ds' cannot be both time and target"),
    ]:
        with pytest.raises(ValueError, match=column):
            small(5, **roles).fit(frame)


def test_errors_are_in_our_words(small, wave):
    with pytest.raises(ValueError, match=r"random_state must be below 2\*\*64"):
        small(random_state=2**70).fit(wave(90))
    with pytest.raises(TypeError, match="path must be the name of a .safetensors file, got None"):
        tsformer.load(None)
    with pytest.raises(TypeError, match="name must be that of a data set, such as 'air_quality', got None"):
        tsformer.load_dataset(None)


def test_a_frame_where_arrays_were(small, wave):
    values = np.stack([wave(90), wave(90)], axis=1)
    forecaster = small(5).fit(values)
    frame = pd.DataFrame(values, columns=["p", "q"])
    for wrong in (frame, frame.assign(r=1.0)):
        with pytest.raises(ValueError, match=r"fitted on an array, whose channels are \['y0', 'y1'\]: give an array"):
            forecaster.predict(wrong)
    named = frame.set_axis(["y1", "y0"], axis=1)
    np.testing.assert_array_equal(forecaster.predict(named), forecaster.predict(values[:, ::-1]))


# ------------------------------------------------------------------ files and clutter


def test_saved_model_on_another_machine(small, make_panel, tmp_path):
    frame = make_panel({"a": 1e4, "b": 5.0, "c": -300.0})
    history = frame.groupby("unique_id").tail(40)
    forecaster = small().fit(frame)
    forecaster.save(tmp_path / "model.safetensors")
    history.to_csv(tmp_path / "history.csv", index=False)
    code = (
        "import pandas as pd, tsformer\n"
        "x = pd.read_csv('history.csv', parse_dates=['ds'])\n"
        "tsformer.load('model.safetensors').predict(x).to_csv('forecast.csv', index=False)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    there = pd.read_csv(tmp_path / "forecast.csv", parse_dates=["ds"])
    here = forecaster.predict(history)
    assert keys(there) == keys(here)
    np.testing.assert_allclose(there[NAME], here[NAME], rtol=1e-6)
    assert tsformer.load(tmp_path / "model.safetensors").freq_ == "D"


def test_no_clutter(make_panel, tmp_path):
    make_panel({"s1": 100.0}, n=60).to_csv(tmp_path / "x.csv", index=False)
    code = (
        "import pandas as pd; from tsformer import TransformerForecaster as F\n"
        "x = pd.read_csv('x.csv', parse_dates=['ds'])\n"
        "f = F(5, context_length=14, max_steps=3, verbose=False).fit(x)\n"
        "[f.predict() for _ in range(20)]"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


# ------------------------------------------------------------------ size and workers


@pytest.mark.slow
def test_a_hundred_thousand_series(small):
    n, rows = 100_000, 30
    ids = np.repeat(np.arange(n), rows)
    days = np.tile(pd.date_range("2024-01-01", periods=rows), n)
    frame = pd.DataFrame({"unique_id": ids, "ds": days, "y": np.random.default_rng(0).normal(ids % 7)})
    began = time.perf_counter()
    forecaster = small(7, context_length=14, max_steps=1, calibrate=True).fit(frame)
    assert time.perf_counter() - began < 20
    forecast = forecaster.predict(level=80)
    assert len(forecast) == 7 * n and np.isfinite(forecast[NAME]).all()


@pytest.mark.slow
def test_spawned_workers(make_panel, tmp_path):
    make_panel(LEVELS, n=80).to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "script.py").write_text(
        "import multiprocessing, pandas as pd; from tsformer import TransformerForecaster as F\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    x = pd.read_csv('x.csv', parse_dates=['ds'])\n"
        "    size = dict(context_length=14, d_model=16, nhead=2, max_steps=5, verbose=False)\n"
        "    a, b = (F(5, num_workers=n, **size).fit(x).predict() for n in (0, 2))\n"
        "    assert a.equals(b) and not multiprocessing.active_children()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "script.py"], cwd=tmp_path, check=True, timeout=300)
