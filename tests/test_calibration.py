"""Conformal calibration: coverage under known distributions, nesting, few and missing errors."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.calibration import ConformalCalibration

H, C = 6, 2


def windows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forecasts, truth (B, H, C) and scales (B, 1, C): skewed errors that grow with the step and with the scale."""
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.normal(size=(n, 1, C)))
    forecast = rng.normal(size=(n, H, C))
    error = rng.gamma(2.0, size=(n, H, C)) - 2.0
    return forecast, forecast + error * scale * np.sqrt(1 + np.arange(H))[:, None], scale


def covered(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return 100 * ((truth >= low) & (truth <= high)).mean(axis=0)


@pytest.mark.parametrize("level", [50, 80, 92.5, 95])
def test_split_conformal_covers(level):
    forecast, truth, scale = windows(2000, seed=0)
    calibration = ConformalCalibration.fit((truth - forecast) / scale)
    forecast, truth, scale = windows(4000, seed=1)
    low, high = calibration.interval(forecast, scale, level)
    share = covered(truth, low, high)
    assert share.shape == (H, C)
    assert abs(share.mean() - level) < 2 and abs(share - level).max() < 4
    # Quiet windows and wild ones alike.
    is_wild = scale[:, 0, 0] > np.median(scale[:, 0, 0])
    for chosen in (is_wild, ~is_wild):
        assert abs(covered(truth[chosen], low[chosen], high[chosen])[:, 0].mean() - level) < 2


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_conformal_quantiles_cover_whatever_the_head_says(factor):
    levels = (0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975)
    gamma = np.quantile(np.random.default_rng(9).gamma(2.0, size=100_000) - 2.0, levels)

    def quantiles(forecast, scale):
        return forecast[..., None] + factor * scale[..., None] * gamma  # of the first step, and too wide or narrow

    forecast, truth, scale = windows(2000, seed=0)
    calibration = ConformalCalibration.fit_quantiles(truth, quantiles(forecast, scale), levels, scale)
    assert calibration.levels == (40.0, 80.0, 95.0)
    forecast, truth, scale = windows(4000, seed=1)
    adjusted = calibration.adjust(quantiles(forecast, scale), levels, scale)
    assert (np.diff(adjusted, axis=-1) >= 0).all()
    np.testing.assert_array_equal(adjusted[..., 3], quantiles(forecast, scale)[..., 3])
    if factor <= 1:  # a much too wide head, narrowed on both sides alike, ends at its median
        for i, level in enumerate((95, 80, 40)):
            share = covered(truth, adjusted[..., i], adjusted[..., -1 - i])
            assert abs(share.mean() - level) < 2 and abs(share - level).max() < 4


def test_finite_sample_quantile_by_hand():
    # Nine errors 1 ... 9: the ceil(10 * .8) = 8th covers a tenth one with probability .8; 95 % would need a 10th.
    residuals = np.array([-1.0, 2, -3, 4, -5, 6, -7, 8, -9])[::-1].reshape(-1, 1, 1)
    calibration = ConformalCalibration.fit(residuals, levels=(50, 80, 90, 95))
    np.testing.assert_array_equal(calibration.margins[:, 0, 0], [5, 8, 9, np.inf])
    assert calibration.widest == 90
    low, high = calibration.interval(np.full((1, 1, 1), 100.0), 2.0, 80)
    assert (low.item(), high.item()) == (84, 116)
    low, high = calibration.interval(np.zeros((1, 1, 1)), 1.0, 65)  # half-way between 50 and 80
    assert high.item() == pytest.approx(6.5)
    assert calibration.interval(np.zeros((1, 1, 1)), 1.0, 25)[1].item() == pytest.approx(2.5)
    with pytest.raises(ValueError, match="95 % interval .* the widest is 90 %"):
        calibration.interval(np.zeros((1, 1, 1)), 1.0, 95)


@pytest.mark.parametrize("level", [0, 100, -5, 101])
def test_wrong_level(level):
    calibration = ConformalCalibration.fit(np.ones((100, 1, 1)))
    with pytest.raises(ValueError, match="coverage in percent"):
        calibration.interval(np.zeros((1, 1, 1)), 1.0, level)


def test_intervals_are_nested():
    residuals = np.random.default_rng(0).standard_t(2, size=(150, H, C))
    calibration = ConformalCalibration.fit(residuals)
    forecast = np.zeros((3, H, C))
    ends = [calibration.interval(forecast, 1.0, level) for level in np.linspace(1, calibration.widest, 200)]
    low, high = (np.stack(side) for side in zip(*ends, strict=True))
    assert (np.diff(high, axis=0) >= 0).all() and (np.diff(low, axis=0) <= 0).all()


def test_few_windows_borrow_from_neighbouring_steps():
    rng = np.random.default_rng(0)
    width = 1 + np.arange(30)[:, None]
    few = ConformalCalibration.fit(rng.normal(size=(50, 30, 1)) * width, levels=(90,)).margins[0, :, 0]
    many = ConformalCalibration.fit(rng.normal(size=(20_000, 30, 1)) * width, levels=(90,)).margins[0, :, 0]
    assert few[0] < few[10] < few[-1]
    assert abs(few[5:-5] / many[5:-5] - 1).max() < 0.25
    alone = np.quantile(abs(rng.normal(size=(50, 30))) * width.T, 0.9, axis=0)
    assert abs(few[5:-5] / many[5:-5] - 1).mean() < abs(alone[5:-5] / many[5:-5] - 1).mean()


def test_channels_with_hardly_any_error_take_those_of_all():
    residuals = np.random.default_rng(0).normal(size=(500, 2, 3))
    whole = ConformalCalibration.fit(residuals, levels=(80,)).margins
    residuals[5:, :, 1] = np.nan
    calibration = ConformalCalibration.fit(residuals, levels=(80,)).margins
    np.testing.assert_array_equal(calibration[..., [0, 2]], whole[..., [0, 2]])
    assert abs(calibration[..., 1] - 1.28).max() < 0.15


def test_missing_truth_is_skipped():
    forecast, truth, scale = windows(3000, seed=0)
    holes = np.random.default_rng(1).random(truth.shape) < 0.3
    truth[holes] = np.nan
    scale[::10] = 0.0  # constant contexts have no unit
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = (truth - forecast) / scale
    margins = ConformalCalibration.fit(residuals, levels=(80,)).margins
    step = residuals[:, 2, 1]
    step = np.sort(np.abs(step[np.isfinite(step)]))
    assert margins[0, 2, 1] == step[int(np.ceil(0.8 * (len(step) + 1))) - 1]
    levels = (0.1, 0.9)
    both = np.stack([forecast, forecast], axis=-1)  # no width: quantiles as a point forecast
    np.testing.assert_allclose(ConformalCalibration.fit_quantiles(truth, both, levels, scale).margins, margins)
    with pytest.raises(ValueError, match="nothing to calibrate on"):
        ConformalCalibration.fit(np.full((5, 2, 1), np.nan))


def test_longer_horizons_take_the_last_margin():
    calibration = ConformalCalibration.fit(np.random.default_rng(0).normal(size=(500, 3, 1)) * [[1], [2], [3]])
    high = calibration.interval(np.zeros((1, 5, 1)), 1.0, 80)[1][0, :, 0]
    assert high[0] < high[1] < high[2] == high[3] == high[4]


def test_unpaired_quantiles():
    truth = np.random.default_rng(0).normal(size=(500, 1, 1))
    quantiles = np.broadcast_to([-0.5, 0.0, 0.2, 0.5], (500, 1, 1, 4))
    levels = (0.1, 0.5, 0.8, 0.9)
    calibration = ConformalCalibration.fit_quantiles(truth, quantiles, levels)
    adjusted = calibration.adjust(quantiles[:1], levels, 1.0)[0, 0, 0]
    assert adjusted[1:3].tolist() == [0.0, 0.2] and adjusted[3] == pytest.approx(1.28, abs=0.15)
    with pytest.raises(ValueError, match="central interval"):
        ConformalCalibration.fit_quantiles(truth, quantiles[..., :2], (0.1, 0.5))
    with pytest.raises(ValueError, match="60 % interval was not calibrated"):
        calibration.adjust(quantiles[:1], (0.2, 0.5, 0.7, 0.8), 1.0)


def test_comes_back_from_its_arrays():
    calibration = ConformalCalibration.fit(np.random.default_rng(0).normal(size=(100, 3, 2)))
    again = ConformalCalibration.from_arrays(calibration.to_arrays())
    assert again.levels == calibration.levels
    np.testing.assert_array_equal(again.margins, calibration.margins)
