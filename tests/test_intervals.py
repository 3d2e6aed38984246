"""Intervals of the estimator: those that calibration gives, and what is said where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tsformer
from tsformer import SeasonalNaive, backtest
from tsformer.data.panel import to_panel
from tsformer.evaluation.arrays import rows_at
from tsformer.fitting import calibration_windows
from tsformer.plan import make_plan

NAME = "TransformerForecaster"


def restless(n: int = 560, seed: int = 0) -> pd.DataFrame:
    """Eight weekly waves whose noise differs from series to series, and from day to day within the week."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    deviations = np.geomspace(0.5, 20, 8)
    noise = [d * (1 + 0.6 * np.sin(2 * np.pi * t / 7)) * rng.standard_t(5, size=n) for d in deviations]
    parts = [
        pd.DataFrame({"unique_id": f"s{i}", "ds": pd.date_range("2024-01-01", periods=n), "y": 5 * i + d * w})
        for i, (d, w) in enumerate(zip(deviations, [3 * np.sin(2 * np.pi * t / 7)] * 8, strict=True))
    ]
    return pd.concat(parts, ignore_index=True).assign(y=lambda frame: frame.y + np.concatenate(noise))


@pytest.fixture
def calibrated(small):
    return lambda h=7, **changes: small(h, **(dict(calibrate=True) | changes))


@pytest.mark.parametrize("loss", ["mae", "quantile"])
def test_intervals_cover_as_they_say(calibrated, loss):
    panel = to_panel(restless())
    begin = panel.lengths - 160
    forecaster = calibrated(
        loss=loss, validation_size=130, max_steps=100, learning_rate=5e-3, quantiles=[0.025, 0.1, 0.5, 0.9, 0.975]
    ).fit_panel(panel.rows(0, begin))
    series = np.repeat(np.arange(8), 150)
    cutoffs = begin[series] + np.tile(np.arange(150), 8)
    truth = rows_at(panel, series, cutoffs, 7)
    columns = forecaster.forecast_columns(panel, series, cutoffs, 7, level=[80, 95])
    for level in (80, 95):
        inside = (truth >= columns[f"-lo-{level}"]) & (truth <= columns[f"-hi-{level}"])
        assert abs(100 * inside.mean() - level) < 3
    # The quiet series and the wild one have intervals of their own size.
    width = (columns["-hi-80"] - columns["-lo-80"]).mean(axis=(1, 2))
    assert width[series == 7].mean() > 20 * width[series == 0].mean()


def test_ends_of_intervals_are_quantiles(calibrated, make_panel):
    forecaster = calibrated(validation_size=0.3).fit(make_panel({"a": 5.0, "b": 50.0}))
    by_level = forecaster.predict(level=[80, 90])
    by_quantile = forecaster.predict(quantiles=[0.05, 0.1, 0.5, 0.9, 0.95])
    assert list(by_level) == ["unique_id", "ds", *(f"{NAME}{s}" for s in ("", "-lo-80", "-hi-80", "-lo-90", "-hi-90"))]
    pd.testing.assert_frame_equal(by_quantile[list(by_level)], by_level)
    np.testing.assert_array_equal(by_quantile[f"{NAME}-median"], by_quantile[NAME])
    ordered = by_quantile[[f"{NAME}{s}" for s in ("-lo-90", "-lo-80", "", "-hi-80", "-hi-90")]]
    assert (np.diff(ordered, axis=1) > 0).all()
    middle = (by_level[f"{NAME}-lo-80"] + by_level[f"{NAME}-hi-80"]) / 2
    np.testing.assert_allclose(middle, by_level[NAME])


def test_calibration_leaves_the_forecast_alone(calibrated, small, make_panel):
    frame = make_panel({"a": 5.0})
    pd.testing.assert_frame_equal(calibrated().fit(frame).predict(), small().fit(frame).predict())
    plain, corrected = (
        small(loss="quantile", calibrate=on).fit(frame).predict(level=80, quantiles=[0.5]) for on in (False, True)
    )
    np.testing.assert_array_equal(corrected[f"{NAME}-median"], plain[f"{NAME}-median"])
    assert not np.allclose(corrected[f"{NAME}-hi-80"], plain[f"{NAME}-hi-80"])


