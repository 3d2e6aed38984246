from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.batch import Batch
from tsformer.nn.decoding import forecast
from tsformer.nn.scaling import InstanceScaler


def window(values, mask=None, mean=0.0, deviation=1.0) -> Batch:
    x = torch.tensor(values, dtype=torch.float64)[None, :, None]
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else torch.tensor(mask)[None, :, None]
    none = torch.zeros(1, 0, 1, dtype=torch.float64)
    series = torch.tensor([[mean]], dtype=torch.float64), torch.tensor([[deviation]], dtype=torch.float64)
    return Batch(torch.where(seen, x, 0.0), seen, none, none.bool(), *series)


@pytest.mark.parametrize(
    ("scaling", "loc"), [("standard", 3.5), ("last_season", 5.5), ("last_value", 6.0), ("mean_abs", 0.0), ("none", 0.0)]
)
def test_location(scaling, loc):
    scale = InstanceScaler(scaling, season_length=2)(window([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert scale.loc.item() == loc
    variance = 35 / 12
    expected = {"none": 1.0, "mean_abs": (3.5**2 + 0.1**2) ** 0.5}.get(scaling, (variance + 0.01**2) ** 0.5)
    assert scale.scale.item() == pytest.approx(expected, rel=1e-12)


def test_only_what_was_observed_counts():
    batch = window([1.0, 99.0, 3.0, 99.0], mask=[True, False, True, False])
    assert InstanceScaler("standard", 2)(batch).loc.item() == 2.0
    assert InstanceScaler("last_season", 2)(batch).loc.item() == 3.0
    assert InstanceScaler("last_season", 1)(batch).loc.item() == 2.0  # nothing in the last season: the mean
    assert InstanceScaler("last_value", 2)(batch).loc.item() == 3.0


@pytest.mark.parametrize("scaling", ["standard", "last_season", "last_value", "robust", "asinh"])
def test_without_any_value_the_training_scale_serves(scaling):
    scale = InstanceScaler(scaling, 2)(window([9.0, 9.0], mask=[False, False], mean=4.0, deviation=3.0))
    assert (scale.loc.item(), scale.scale.item()) == (4.0, 3.0)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e6, -3.5, 0.1, 1e12 / 3])
@pytest.mark.parametrize("scaling", ["standard", "last_season", "last_value", "robust", "asinh"])
def test_a_constant_is_restored_exactly(scaling, value):
    batch = window([value] * 90, mean=value, deviation=0.0)
    scale = InstanceScaler(scaling, 7)(batch)
    assert scale.scale.item() == 0.0
    assert scale.restore(torch.randn(1, 5, 1)).eq(value).all()
    assert scale.normalise(batch.context, batch.context_mask).eq(0).all()


def test_mean_size_knows_no_level_and_does_not_take_a_pause_for_the_size():
    scaler = InstanceScaler("mean_abs", 2)
    assert scaler(window([-1.0, 99.0, 3.0], mask=[True, False, True], deviation=0.0)).scale.item() == 2.0
    assert scaler(window([0.0, 0.0], mean=4.0, deviation=3.0)).scale.item() == pytest.approx(0.3)
    assert scaler(window([9.0], mask=[False], mean=4.0, deviation=0.0)).scale.item() == 4.0
    assert scaler(window([0.0, 0.0], deviation=0.0)).restore(torch.ones(1, 1, 1)).item() == 0.0


def test_a_quiet_context_is_not_blown_up():
    scale = InstanceScaler("standard", 2)(window([5.0, 5.0, 5.0], mean=5.0, deviation=100.0))
    assert scale.scale.item() == pytest.approx(1.0)


def test_there_and_back():
    batch = window([1e12, 1e12 + 1, 1e12 + 5], deviation=2.0)
    scale = InstanceScaler("standard", 2)(batch)
    torch.testing.assert_close(scale.restore(scale.normalise(batch.context, batch.context_mask)), batch.context)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("scaling", ["robust", "asinh"])
def test_robust_is_median_and_interquartile_range_of_what_was_observed(scaling, n):
    rng = np.random.default_rng(n)
    x, seen = rng.normal(size=(2, 12, 3)), np.zeros((2, 12, 3), dtype=bool)
    for window in np.ndindex(2, 3):
        seen[window[0], rng.permutation(12)[:n], window[1]] = True
    none = torch.zeros(2, 0, 3, dtype=torch.float64)
    series = torch.zeros(2, 3, dtype=torch.float64), torch.full((2, 3), 2.0, dtype=torch.float64)
    batch = Batch(torch.tensor(np.where(seen, x, 99.0)), torch.tensor(seen), none, none.bool(), *series)
    scale = InstanceScaler(scaling, 2)(batch)
    low, median, high = np.nanquantile(np.where(seen, x, np.nan), [0.25, 0.5, 0.75], axis=1, keepdims=True)
    np.testing.assert_allclose(scale.loc, median, rtol=1e-12)
    expected = np.hypot((high - low) / 1.349, 0.02) if n > 1 else 2.0  # one value has no spread
    np.testing.assert_allclose(scale.scale, np.broadcast_to(expected, scale.scale.shape), rtol=1e-12)


@pytest.mark.parametrize("scaling", ["robust", "asinh"])
def test_an_outlier_does_not_widen_the_robust_scale(scaling):
    quiet, spoilt = window([1.0, 2.0, 3.0, 4.0, 5.0]), window([1.0, 2.0, 3.0, 4.0, 1e9])
    assert InstanceScaler(scaling, 2)(quiet)[:2] == InstanceScaler(scaling, 2)(spoilt)[:2]


def test_without_an_interquartile_range_the_deviation_serves():
    intermittent = window([0.0] * 9 + [10.0])
    scale = InstanceScaler("robust", 2)(intermittent)
    assert (scale.loc.item(), scale.scale.item()) == (0.0, pytest.approx((9.0 + 1e-4) ** 0.5))


def test_asinh_compresses_large_values_and_comes_back():
    batch = window([1.0, 2.0, 3.0, 4.0, 5e6], deviation=0.0)
    scale = InstanceScaler("asinh", 2)(batch)
    scaled = scale.normalise(batch.context, batch.context_mask)
    assert scaled.squeeze()[2] == 0 and 10 < scaled.max() < 20
    torch.testing.assert_close(scale.restore(scaled), batch.context)
    assert scale.restore(torch.full((1, 1, 1), 1e30)).isfinite().all()


@pytest.mark.parametrize("scaling", ["standard", "last_season", "last_value", "robust", "asinh"])
def test_forecasts_follow_units_and_levels(scaling, make_model, make_batch):
    model, batch, a, b = make_model(scaling=scaling), make_batch(), 7.0, -300.0
    moved = batch._replace(
        context=a * batch.context + b,
        series_mean=a * batch.series_mean + b,
        series_deviation=a * batch.series_deviation,
    )
    torch.testing.assert_close(forecast(model, moved, 24), a * forecast(model, batch, 24) + b, rtol=1e-5, atol=1e-3)
