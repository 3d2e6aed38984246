"""The network blended with closed forms: who gets the weight, what may decide it, and what stays true of forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tsformer
from tsformer.blend_fit import PRIOR_OF_NETWORK, PRIOR_WINDOWS, convex_weights


def autoregression(n: int) -> np.ndarray:
    """x_t = 1.2 x_(t-1) - 0.5 x_(t-2) + noise."""
    noise, x = np.random.default_rng(0).normal(size=n), np.zeros(n)
    for t in range(2, n):
        x[t] = 1.2 * x[t - 1] - 0.5 * x[t - 2] + noise[t]
    return x


def test_weights_find_the_best_blend():
    rng = np.random.default_rng(0)
    truth, errors = rng.normal(size=4000), rng.normal(size=(3, 4000))
    for is_squared in (False, True):
        # Independent errors of deviations 1 and 2: weights as one over the variance; the third is too bad to help.
        forecasts = truth + errors * np.array([[1.0], [2.0], [50.0]])
        weights = convex_weights(forecasts, truth, np.ones(4000), is_squared)
        np.testing.assert_allclose(weights, [0.8, 0.2, 0.0], atol=0.03)
    exact = convex_weights(np.stack([truth + 1, truth, truth - 3]), truth, np.ones(4000), False)
    assert exact[1] > 0.95
    # What does not count does not decide.
    half = np.arange(4000) < 2000
    forecasts = np.stack([np.where(half, truth, 9.0), np.where(half, -9.0, truth)])
    assert convex_weights(forecasts, truth, half.astype(float), False)[0] > 0.99


def test_a_pure_season_is_repeated(small):
    season = np.tile(np.random.default_rng(0).normal(size=7), 150)
    model = small(freq="D").fit(pd.Series(season, pd.date_range("2024-01-01", periods=len(season)), name="y"))
    shares = model.blend_
    assert model._fitted.blend.experts.period in (7, 14, 21, 28)
    drawn = PRIOR_WINDOWS / (PRIOR_WINDOWS + 15)  # 105 validation rows, 15 horizons
    # The linear maps can be the same season, but for their penalty.
    assert shares["seasonal"] > 0.5 and shares["network"] < drawn * PRIOR_OF_NETWORK + 0.1
    np.testing.assert_allclose(model.predict(horizon=14), np.roll(season, -len(season) % 7)[:14], atol=0.2)


def test_a_random_walk_repeats_its_last_value(small):
    walk = np.random.default_rng(0).normal(size=3000).cumsum()
    model = small(prediction_length=5).fit(walk)
    assert model._fitted.blend.experts.period == 1
    forecast = model.predict().to_numpy()
    assert model.blend_["network"] <= 0.5
    assert np.abs(forecast - walk[-1]).max() < 0.5


def test_an_autoregression_is_linear(small):
    model = small(prediction_length=4, patch_length=4).fit(autoregression(4000))
    assert model.blend_["linear"] > 0.5 and model.blend_["seasonal"] < 0.05  # the network starts as the same map


def test_few_validation_windows_say_little(small, wave):
    prior = {"network": 1 / 2, "linear": 1 / 3, "seasonal": 1 / 6}
    for channels in (1, 3):  # which rise and fall together
        few = small(validation_size=14).fit(np.tile(wave(600)[:, None], channels)).blend_  # two horizons of a week
        assert max(abs(few[name] - share) for name, share in prior.items()) <= 2 / (2 + PRIOR_WINDOWS)


def test_rows_that_decide_nothing_are_not_counted(small, wave):
    constant = pd.DataFrame({"y": np.ones(600)})
    lively = pd.DataFrame({"y": wave(600)})
    frame = pd.concat([lively, *[constant] * 9], keys=range(10), names=["unique_id", "ds"]).reset_index()
    gaps = lively.where((np.arange(600) % 10 == 0)[:, None])
    drawn = PRIOR_WINDOWS / (PRIOR_WINDOWS + 60 / 7)
    for data, least in ((frame, drawn), (gaps, PRIOR_WINDOWS / (PRIOR_WINDOWS + 6 / 7))):
        shares = small(validation_size=60, max_steps=1).fit(data).blend_
        assert shares["network"] >= least * PRIOR_OF_NETWORK - 1e-9


def test_a_forecast_is_never_outside_its_parts(small, wave):
    model = small().fit(wave(200))
    fitted, parts = model._fitted, []
    for weights in np.eye(len(fitted.blend.weights)):
        model._fitted = replace(fitted, blend=replace(fitted.blend, weights=weights))
        parts.append(model.predict().to_numpy())
    model._fitted = fitted
    np.testing.assert_allclose(model.predict(), np.tensordot(fitted.blend.weights, parts, 1), rtol=1e-9)
    model._fitted = replace(fitted, blend=None)
    np.testing.assert_allclose(model.predict(), parts[0], rtol=1e-12)


def test_rows_behind_the_training_rows_do_not_reach_the_maps(small, wave, monkeypatch):
    seen = []
    original = tsformer.blend_fit.linear_maps
    monkeypatch.setattr("tsformer.blend_fit.linear_maps", lambda *args: seen.append(args[0]) or original(*args))
    values = wave(200)
    changed = values.copy()
    changed[180:] += np.random.default_rng(1).normal(0, 5, 20)
    for data in (values, changed):
        small(prediction_length=14, validation_size=20).fit(data)
    before, after = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert len(before) == 2  # rolled out and direct
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_saved_is_loaded(small, wave, tmp_path):
    model = small().fit(wave(200))
    again = tsformer.load(model.save(tmp_path / "model"))
    assert again.blend_ == model.blend_ and again.blend is True
    pd.testing.assert_frame_equal(again.predict(horizon=30), model.predict(horizon=30), check_exact=True)


@pytest.mark.parametrize("settings", [{}, {"target_transform": "log1p", "loss": "mse"}, {"loss": "quantile"}])
def test_a_shorter_forecast_begins_a_longer_one(small, wave, settings):
    model = small(**settings).fit(wave(200))
    np.testing.assert_allclose(model.predict(horizon=40)[:10], model.predict(horizon=10), rtol=1e-6)


def test_it_shifts_and_scales_with_the_data(small, wave):
    values = wave(200)
    one, other = (small().fit(data) for data in (values, 1000 + 50 * values))
    np.testing.assert_allclose(other.predict(), 1000 + 50 * one.predict(), rtol=1e-4)
    np.testing.assert_allclose(list(one.blend_.values()), list(other.blend_.values()), atol=1e-3)


def test_quantiles_move_with_their_median(small, wave):
    model = small(loss="quantile", quantiles=[0.1, 0.5, 0.7]).fit(wave(200))
    blended = model.predict(quantiles=[0.1, 0.5, 0.7]).to_numpy()
    model._fitted = replace(model._fitted, blend=None)
    alone = model.predict(quantiles=[0.1, 0.5, 0.7]).to_numpy()
    moved = blended - alone
    np.testing.assert_allclose(moved[:, 1:], moved[:, [2, 2, 2]], atol=1e-9)
    assert np.abs(moved).max() > 0.05


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_missing_targets_do_not_starve_the_closed_forms(small, share):
    rng, steps = np.random.default_rng(0), np.arange(1224)
    wave = 10 * np.sin(2 * np.pi * steps / 24) + rng.normal(size=len(steps))
    values = np.where(rng.random(1200) < share, np.nan, wave[:1200])
    model = small(24, context_length=96, patch_length=24, max_steps=1, blend=False).fit(values)
    assert np.abs(model.predict().to_numpy()[:, 0] - wave[1200:]).mean() < 1.3  # of noise alone: 0.8


def test_short_walks_stay_near_at_any_horizon(small):
    walk = np.random.default_rng(2).normal(size=60).cumsum()
    for blend in (True, False):
        forecast = small(blend=blend, max_steps=20).fit(walk).predict(horizon=700).to_numpy()
        assert np.abs(forecast - walk[-1]).max() < 40 * np.ptp(walk)


def test_missing_values_constants_and_short_series(small, wave):
    rng = np.random.default_rng(0)
    values = wave(200)
    values[rng.random(200) < 0.3] = np.nan
    frame = pd.DataFrame({"gaps": values, "constant": 0.1, "late": np.r_[np.full(150, np.nan), wave(50)]})
    forecast = small().fit(frame).predict(horizon=20)
    assert np.isfinite(forecast.to_numpy()).all() and (forecast["constant"] == 0.1).all()
    ids, n = np.repeat(np.arange(40), 9), 9
    short = pd.DataFrame({"unique_id": ids, "ds": np.tile(np.arange(n), 40), "y": rng.normal(size=360).cumsum()})
    model = small(prediction_length=3).fit(short)
    assert np.isfinite(model.predict()["TransformerForecaster"]).all()
    assert set(model.blend_) == {"network", "linear", "seasonal"}


def test_all_parts_go_on_from_given_values(small):
    """Maps to the whole horizon, too: what is given lies inside of their one step."""
    walk = np.random.default_rng(0).normal(size=600).cumsum()
    model = small(prediction_length=28).fit(walk)
    fitted = model._fitted
    experts = fitted.blend.experts
    assert [weights.shape[1] for weights in (*experts.rolled, *experts.direct)] == [7, 7, 28, 28]
    for weights in np.eye(6)[1:]:
        model._fitted = replace(fitted, blend=replace(fitted.blend, weights=weights))
        own = model.predict()
        higher = model.predict(given=own.iloc[:14] + 30) - own  # a walk goes on from where it is
        np.testing.assert_allclose(higher[:14], 30)
        assert higher[14:].min(axis=None) > 20
        np.testing.assert_allclose(model.predict(given=own.iloc[:14]), own, atol=1e-9)


def test_given_values_where_no_patch_of_training_rows_is_half_observed(small):
    """And a whole horizon is: two rows in five, of which a window of seven may have four."""
    values = np.random.default_rng(0).normal(size=200)
    values[np.arange(200) % 5 > 1] = np.nan
    model = small(prediction_length=7, context_length=20, patch_length=5).fit(values)
    forecast = model.predict(given=model.predict().iloc[:1] + 1)
    assert np.isfinite(forecast.to_numpy()).all()


def test_known_covariates_move_all_parts(small):
    rng = np.random.default_rng(0)
    price = rng.uniform(1, 5, 400)
    frame = pd.DataFrame({"y": 50 - 10 * price + np.tile(rng.normal(0, 2, 7), 58)[:400], "price": price})
    model = small(known=["price"], target_cols=["y"], max_steps=150, learning_rate=1e-2).fit(frame)
    assert model.blend_["network"] < 0.97
    fitted = model._fitted
    for weights in [fitted.blend.weights, *np.eye(len(fitted.blend.weights))]:
        model._fitted = replace(fitted, blend=replace(fitted.blend, weights=weights))
        low, high = (model.predict(future=model.make_future().assign(price=level))["y"] for level in (2.0, 4.0))
        assert (low - high).mean() == pytest.approx(20, abs=3)


@pytest.mark.parametrize(
    "settings",
    [{"blend": False}, {"validation_size": 0, "patience": None}, {"loss": "normal"}],
    ids=["off", "no validation", "distribution"],
)
def test_the_network_alone(small, wave, settings):
    model = small(**settings).fit(wave(200))
    assert model.blend_ == {"network": 1.0} and model._fitted.blend is None


@pytest.mark.parametrize(
    "settings",
    [
        dict(blend=False, linear_path=False),
        dict(loss="normal", linear_path=False),
        dict(loss="log_normal"),
        dict(loss="quantile", training_mode="teacher_forcing", linear_path=False),
    ],
)
def test_closed_forms_that_nobody_wants_are_not_fitted(small, wave, monkeypatch, settings):
    monkeypatch.setattr("tsformer.fitting.fit_experts", lambda *_, **__: pytest.fail("they were"))
    assert small(**settings).fit(wave(200) + 10).best_step_ in (0, 5)


def test_weights_of_errors_count(small):
    # A walk whose validation rows of weight 0 are a season that nothing else repeats.
    walk = np.random.default_rng(0).normal(size=1000).cumsum()
    season = walk.copy()
    season[950:] = np.tile([50.0, -50.0], 25)
    trust = np.r_[np.ones(950), np.zeros(50)]
    frame = pd.DataFrame({"y": season, "trust": trust})
    model = small(prediction_length=2, weight_col="trust", validation_size=100).fit(frame)
    assert model._fitted.blend.experts.period == 1


def test_blend_is_true_or_false(small, wave):
    with pytest.raises(TypeError, match="blend must be True or False"):
        small(blend="yes").fit(wave(100))
