from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tsformer import RepeatLast, RidgeForecaster, SeasonalNaive
from tsformer.data.panel import to_panel
from tsformer.evaluation.benchmarks import (
    PROTOCOLS,
    LongHorizonProtocol,
    evaluate_long_horizon,
    evaluate_windows,
    fit_baselines,
    split_70_10_20,
)
from tsformer.evaluation.rolling import window_errors

NAMES = ["SeasonalNaive", "RidgeForecaster", "RepeatLast"]


def make_panel(n: int = 400, channels: int = 2):
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(n) * np.pi / 12)[:, None] * np.arange(1, channels + 1) + rng.normal(size=(n, channels))
    values[rng.random(values.shape) < 0.05] = np.nan
    return to_panel(
        pd.DataFrame(values, columns=list("abc")[:channels], index=pd.date_range("2024", periods=n, freq="h"))
    )


def make_long_panel():
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(["x", "y", "z"], [60, 40, 5]),
            "ds": np.concatenate([pd.date_range("2024-01-01", periods=n) for n in (60, 40, 5)]),
            "y": np.random.default_rng(0).normal(size=105),
        }
    )
    return to_panel(frame)


def test_split_rounds_as_the_benchmarks_do():
    train, test = split_70_10_20(np.array([7588, 966, 10]))
    assert train.tolist() == [5311, 676, 7]
    assert test.tolist() == [7588 - 1517, 966 - 193, 8]
    for protocol in (PROTOCOLS["exchange"], PROTOCOLS["illness"]):
        assert split_70_10_20(protocol.n_rows) == (protocol.n_train, protocol.test_begin)


def test_scores_of_one_horizon():
    panel = make_panel()
    models = fit_baselines(panel.rows(0, 320), 12, context_length=48)
    scores = evaluate_windows(models, panel, 320, 12, train_end=280, progress=False)
    assert list(scores) == NAMES
    assert list(scores["RepeatLast"]) == ["a", "b", "mean"]
    # By hand: all 69 windows, observed truth only.
    values, errors = panel.values, []
    for cutoff in range(320, 400 - 12 + 1):
        seen = values[:cutoff, 0]
        errors.append(values[cutoff : cutoff + 12, 0] - seen[~np.isnan(seen)][-1])
    assert len(errors) == 69
    error = np.abs(np.concatenate(errors))
    score = scores["RepeatLast"]["a"]
    assert score["mae"] == pytest.approx(np.nanmean(error))
    assert score["rmse"] == pytest.approx(np.sqrt(np.nanmean(error**2)))
    assert score["mase"] == pytest.approx(score["mae"] / np.nanmean(np.abs(values[24:280, 0] - values[: 280 - 24, 0])))
    deviation = np.nanstd(values[:280], axis=0)
    expected = np.mean([scores["RepeatLast"][c]["mae"] / deviation[i] for i, c in enumerate("ab")])
    assert scores["RepeatLast"]["mean"]["mae"] == pytest.approx(expected)


def test_batches_change_nothing():
    panel = make_panel()
    models = fit_baselines(panel.rows(0, 320), 12, context_length=48)
    one, other = (evaluate_windows(models, panel, 320, 12, batch_size=size, progress=False) for size in (1000, 7))
    for name in models:
        assert one[name]["mean"] == pytest.approx(other[name]["mean"])


def test_panel_scores_only_series_with_room():
    panel = make_long_panel()
    models = {"RepeatLast": RepeatLast(7).fit_panel(panel)}
    errors = window_errors(models, panel, np.maximum(panel.lengths - 10, 1), (7,), progress=False)
    assert errors["RepeatLast"][7].count[:, 0].tolist() == [4 * 7, 4 * 7, 0]
    scores = evaluate_windows(models, panel, np.maximum(panel.lengths - 10, 1), 7, progress=False)
    assert scores["RepeatLast"]["mean"]["mae"] is not None


def test_no_test_window_says_what_to_do():
    panel = make_panel()
    with pytest.raises(ValueError, match="no series has the 24 test rows"):
        evaluate_windows({"RepeatLast": RepeatLast(24).fit_panel(panel)}, panel, 390, 24)


