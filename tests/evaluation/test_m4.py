"""The protocol of the M4 competition, and its benchmark forecast `Naive2`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer import RepeatLast
from tsformer.data.datasets import load_dataset
from tsformer.data.panel import to_panel
from tsformer.evaluation.benchmarks import M4_PROTOCOLS, M4Protocol, evaluate_m4
from tsformer.evaluation.naive2 import Naive2, has_season, seasonal_factors
from tsformer.metrics import smape


def long_frame(**series) -> pd.DataFrame:
    parts = [pd.DataFrame({"unique_id": name, "ds": np.arange(len(y)), "y": y}) for name, y in series.items()]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("season_length", [4, 5])
def test_factors_of_a_season_without_noise(season_length):
    factors = np.linspace(0.5, 1.5, season_length)
    history = 40.0 * np.tile(factors, 6)[:-1]
    np.testing.assert_allclose(seasonal_factors(history, season_length), factors)


def test_season_is_taken_out_and_put_back():
    factors = np.array([0.5, 1.0, 2.0, 0.5])
    history = 10.0 * np.tile(factors, 10)
    history[-1] *= 3  # the last deseasonalised value is 30: that level goes on, in the season of the whole history
    season = seasonal_factors(history, 4)
    forecast = Naive2(6, season_length=4).fit(history).predict().iloc[:, 0]
    np.testing.assert_allclose(forecast, history[-1] / season[3] * season[[0, 1, 2, 3, 0, 1]])


def test_a_history_that_ends_within_a_season():
    history = 10.0 * np.tile([1.0, 2.0, 3.0], 10)[:-1]
    forecast = Naive2(3, season_length=3).fit(history).predict().iloc[:, 0]
    np.testing.assert_allclose(forecast, [30.0, 10.0, 20.0])


def test_season_that_does_not_count():
    noise = np.random.default_rng(0).normal(10, 1, 200)
    assert not has_season(noise, 7)
    wave = 10 + np.sin(np.arange(40) * 2 * np.pi / 7)
    assert has_season(wave, 7)
    assert not has_season(wave[:20], 7)  # fewer than three seasons
    assert not has_season(wave, 1) and not has_season(np.ones(40), 7)
    np.testing.assert_array_equal(seasonal_factors(wave - 10, 7), np.ones(7))  # values of 0 and below


def test_naive2_without_a_season_repeats_the_last_value():
    frame = long_frame(a=[3.0, 5.0, 4.0], b=[1.0, np.nan])
    forecast = Naive2(2).fit(frame).predict()
    assert forecast["Naive2"].tolist() == [4.0, 4.0, 1.0, 1.0]


def test_naive2_reads_nothing_after_the_cut_off():
    wave = 10 + np.sin(np.arange(60) * 2 * np.pi / 7)
    model = Naive2(7, season_length=7).fit(wave)
    window = np.zeros(1, dtype=int), np.array([40])
    changed = wave.copy()
    changed[40:] = 99.0
    before, after = (model.forecast_windows(to_panel(y), *window, 7) for y in (wave, changed))
    np.testing.assert_array_equal(before, after)


def test_smape():
    assert smape(np.array([1.0, 0.0, np.nan]), np.array([3.0, 0.0, 5.0])) == pytest.approx(50.0)
    assert np.isnan(smape(np.array([1.0]), np.array([np.nan])))


def test_scores_by_hand():
    panel = to_panel(long_frame(a=[1.0, 2.0, 4.0, 4.0, 8.0], b=[10.0, 20.0, 10.0, 30.0]), freq=1)
    protocol = M4Protocol(2, horizon=2, season_length=1, ridge_context=2)

    class Zero:
        def forecast_windows(self, panel, series, cutoffs, horizon):
            return np.zeros((len(series), horizon, 1))

    scores = evaluate_m4(
        {"RepeatLast": RepeatLast(2).fit_panel(panel.rows(0, panel.lengths - 2)), "z": Zero()}, panel, protocol
    )
    assert list(scores) == ["RepeatLast", "z", "Naive2"]
    assert scores["RepeatLast"] == scores["Naive2"]
    assert scores["Naive2"]["owa"] == 1.0
    smapes, mases = np.mean([0, 800 / 12, 2000 / 30, 2000 / 50]), np.mean([0, 4 / 1.5, 10 / 10, 10 / 10])
    assert scores["Naive2"]["smape"] == pytest.approx(smapes)
    assert scores["Naive2"]["mase"] == pytest.approx(mases)
    mase = np.mean([4 / 1.5, 8 / 1.5, 1, 3])
    assert scores["z"] == pytest.approx({"smape": 200, "mase": mase, "owa": (200 / smapes + mase / mases) / 2})


@pytest.mark.parametrize(
    ("series", "horizon", "words"),
    [
        (dict(a=np.arange(9.0)), 2, "2 series of one target, the data have 1"),
        (dict(a=np.arange(9.0), b=np.arange(2.0)), 2, "last 2 values of every series"),
        (dict(a=np.arange(9.0), b=[1.0, 2.0, np.nan, 3.0]), 2, "last 2 values of every series"),
        (dict(a=np.arange(9.0), b=np.arange(9.0)), 3, "forecasts 2 steps"),
    ],
)
def test_less_than_the_whole_benchmark_is_refused(series, horizon, words):
    protocol = M4Protocol(2, horizon=2, season_length=1, ridge_context=2)
    with pytest.raises(ValueError, match=words):
        protocol.check(to_panel(long_frame(**series), freq=1), horizon)


@pytest.mark.parametrize(("name", "record"), [("m4_hourly", (18.383, 2.395)), ("m4_weekly", (9.161, 2.777))])
def test_official_scores_of_naive2(outside_folder, name, record):
    panel = to_panel(load_dataset(name, outside_folder), freq=1)
    score = evaluate_m4({}, panel, M4_PROTOCOLS[name])["Naive2"]
    assert (round(score["smape"], 3), round(score["mase"], 3)) == record
