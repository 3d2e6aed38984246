"""Forecasts of transformed targets: in target units, medians by the inverse, means without its bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tsformer
from tsformer import TransformerForecaster
from tsformer.data.panel import to_panel

PERIOD, SIGMA = 6, 0.8


def log_normal(n: int, seed: int = 0) -> np.ndarray:
    """Logarithms of a wave and noise; the conditional mean is ``true_mean``."""
    logs = 2 + 0.5 * np.sin(2 * np.pi * np.arange(n) / PERIOD)
    return np.exp(logs + SIGMA * np.random.default_rng(seed).normal(size=n))


def true_median(steps: np.ndarray) -> np.ndarray:
    return np.exp(2 + 0.5 * np.sin(2 * np.pi * steps / PERIOD))


def fit(data, **changes) -> TransformerForecaster:
    chosen = dict(context_length=12, patch_length=6, d_model=16, nhead=2, num_encoder_layers=1, dim_feedforward=32)
    training = dict(
        scaling="standard", dropout=0.0, max_steps=100, learning_rate=1e-2, validation_size=0.2, verbose=False
    )
    return TransformerForecaster(6, **(chosen | training | changes)).fit(data)


def forecasts(model, data) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts (B, H) of the last 300 windows, and the steps they are of."""
    panel, cutoffs = to_panel(data), np.arange(len(data) - 306, len(data) - 6)
    values = model.forecast_windows(panel, np.zeros_like(cutoffs), cutoffs, 6)[..., 0]
    return values, cutoffs[:, None] + np.arange(6)


@pytest.mark.parametrize("changes", [dict(target_transform="log1p"), dict(scaling="asinh")])
def test_means_have_no_bias_of_the_inverse(changes):
    data = log_normal(1200)
    model = fit(data, loss="mse", **changes)
    values, steps = forecasts(model, data)
    true_mean = true_median(steps) * np.exp(SIGMA**2 / 2)
    assert values.mean() / true_mean.mean() == pytest.approx(1, abs=0.05)
    model._fitted = replace(model._fitted, errors=None)  # the inverse alone
    assert forecasts(model, data)[0].mean() / true_mean.mean() < 0.88


def test_medians_come_by_the_inverse_alone():
    data = log_normal(1200)
    model = fit(data, loss="mae", target_transform="log1p")
    values, steps = forecasts(model, data)
    assert model._fitted.errors is None
    assert np.median(values / true_median(steps)) == pytest.approx(1, abs=0.1)


def test_quantiles_stay_quantiles():
    data = log_normal(1200)
    model = fit(data, loss="quantile", quantiles=[0.1, 0.5, 0.9], target_transform="box_cox")
    panel, cutoffs = to_panel(data), np.arange(900, 1194)
    columns = model.forecast_columns(panel, np.zeros_like(cutoffs), cutoffs, 6, level=80)
    truth = data[cutoffs[:, None] + np.arange(6)][..., None]
    assert np.mean((columns["-lo-80"] < truth) & (truth < columns["-hi-80"])) == pytest.approx(0.8, abs=0.06)
    assert (columns["-lo-80"] < columns[""]).all() and (columns[""] < columns["-hi-80"]).all()


@pytest.mark.parametrize(("name", "loss"), [("log1p", "mae"), ("box_cox", "mse"), ("yeo_johnson", "mse")])
def test_files_histories_scores_and_backtests_are_in_target_units(name, loss, tmp_path):
    data = log_normal(240)
    frame = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=240), "y": data})
    model = fit(frame.iloc[:200], target_transform=name, loss=loss, max_steps=4)
    again = tsformer.load(model.save(tmp_path / "model"))
    assert again.target_transform == name
    pd.testing.assert_frame_equal(again.predict(), model.predict())
    pd.testing.assert_frame_equal(again.predict(frame.iloc[:200]), model.predict())
    forecast = model.predict(frame.iloc[:200])["y"]
    assert ((forecast > 0) & (forecast < 200)).all()

    error = np.abs(model.predict()["y"].to_numpy() - data[200:206]).mean()
    assert model.score(frame.iloc[200:206]) == pytest.approx(-error / data[:160].std())
    assert again.score(frame.iloc[200:206]) == model.score(frame.iloc[200:206])

    result = tsformer.backtest(model, frame, windows=2, step=20)
    column = result[result["cutoff"] == frame["ds"].iloc[233]]["TransformerForecaster"]
    np.testing.assert_allclose(column, model.predict(frame.iloc[:234])["y"], rtol=1e-6)


def test_units_do_not_matter_to_box_cox():
    data = log_normal(240)
    model, scaled = (fit(a * data, target_transform="box_cox", loss="mse", max_steps=3) for a in (1.0, 1000.0))
    np.testing.assert_allclose(scaled.predict()["y"], 1000 * model.predict()["y"], rtol=1e-3)


def test_a_wrong_history_is_refused():
    data = log_normal(120)
    model = fit(data, target_transform="box_cox", max_steps=1)
    with pytest.raises(ValueError, match="'box_cox' needs values above 0, and 1 are not, the first -3: column 'y', 7"):
        model.predict(np.where(np.arange(120) == 7, -3.0, data))


def test_without_validation_the_training_windows_serve():
    model = fit(log_normal(200), loss="mse", target_transform="log1p", max_steps=2, validation_size=0, patience=None)
    assert model._fitted.errors.shape == (200, 6, 1)
    few = fit(log_normal(100), loss="mse", target_transform="log1p", max_steps=2)
    assert few._fitted.errors.shape == (200, 1, 1)  # too few windows for each step to have its own
    assert np.isfinite(few.predict(horizon=30)).all(axis=None)


def test_linear_units_and_medians_need_no_smearing():
    for changes in (dict(loss="mse"), dict(loss="mae", scaling="asinh")):
        assert fit(log_normal(100), max_steps=1, **changes)._fitted.errors is None


def test_errors_at_rows_of_no_weight_are_not_smeared_over(small):
    t = np.arange(200)
    clean = pd.DataFrame({"y": 2 + np.sin(t / 3), "w": 1.0})
    spoilt = clean.copy()
    spoilt.loc[[150, 165], "y"], spoilt.loc[[150, 165], "w"] = 1000.0, 0.0
    options = dict(loss="mse", target_transform="log1p", validation_size=0.4, weight_col="w", max_steps=30)
    forecaster = small(4, **options).fit(spoilt)
    assert forecaster.predict(clean).y.max() < 5


def test_a_mean_that_does_not_exist_is_refused(small):
    with pytest.raises(ValueError, match="loss='student_t' with target_transform='log1p' has no mean"):
        small(loss="student_t", target_transform="log1p").fit(np.arange(1.0, 100.0))
    with pytest.raises(ValueError, match="loss='student_t' with scaling='asinh' has no mean"):
        small(loss="student_t", scaling="asinh").fit(np.arange(1.0, 100.0))