def test_undefined_scores_are_json_null():
    panel = to_panel(pd.DataFrame({"flat": np.ones(100)}, index=pd.date_range("2024", periods=100)))
    scores = evaluate_windows({"RepeatLast": RepeatLast(7).fit_panel(panel)}, panel, 80, 7, progress=False)
    assert scores["RepeatLast"]["flat"] == {"mae": 0.0, "rmse": 0.0, "mase": None}
    assert json.loads(json.dumps(scores, allow_nan=False))["RepeatLast"]["mean"]["mae"] is None


def test_several_horizons_equal_each_alone():
    panel = make_panel()
    models = fit_baselines(panel.rows(0, 320), 6, context_length=48)
    together = window_errors(models, panel, 320, (6, 12, 30), progress=False)
    for horizon in (6, 12, 30):
        alone = window_errors(models, panel, 320, (horizon,), progress=False)
        for name in models:
            np.testing.assert_allclose(together[name][horizon].mae, alone[name][horizon].mae)
            np.testing.assert_array_equal(together[name][horizon].count, alone[name][horizon].count)


def test_only_declared_forecasters_are_cut_from_the_longest():
    asked = []

    class Recorder(RepeatLast):
        def forecast_windows(self, panel, series, cutoffs, horizon):
            assert len(cutoffs)
            asked.append(horizon)
            return super().forecast_windows(panel, series, cutoffs, horizon)

    panel = make_panel()
    model = Recorder(6).fit_panel(panel)
    window_errors({"m": model}, panel, 320, (6, 30), progress=False)
    assert asked == [30]
    model.prefix_consistent = False
    window_errors({"m": model}, panel, 320, (6, 30), progress=False)
    assert asked == [30, 6, 30]
    asked.clear()  # 75 windows, of which the first 51 have 30 steps
    window_errors({"m": model}, panel, 320, (6, 30), progress=False, batch_size=17)
    assert asked == [6, 30, 6, 30, 6, 30, 6, 6]


def test_metrics_can_be_recomputed_from_the_forecasts():
    panel = make_panel()
    models = fit_baselines(panel.rows(0, 320), 12, context_length=48)
    frames = []
    scores = evaluate_windows(models, panel, 320, 12, batch_size=20, progress=False, on_forecasts=frames.append)
    frame = pd.concat(frames, ignore_index=True)
    assert list(frame.columns) == ["cutoff", "ds", "id", "target", "y", *NAMES]
    assert len(frame) == 69 * 12 * 2
    for name in NAMES:
        error = (frame["y"] - frame[name]).abs().groupby(frame["target"], observed=True).mean()
        for target in ("a", "b"):
            assert scores[name][target]["mae"] == pytest.approx(error[target])
    first = frame.iloc[0]
    assert first["cutoff"] == pd.Timestamp("2024-01-01") + pd.Timedelta(hours=319)
    assert first["ds"] - first["cutoff"] == pd.Timedelta(hours=1)


def test_forecasts_of_several_horizons_carry_it():
    panel = make_long_panel()
    frames = []
    models = {"RepeatLast": RepeatLast(2).fit_panel(panel)}
    window_errors(models, panel, panel.lengths - 3, (2, 3), progress=False, on_forecasts=frames.append)
    frame = pd.concat(frames)
    assert frame.groupby("horizon").size().to_dict() == {2: 3 * 2 * 2, 3: 3 * 1 * 3}
    assert set(frame["id"]) == {"x", "y", "z"}


def test_long_horizon_scores_are_on_standardised_data():
    panel = make_panel(channels=1)
    protocol = LongHorizonProtocol(200, 50, 100, horizons=(6, 12))
    model = RepeatLast(6).fit_panel(panel.rows(0, protocol.test_begin))
    scores = evaluate_long_horizon({"RepeatLast": model}, panel, protocol, progress=False)["RepeatLast"]
    assert list(scores) == ["6", "12"]
    assert list(scores["6"]) == ["mse", "mae"]
    sums = window_errors({"m": model}, panel.rows(0, 350), 250, (6,), progress=False)["m"][6]
    assert scores["6"]["mae"] == pytest.approx((sums.mae / np.nanstd(panel.values[:200])).item())
    with pytest.raises(ValueError, match="needs 350 rows, the data have 300"):
        evaluate_long_horizon({"m": model}, panel.rows(0, 300), protocol)


