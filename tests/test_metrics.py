from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tsformer import metrics


def test_point_scores_by_hand():
    truth, forecast = np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 0.0])
    assert metrics.mae(truth, forecast) == pytest.approx(5 / 3)
    assert metrics.mse(truth, forecast) == pytest.approx(13 / 3)
    assert metrics.rmse(truth, forecast) == pytest.approx(math.sqrt(13 / 3))


def test_missing_truth_is_skipped_and_missing_forecast_is_not():
    truth = np.array([1.0, np.nan, 3.0])
    assert metrics.mae(truth, np.array([2.0, 100.0, 3.0])) == 0.5
    assert metrics.mae(truth, np.array([2.0, np.nan, 3.0])) == 0.5
    assert math.isnan(metrics.mae(truth, np.array([np.nan, 0.0, 3.0])))
    assert math.isnan(metrics.mse(np.array([np.nan]), np.array([1.0])))


def test_pinball_weighs_both_sides():
    truth = np.array([10.0, 10.0])
    assert metrics.pinball(truth, np.array([8.0, 8.0]), 0.9) == pytest.approx(1.8)
    assert metrics.pinball(truth, np.array([12.0, 12.0]), 0.9) == pytest.approx(0.2)
    assert metrics.pinball(truth, np.array([7.0, 12.0]), 0.5) == metrics.mae(truth, np.array([7.0, 12.0])) / 2


def test_seasonal_scale_stays_inside_each_series():
    values = np.array([0.0, 1.0, 3.0, 100.0, 105.0])[:, None]
    scale = metrics.seasonal_scale(values, np.array([0, 3, 5]), 1)
    np.testing.assert_allclose(scale, [[1.5], [5.0]])
    # A season longer than the series, or than all of them, has no pair.
    scale = metrics.seasonal_scale(values, np.array([0, 3, 5]), 2)
    np.testing.assert_array_equal(scale, [[3.0], [np.nan]])
    assert np.isnan(metrics.seasonal_scale(values, np.array([0, 3, 5]), 9)).all()


def test_seasonal_scale_needs_both_ends_of_a_pair():
    values = np.array([0.0, np.nan, 4.0, 5.0, np.nan])[:, None]
    assert metrics.seasonal_scale(values, np.array([0, 5]), 1).item() == 1.0
    assert metrics.seasonal_scale(values, np.array([0, 5]), 2).item() == 4.0


def random_windows(seed: int = 0):
    rng = np.random.default_rng(seed)
    truth, forecast = rng.normal(size=(50, 6, 2)), rng.normal(size=(50, 6, 2))
    truth[rng.random(truth.shape) < 0.2] = np.nan
    return rng.integers(0, 3, 50), truth, forecast


def test_sums_do_not_depend_on_the_batches():
    series, truth, forecast = random_windows()
    whole, parts = metrics.ErrorSums(3, 2), metrics.ErrorSums(3, 2)
    whole.add(series, truth, forecast)
    for i in range(0, 50, 7):
        parts.add(series[i : i + 7], truth[i : i + 7], forecast[i : i + 7])
    np.testing.assert_allclose(whole.mae, parts.mae)
    np.testing.assert_allclose(whole.rmse, parts.rmse)
    chosen = series == 1
    assert whole.mae[1, 0] == pytest.approx(metrics.mae(truth[chosen, :, 0], forecast[chosen, :, 0]))
    assert whole.rmse[1, 1] == pytest.approx(metrics.rmse(truth[chosen, :, 1], forecast[chosen, :, 1]))


def test_standardised_is_the_plain_mean_on_standardised_data():
    _, truth, forecast = random_windows()
    deviation = np.array([[2.0, 0.5]])
    sums = metrics.ErrorSums(1, 2)
    sums.add(np.zeros(50, dtype=int), truth, forecast)
    expected = {
        "mse": pytest.approx(metrics.mse(truth / deviation, forecast / deviation)),
        "mae": pytest.approx(metrics.mae(truth / deviation, forecast / deviation)),
    }
    assert sums.standardised(deviation) == expected


def test_scores_by_target_of_a_panel():
    # Two series; the second has three windows and errors ten times as large.
    sums = metrics.ErrorSums(2, 2)
    sums.add(
        np.array([0, 1, 1, 1]), np.zeros((4, 1, 2)), np.array([[1, 2], [10, 20], [10, 20], [10, 20]])[:, None] * 1.0
    )
    deviation, season = np.array([[1.0, 1.0], [5.0, 40.0]]), np.array([[2.0, 2.0], [2.0, 20.0]])
    scores = sums.by_target(("a", "b"), deviation, season)
    assert scores["a"] == {"mae": 31 / 4, "rmse": math.sqrt(301 / 4), "mase": (0.5 + 5.0) / 2}
    assert scores["b"]["mase"] == (1.0 + 1.0) / 2
    # By series first, then over series, then over targets.
    assert scores["mean"]["mae"] == pytest.approx(((1 + 2) / 2 + (2 + 0.5) / 2) / 2)
    assert scores["mean"]["mase"] == pytest.approx((2.75 + 1.0) / 2)


def test_zero_scale_is_null():
    sums = metrics.ErrorSums(1, 2)
    sums.add(np.array([0]), np.zeros((1, 3, 2)), np.ones((1, 3, 2)))
    constant = np.zeros((1, 2))
    scores = sums.by_target(("a", "b"), constant, constant)
    assert scores["a"] == {"mae": 1.0, "rmse": 1.0, "mase": None}
    assert scores["mean"] == {"mae": None, "rmse": None, "mase": None}
    assert "NaN" not in json.dumps(scores)
    assert sums.standardised(constant) == {"mse": None, "mae": None}
    # A constant target does not take the others' mean away.
    assert sums.by_target(("a", "b"), np.array([[0.0, 2.0]]), constant)["mean"]["mae"] == 0.5


def test_nothing_observed_is_null():
    sums = metrics.ErrorSums(1, 1)
    sums.add(np.array([0]), np.full((1, 3, 1), np.nan), np.ones((1, 3, 1)))
    unit = np.ones((1, 1))
    assert set(sums.by_target(("a",), unit, unit)["a"].values()) == {None}


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="shape"):
        metrics.ErrorSums(1, 1).add(np.array([0]), np.zeros((1, 3, 1)), np.zeros((1, 2, 1)))
