from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tsformer import RepeatLast, RidgeForecaster, SeasonalNaive
from tsformer.data.panel import to_panel
from tsformer.evaluation.arrays import forward_fill, rows_at

ALL = [RepeatLast, SeasonalNaive, RidgeForecaster]


def hourly(n: int = 200, *, seed: int = 0, channels: tuple[str, ...] = ("a", "b")) -> pd.DataFrame:
    """A wide frame with a daily season and noise."""
    rng = np.random.default_rng(seed)
    season = np.sin(np.arange(n) * 2 * np.pi / 24)[:, None]
    values = season * np.arange(1, len(channels) + 1) + 0.1 * rng.normal(size=(n, len(channels)))
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=n, freq="h"), columns=list(channels))


def long_frame() -> pd.DataFrame:
    """Three daily series of different lengths and starts."""
    pieces = []
    for number, (name, n) in enumerate({"x": 60, "y": 40, "z": 9}.items()):
        ds = pd.date_range("2024-01-01", periods=n, freq="D") + pd.Timedelta(days=3 * number)
        pieces.append(pd.DataFrame({"unique_id": name, "ds": ds, "y": np.arange(n) % 7 + 10.0 * number}))
    return pd.concat(pieces, ignore_index=True)


def test_repeat_last_repeats_the_last_observed_value():
    frame = hourly(50)
    frame.iloc[-3:, 1] = np.nan
    forecast = RepeatLast(5).fit(frame).predict()
    assert (forecast["a"] == frame["a"].iloc[-1]).all()
    assert (forecast["b"] == frame["b"].iloc[-4]).all()
    assert forecast.index[0] == frame.index[-1] + pd.Timedelta(hours=1)


def test_seasonal_naive_repeats_the_last_season():
    frame = hourly(100)
    model = SeasonalNaive(30).fit(frame)
    assert model.season_length_ == 24
    expected = np.concatenate([frame.to_numpy()[-24:], frame.to_numpy()[-24:-18]])
    np.testing.assert_array_equal(model.predict().to_numpy(), expected)
    model = SeasonalNaive(4, season_length=3).fit(frame)
    np.testing.assert_array_equal(model.predict()["a"], frame["a"].iloc[[-3, -2, -1, -3]])


def test_ridge_finds_a_linear_recurrence():
    steps = np.arange(600)
    values = np.sin(steps * 0.3) + 0.5 * np.cos(steps * 0.11)
    model = RidgeForecaster(20, context_length=40, penalties=(1e-10,)).fit(values[:500])
    np.testing.assert_allclose(model.predict().iloc[:, 0], values[500:520], atol=1e-3)


def test_ridge_follows_level_and_scale():
    frame = hourly(300)
    scaled = frame * [100.0, 1e-3] + [1e6, -5.0]
    forecast = RidgeForecaster(6, context_length=48).fit(frame).predict()
    moved = RidgeForecaster(6, context_length=48).fit(scaled).predict()
    np.testing.assert_allclose(moved, forecast * [100.0, 1e-3] + [1e6, -5.0], rtol=1e-7)


def test_ridge_has_its_own_fit_for_each_horizon():
    frame = hourly(300)
    model = RidgeForecaster(6, context_length=48).fit(frame)
    assert set(model.fits_) == {6}
    np.testing.assert_allclose(
        model.predict(horizon=24), RidgeForecaster(24, context_length=48).fit(frame).predict(), rtol=1e-12
    )
    assert model.fits_[24].weights.shape == (48, 24)


def test_ridge_chooses_its_penalty_on_rows_it_does_not_learn_from():
    frame = hourly(400)
    changed = frame.copy()
    changed.iloc[-40:] += np.random.default_rng(1).normal(size=(40, 2))
    one = RidgeForecaster(6, context_length=24, penalties=(0.1,)).fit(frame)
    other = RidgeForecaster(6, context_length=24, penalties=(0.1,)).fit(changed)
    np.testing.assert_array_equal(one.fits_[6].weights, other.fits_[6].weights)
    assert RidgeForecaster(6, context_length=24, validation_size=0).fit(frame).fits_[6].penalty == 1e-3


def test_ridge_validates_on_fewer_rows_than_the_horizon():
    model = RidgeForecaster(48, context_length=24, validation_size=12).fit(hourly(300))
    assert model.predict().shape == (48, 2)


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_ridge_learns_around_missing_values(share):
    frame = hourly(800)
    holed = frame.mask(np.random.default_rng(0).random(frame.shape) < share)
    model, naive = RidgeForecaster(24, context_length=48).fit(holed), RepeatLast(24).fit(holed)
    after = hourly(848).iloc[800:]
    assert model.score(after) > 0.5 * naive.score(after)


@pytest.mark.parametrize("model", ALL)
def test_panel_in_panel_out(model):
    frame = long_frame()
    forecast = model(3).fit(frame).predict()
    assert list(forecast.columns) == ["unique_id", "ds", model.__name__]
    assert forecast["unique_id"].tolist() == ["x"] * 3 + ["y"] * 3 + ["z"] * 3
    last = frame.groupby("unique_id")["ds"].max()
    assert (forecast.groupby("unique_id")["ds"].min() == last + pd.Timedelta(days=1)).all()
    assert np.isfinite(forecast[model.__name__]).all()