def test_intervals_keep_the_size_of_the_data(calibrated, make_panel):
    frame = make_panel({"a": 5.0})
    forecaster = calibrated(validation_size=0.3).fit(frame)
    one, other = (forecaster.predict(frame.assign(y=frame.y * f + 7), level=80) for f in (1, 1000))
    widths = [f[f"{NAME}-hi-80"] - f[f"{NAME}-lo-80"] for f in (one, other)]
    np.testing.assert_allclose(widths[1], 1000 * widths[0], rtol=1e-3)


def test_constants_have_intervals_without_width(calibrated, make_panel):
    frame = pd.concat([make_panel({"flat": 7.0}, amplitude=0, noise=0), make_panel({"wave": 100.0})])
    forecast = calibrated(validation_size=0.3).fit(frame).predict(level=80)
    flat = forecast[forecast.unique_id == "flat"]
    assert (flat[[NAME, f"{NAME}-lo-80", f"{NAME}-hi-80"]] == 7.0).all(axis=None)


@pytest.mark.parametrize("loss", ["mae", "quantile"])
def test_a_file_keeps_the_calibration(calibrated, make_panel, tmp_path, loss):
    forecaster = calibrated(loss=loss, validation_size=0.3).fit(make_panel({"a": 5.0, "b": 50.0}))
    again = tsformer.load(forecaster.save(tmp_path / "model"))
    pd.testing.assert_frame_equal(again.predict(level=[80, 90]), forecaster.predict(level=[80, 90]))
    assert again.calibrate is True


def test_validation_rows_alone_calibrate(calibrated, make_panel):
    frame = make_panel({"a": 5.0, "b": 50.0}, n=150)
    forecasters = calibrated(validation_size=30, max_steps=None, max_epochs=1), calibrated(validation_size=30)
    is_last = frame.groupby("unique_id").cumcount() >= 120
    rng = np.random.default_rng(0)
    wild = frame.assign(y=frame.y + is_last * rng.normal(0, 50, len(frame)))
    calm, louder = (f._fitted.calibration.margins for f in (forecasters[0].fit(frame), forecasters[1].fit(wild)))
    assert (louder[79] > 1.5 * calm[79]).all()  # of 80 %


def test_validation_shorter_than_the_horizon(calibrated, make_panel):
    forecaster = calibrated(20, validation_size=5).fit(make_panel({f"s{i}": 10.0 * i for i in range(6)}))
    forecast = forecaster.predict(level=80)
    assert np.isfinite(forecast.iloc[:, 2:]).all(axis=None)
    assert (forecast[f"{NAME}-lo-80"] < forecast[f"{NAME}-hi-80"]).all()


def test_wide_data_are_calibrated_on_fewer_windows(calibrated, make_panel, monkeypatch):
    monkeypatch.setattr("tsformer.fitting.CALIBRATION_NUMBERS", 7 * 6)
    panel = to_panel(make_panel({"a": 5.0, "b": 50.0}))
    plan = make_plan(panel, calibrated().get_params())
    series, cutoffs, truth = calibration_windows(panel, panel.lengths - 30, plan)
    assert truth.shape == (6, 7, 1) and series.tolist() == [0, 0, 0, 1, 1, 1]
    assert cutoffs.tolist() == [90, 102, 114, 95, 107, 119]
    assert np.isnan(truth[-1]).sum() == 6  # the last window has but its first step


def test_calibration_is_refused_before_training(calibrated, make_panel):
    frame = make_panel({"a": 5.0})
    with pytest.raises(ValueError, match="calibrate=True .* validation_size=0"):
        calibrated(validation_size=0, patience=None).fit(frame)
    with pytest.raises(ValueError, match="calibrate=True needs quantiles that are the two ends"):
        calibrated(loss="quantile", quantiles=[0.1, 0.5]).fit(frame)
    with pytest.raises(TypeError, match="calibrate must be True or False"):
        calibrated(calibrate="yes").fit(frame)
    unseen = frame.assign(y=frame.y.where(frame.index < 100))
    with pytest.raises(ValueError, match="calibrate=True .* none of them has an observed value"):
        calibrated(validation_size=20).fit(unseen)
    with pytest.raises(ValueError, match="calibrate=True .* a target that varies"):
        calibrated().fit(frame.assign(y=3.0))