# Full test windows; mean squared and absolute error on standardised data.
REPEAT = {
    "etth1": [(1.294, 0.713), (1.325, 0.733), (1.330, 0.746), (1.335, 0.755)],
    "etth2": [(0.432, 0.422), (0.534, 0.473), (0.597, 0.511), (0.594, 0.519)],
    "exchange": [(0.081, 0.196), (0.167, 0.289), (0.306, 0.398), (0.810, 0.676)],
    "illness": [(6.213, 1.622), (7.714, 1.906), (7.851, 1.952), (6.885, 1.788)],
}
SEASONAL = {
    "etth1": [(0.512, 0.433), (0.581, 0.469), (0.650, 0.501), (0.655, 0.514)],
    "etth2": [(0.391, 0.380), (0.482, 0.429), (0.532, 0.466), (0.525, 0.474)],
    "illness": [(2.564, 1.004), (2.266, 0.957), (2.142, 0.941), (1.917, 0.939)],
}
RIDGE = {
    "etth1": [(0.370, 0.391), (0.403, 0.411), (0.425, 0.425), (0.421, 0.443)],
    "etth2": [(0.272, 0.334), (0.334, 0.374), (0.358, 0.395), (0.385, 0.422)],
    "illness": [(2.111, 0.949), (2.067, 0.949), (2.063, 0.957), (2.115, 0.974)],
}


def close_to(scores, record):
    found = [(score["mse"], score["mae"]) for score in scores.values()]
    np.testing.assert_allclose(found, record, rtol=0, atol=0.00051)  # three decimals


def protocol_panel(read_outside, name):
    return to_panel(read_outside(name), time_col="ds"), PROTOCOLS[name]


@pytest.mark.parametrize("name", ["illness", "exchange", "etth1", pytest.param("etth2", marks=pytest.mark.slow)])
def test_naive_records(read_outside, name):
    panel, protocol = protocol_panel(read_outside, name)
    training = panel.rows(0, protocol.test_begin)
    models = {"RepeatLast": RepeatLast(96).fit_panel(training)}
    if name in SEASONAL:
        models["SeasonalNaive"] = SeasonalNaive(96, season_length=protocol.season_length).fit_panel(training)
    scores = evaluate_long_horizon(models, panel, protocol, progress=False)
    close_to(scores["RepeatLast"], REPEAT[name])
    if name in SEASONAL:
        close_to(scores["SeasonalNaive"], SEASONAL[name])


@pytest.mark.parametrize("name", ["illness", *(pytest.param(n, marks=pytest.mark.slow) for n in ("etth1", "etth2"))])
def test_ridge_records(read_outside, name):
    panel, protocol = protocol_panel(read_outside, name)
    ridge = RidgeForecaster(
        protocol.horizons[0], context_length=protocol.ridge_context, validation_size=protocol.n_validation
    ).fit_panel(panel.rows(0, protocol.test_begin))
    scores = evaluate_long_horizon({"RidgeForecaster": ridge}, panel, protocol, progress=False)
    close_to(scores["RidgeForecaster"], RIDGE[name])


@pytest.mark.slow
def test_air_quality_controls(read_outside):
    targets = ["pm25", "dew_point", "temperature", "pressure", "wind_speed"]
    panel = to_panel(read_outside("air_quality"), target_cols=targets)
    train_end, test_begin = (int(row) for row in split_70_10_20(panel.lengths[0]))
    models = fit_baselines(panel.rows(0, test_begin), 24, validation_size=test_begin - train_end)
    scores = evaluate_windows(models, panel, test_begin, 24, train_end=train_end, progress=False)
    assert 0.300 < scores["RidgeForecaster"]["mean"]["mae"] < 0.307
    assert 0.41 < scores["SeasonalNaive"]["mean"]["mae"] < 0.42
