"""Closed-form forecasts: the maps that ridge regression finds, their rollout, and the last season."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.experts import linear_forecast, linear_maps, moments, seasonal_forecast

L, P = 24, 4


def windows(values: np.ndarray, length: int = L, patch: int = P) -> np.ndarray:
    rows = np.lib.stride_tricks.sliding_window_view(values, length + patch)
    return rows - rows[:, length - 1 : length]


def maps(values: np.ndarray) -> list[list[np.ndarray]]:
    rows = windows(values)
    return list(linear_maps(moments(iter([(rows, np.ones(len(rows)))]), L + P), P, P))


def autoregression(n: int, seed: int = 0) -> np.ndarray:
    """x_t = 1.2 x_(t-1) - 0.5 x_(t-2) + noise."""
    noise, x = np.random.default_rng(seed).normal(size=n), np.zeros(n)
    for t in range(2, n):
        x[t] = 1.2 * x[t - 1] - 0.5 * x[t - 2] + noise[t]
    return x


def test_moments_weigh_rows_and_do_not_depend_on_chunks():
    rows, weight = np.random.default_rng(0).normal(size=(50, 6)), np.arange(50.0)
    whole = moments(iter([(rows, weight)]), 6)
    parts = moments(iter([(rows[:7], weight[:7]), (rows[7:], weight[7:])]), 6)
    np.testing.assert_allclose(parts, whole)
    np.testing.assert_allclose(whole, np.cov(rows.T, aweights=weight, ddof=0) + _mean_product(rows, weight))
    assert (moments(iter([]), 6) == 0).all()


def _mean_product(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    mean = np.average(rows, axis=0, weights=weight)
    return np.outer(mean, mean)


def test_a_map_is_ridge_regression_of_centred_windows():
    values = autoregression(400)
    rows = windows(values)
    x, y = rows[:, :L], rows[:, L:]
    for found, centre in zip(maps(values), (x.mean(1), x[:, -1]), strict=True):
        centred, target = x - centre[:, None], y - centre[:, None]
        inner = centred.T @ centred / len(x) + 0.01 * np.eye(L)
        expected = centred @ np.linalg.solve(inner, centred.T @ target / len(x)) + centre[:, None]
        assert min(np.abs(x @ weights - expected).max() for weights in found) < 1e-9


def test_a_direct_map_is_made_like_one_of_a_patch_and_needs_no_rollout():
    values, horizon = autoregression(400), 3 * P
    rows = windows(values, L, horizon)
    direct = list(linear_maps(moments(iter([(rows, np.ones(len(rows)))]), L + horizon), horizon, P))
    patch = list(linear_maps(moments(iter([(rows[:, : L + P], np.ones(len(rows)))]), L + P), P, P))
    for whole, first in zip(sum(direct, []), sum(patch, []), strict=True):
        np.testing.assert_allclose(whole[:, :P], first, atol=1e-10)  # each step has a regression of its own
        context = values[None, -L:]
        np.testing.assert_allclose(linear_forecast(context, whole, horizon), context @ whole, atol=0.5)


def test_columns_sum_to_one_even_without_rows():
    for values in (autoregression(300), np.empty(0)):
        found = list(linear_maps(moments(iter([]), L + P), P, P)) if not len(values) else maps(values)
        for weights in sum(found, []):
            np.testing.assert_allclose(weights.sum(0), 1.0)


def test_an_autoregression_is_learned_and_rolled_out():
    values = autoregression(20_000)
    starts = np.arange(15_000, 19_900)
    context, truth = values[starts[:, None] + np.arange(-L, 0)], values[starts[:, None] + np.arange(10)]
    best = [context[:, -2], context[:, -1]]
    for _ in range(10):
        best.append(1.2 * best[-1] - 0.5 * best[-2])
    forecast = linear_forecast(context, maps(values[:15_000])[0][2], 10)
    # No map that shifts with the data can know that the level is 0.
    assert np.abs(forecast - truth).mean() < 1.08 * np.abs(np.stack(best[2:], 1) - truth).mean()


def test_a_shorter_rollout_is_the_beginning_of_a_longer_one():
    values = autoregression(500)
    weights, context = maps(values)[1][3], values[None, -L:]
    np.testing.assert_array_equal(linear_forecast(context, weights, 50)[:, :7], linear_forecast(context, weights, 7))


def test_rollouts_shift_and_scale_with_the_data():
    values = autoregression(500)
    weights, context = maps(values)[0][3], values[None, -L:]
    moved = linear_forecast(1e6 + 1e3 * context, weights, 30)
    np.testing.assert_allclose(moved, 1e6 + 1e3 * linear_forecast(context, weights, 30), rtol=1e-12)
    assert (linear_forecast(np.full((1, L), 0.1), weights, 30) == 0.1).all()


def test_an_unstable_map_does_not_run_away_and_a_trend_goes_on():
    explosive = np.zeros((L, P))
    explosive[-1] = 3.0
    explosive[-2] = -2.0
    context = np.arange(float(L))[None]
    assert np.abs(linear_forecast(context, explosive, 400)).max() < 30 * L
    trend = np.zeros((L, P))
    trend[-1], trend[-2] = 1 + np.arange(1, P + 1), -np.arange(1, P + 1)
    np.testing.assert_allclose(linear_forecast(context, trend, 200)[0], np.arange(L, L + 200.0))


def test_rollouts_go_on_from_given_values():
    weights = np.zeros((L, P))
    weights[-1] = 1.0  # repeat the last value
    given = np.full((1, 10), np.nan)
    given[0, 3] = 7.0
    np.testing.assert_array_equal(linear_forecast(np.ones((1, L)), weights, 10, given)[0], [1, 1, 1] + [7] * 7)
    given[0, 3], given[0, 1] = np.nan, 5.0
    season = seasonal_forecast(np.array([[0.0, 1.0, 2.0]]), 3, 7, given[:, :7])
    np.testing.assert_array_equal(season[0], [0, 5, 2, 0, 5, 2, 0])


def test_given_values_of_a_bounded_rollout():
    """Where the map runs away, its own values change nothing, and others nothing before them."""
    context, weights = np.linspace(0.0, 1.0, L)[None] ** 2, np.zeros((L, P))
    weights[-1], weights[-2] = 1 + 2 * np.arange(1, P + 1), -2 * np.arange(1, P + 1)  # twice the slope
    free = linear_forecast(context, weights, 40)
    assert free[0, -1] == pytest.approx(1 + (1 + 40 / L))  # where the bound is
    for step in (0, 12, 39):
        given = np.full((1, 40), np.nan)
        given[0, step] = free[0, step]
        np.testing.assert_allclose(linear_forecast(context, weights, 40, given), free, rtol=1e-12)
        given[0, step] *= 3
        moved = linear_forecast(context, weights, 40, given)
        np.testing.assert_array_equal(moved[0, :step], free[0, :step])
        assert (moved[0, step:] >= free[0, step:]).all()


@pytest.mark.parametrize(("period", "expected"), [(1, [3, 3, 3, 3, 3]), (2, [2, 3, 2, 3, 2]), (4, [0, 1, 2, 3, 0])])
def test_the_last_season_is_repeated(period, expected):
    np.testing.assert_array_equal(seasonal_forecast(np.array([[0.0, 1.0, 2.0, 3.0]]), period, 5)[0], expected)