def test_intervals_that_there_are_not(small, calibrated, make_panel):
    frame = make_panel({"a": 5.0})
    with pytest.raises(ValueError, match="calibrate=True, loss='quantile' or a distribution"):
        small().fit(frame).predict(level=80)
    few = calibrated(1, validation_size=5).fit(frame)
    with pytest.raises(ValueError, match="95 % interval needs more validation errors .* the widest is 83 %"):
        few.predict(level=95)
    with pytest.raises(ValueError, match="lies outside the trained ones"):
        calibrated(loss="quantile", quantiles=[0.1, 0.9]).fit(frame).predict(level=95)


@pytest.mark.parametrize("level", [True, np.True_, [80, True]])
def test_true_is_no_level(calibrated, make_panel, level):
    with pytest.raises(TypeError, match="level must be a number"):
        calibrated().fit(make_panel({"a": 5.0})).predict(level=level)


def test_distributions_have_intervals_of_their_own(small, make_panel):
    with pytest.raises(ValueError, match="calibrate=True is for point and quantile losses"):
        small(loss="normal", calibrate=True).fit(make_panel({"a": 5.0}))


def test_targets_named_like_intervals(calibrated, wave):
    frame = pd.DataFrame({"y": wave(100), "y-lo-80": wave(100, level=5), "y-median": wave(100, level=-5)})
    forecaster = calibrated(validation_size=0.3).fit(frame)
    assert list(forecaster.predict()) == list(frame)
    assert list(forecaster.predict(level=60))[:3] == ["y", "y-lo-60", "y-hi-60"]
    for asked in (dict(level=80), dict(quantiles=[0.5])):
        with pytest.raises(ValueError, match="has the name that the forecast of 'y' gives to a column"):
            forecaster.predict(**asked)


def test_backtests_calibrate_before_each_cut_off(calibrated, make_panel):
    frame = make_panel({"a": 100.0}, n=140)
    model = calibrated(5, validation_size=0.3)
    result = backtest([model, SeasonalNaive(5)], frame, windows=2, level=80, refit=True)
    tampered = frame.assign(y=frame.y.where(frame.index < 130, -1e6))
    again = backtest(model, tampered, windows=2, level=80, refit=True)
    columns = [NAME, f"{NAME}-lo-80", f"{NAME}-hi-80"]
    pd.testing.assert_frame_equal(result[columns][:5], again[columns][:5])
    by_hand = calibrated(5, validation_size=0.3).fit(frame[:135]).predict(level=80)
    np.testing.assert_array_equal(result[columns][5:], by_hand[columns])


def test_intervals_stay_in_the_range_of_the_transform(calibrated):
    values = np.random.default_rng(0).gamma(1, 1, 300) + 0.01
    for loss in ("mae", "quantile"):
        forecaster = calibrated(loss=loss, target_transform="box_cox", validation_size=0.4, max_steps=3).fit(values)
        assert (forecaster.predict(level=80) >= 0).all(axis=None), loss


def test_errors_at_rows_of_no_weight_do_not_calibrate(calibrated, make_panel):
    frame = make_panel({"a": 5.0}).assign(w=1.0)
    late = frame.index[-10:-6]
    spoilt = frame.assign(y=frame.y.mask(frame.index.isin(late), 1e6), w=frame.w.mask(frame.index.isin(late), 0.0))
    width = [
        calibrated(1, weight_col="w", validation_size=20, max_steps=3)
        .fit(data)
        .predict(frame, level=50)
        .iloc[:, -1]
        .max()
        for data in (frame, spoilt)
    ]
    assert width[1] < 100 * width[0]