@pytest.mark.parametrize("model", ALL)
def test_series_and_array(model):
    series = hourly(100)["a"]
    forecast = model(4).fit(series).predict()
    assert isinstance(forecast, pd.Series)
    assert forecast.name == "a"
    assert forecast.index[0] == series.index[-1] + pd.Timedelta(hours=1)
    forecast = model(4).fit(series.to_numpy()).predict()
    assert list(forecast.index) == [100, 101, 102, 103]


@pytest.mark.parametrize("model", ALL)
def test_history_given_at_predict(model):
    frame = hourly(400)
    fitted = model(6).fit(frame.iloc[:300])
    np.testing.assert_allclose(fitted.predict(frame.iloc[:300]), fitted.predict())
    assert fitted.predict(frame).index[0] == frame.index[-1] + pd.Timedelta(hours=1)
    assert np.isfinite(fitted.predict(frame.iloc[:5]).to_numpy()).all()  # shorter than any look-back
    assert fitted.predict(horizon=2).shape == (2, 2)


@pytest.mark.parametrize("model", ALL)
def test_only_rows_before_the_cutoff_count(model):
    frame = hourly(400)
    fitted = model(6).fit(frame.iloc[:300])
    future = frame.copy()
    future.iloc[350:] = 1e6
    window = np.zeros(3, dtype=int), np.array([310, 349, 350])
    one, other = (fitted.forecast_windows(to_panel(data), *window, 6) for data in (frame, future))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("model", ALL)
def test_a_window_alone_and_among_others(model, monkeypatch):
    frame = hourly(400)
    panel, fitted = to_panel(frame), model(6).fit(frame.iloc[:300])
    series, cutoffs = np.zeros(90, dtype=int), np.arange(300, 390)
    together = fitted.forecast_windows(panel, series, cutoffs, 6)
    alone = [fitted.forecast_windows(panel, series[i : i + 1], cutoffs[i : i + 1], 6)[0] for i in range(90)]
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    monkeypatch.setattr("tsformer.evaluation.arrays._CHUNK", 5000)
    np.testing.assert_allclose(fitted.forecast_windows(panel, series, cutoffs, 6), together, rtol=1e-10)


@pytest.mark.parametrize("model", ALL)
def test_missing_everywhere_in_the_look_back_gives_the_training_mean(model):
    frame = hourly(300)
    gap = frame.copy()
    gap["b"] = np.nan
    forecast = model(6).fit(frame).predict(gap)
    np.testing.assert_allclose(forecast["b"], frame["b"].mean())


@pytest.mark.parametrize("model", ALL)
def test_constant_series_stays_constant(model):
    frame = hourly(100)
    frame["a"] = 0.1
    np.testing.assert_array_equal(model(6).fit(frame).predict()["a"], 0.1)


@pytest.mark.parametrize("model", ALL)
def test_tiny_series(model):
    assert model(3).fit(np.array([1.0, 2.0])).predict().iloc[:, 0].notna().all()
    one = pd.Series([5.0], index=pd.date_range("2024-01-01", periods=1), name="y")
    assert model(3, freq="D").fit(one).predict().tolist() == [5.0] * 3


@pytest.mark.parametrize("model", ALL)
def test_scikit_learn_manners(model):
    original = model(3, freq="h", target_cols=["a"])
    assert clone(original).get_params() == original.get_params()
    with pytest.raises(NotFittedError):
        original.predict()
    frame = hourly(60)
    before = frame.copy()
    assert original.fit(frame, y=None) is original
    original.score(hourly(63).iloc[60:])
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("model", ALL)
def test_wrong_settings_are_named(model):
    with pytest.raises(ValueError, match="prediction_length must be at least 1"):
        model(0).fit(hourly(50))
    with pytest.raises(TypeError, match="horizon"):
        model(3).fit(hourly(50)).predict(horizon="long")
    with pytest.raises(ValueError, match="'b'"):
        model(3).fit(hourly(50).assign(b=np.nan))
    with pytest.raises(ValueError, match="'b'"):
        model(3).fit(hourly(50)).predict(hourly(50)[["a"]])


def test_forward_fill_stays_in_its_window():
    nan = np.nan
    context = np.array([[nan, 1.0, nan, 3.0, nan], [nan] * 5])[:, :, None]
    filled = forward_fill(context, np.array([7.0]))
    np.testing.assert_array_equal(filled[:, :, 0], [[1, 1, 1, 3, 3], [7] * 5])
    assert np.isnan(context[0, 0, 0])


def test_rows_outside_a_series_are_missing():
    panel = to_panel(long_frame())
    rows = rows_at(panel, np.array([1, 2]), np.array([-2, 7]), 4)[:, :, 0]
    np.testing.assert_array_equal(rows, [[np.nan, np.nan, 10, 11], [20.0, 21.0, np.nan, np.nan]])
