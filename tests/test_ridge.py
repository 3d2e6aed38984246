from __future__ import annotations

import numpy as np
import pytest

from tsformer.ridge import PENALTIES, fit_ridge, window_moments


def make_rows(n: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8))
    weights = rng.normal(size=(8, 3))
    return x, x @ weights + 0.5 * rng.normal(size=(n, 3))


def moments_of(x, y):
    return window_moments([(x, y)], x.shape[1], y.shape[1])


def test_weights_solve_the_normal_equations():
    x, y = make_rows()
    for penalty in (1e-6, 1e-2, 1.0):
        expected = np.linalg.solve(x.T @ x / len(x) + penalty * np.eye(8), x.T @ y / len(x))
        fit = fit_ridge(moments_of(x, y), penalties=[penalty])
        assert fit.penalty == penalty
        np.testing.assert_allclose(fit.weights, expected, rtol=1e-6, atol=1e-9)


def test_chunks_change_nothing():
    x, y = make_rows()
    chunked = window_moments(((x[i : i + 33], y[i : i + 33]) for i in range(0, len(x), 33)), 8, 3)
    for one, other in zip(moments_of(x, y), chunked, strict=True):
        np.testing.assert_allclose(one, other)


def test_penalty_is_the_best_on_validation():
    x, y = make_rows(30)
    x_new, y_new = make_rows(200, seed=1)
    y_new = x_new @ np.linalg.lstsq(x, y, rcond=None)[0] * 0.7  # shrunken weights are better there
    fit = fit_ridge(moments_of(x, y), moments_of(x_new, y_new))
    errors = {}
    for penalty in PENALTIES:
        weights = fit_ridge(moments_of(x, y), penalties=[penalty]).weights
        errors[penalty] = np.square(y_new - x_new @ weights).mean()
    assert fit.penalty == min(errors, key=errors.__getitem__)
    assert fit.penalty > min(PENALTIES)


def test_a_constant_input_does_no_harm():
    x, y = make_rows()
    x[:, -1] = 0.0  # the last value, after centring on it
    fit = fit_ridge(moments_of(x, y), moments_of(x, y))
    assert np.isfinite(fit.weights).all()
    np.testing.assert_allclose(fit.weights[-1], 0.0, atol=1e-12)


def test_without_rows_the_weights_are_zero():
    moments = window_moments([], 4, 2)
    fit = fit_ridge(moments, moments)
    assert fit.weights.shape == (4, 2)
    assert not fit.weights.any()


def test_penalties_must_be_positive():
    x, y = make_rows()
    with pytest.raises(ValueError, match="above 0"):
        fit_ridge(moments_of(x, y), penalties=[0.0])
