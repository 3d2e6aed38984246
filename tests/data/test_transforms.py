"""Target transforms: there and back, their powers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.data.panel import to_panel
from tsformer.data.transforms import TargetTransform
from tsformer.data.windows import series_statistics

NAMES = ("log1p", "box_cox", "yeo_johnson")


def fitted(name, panel, end=None) -> TargetTransform:
    end = panel.lengths if end is None else np.broadcast_to(end, panel.n_series)
    return TargetTransform.fit(name, panel, end, series_statistics(panel, end).mean)


def skewed(n=400, seed=0) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(size=n))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e12])
def test_there_and_back(name, factor):
    values = factor * np.stack([skewed(), 5 + np.sin(np.arange(400))], 1)
    values[3, 0] = np.nan
    transform = fitted(name, to_panel(values))
    there = transform.apply(to_panel(values)).values
    np.testing.assert_allclose(transform.inverse(there[None])[0], values, rtol=1e-9)
    np.testing.assert_allclose(transform.inverse(there[None, ..., None])[0, ..., 0], values, rtol=1e-9)
    assert np.isnan(there[3, 0])
    order = np.argsort(values[:, 1])
    assert (np.diff(there[order, 1]) >= 0).all()


def test_yeo_johnson_takes_any_number():
    values = np.random.default_rng(0).normal(size=300) - 1.0
    panel = to_panel(values)
    transform = fitted("yeo_johnson", panel)
    np.testing.assert_allclose(transform.inverse(transform.apply(panel).values[None])[0, :, 0], values, rtol=1e-9)


def test_powers_are_scikit_learns():
    from sklearn.preprocessing import PowerTransformer

    values = np.random.default_rng(0).normal(3, 0.5, 400) ** 3
    for name in ("box_cox", "yeo_johnson"):
        expected = PowerTransformer(name.replace("_", "-"), standardize=False).fit(values[:, None])
        panel = to_panel(values)
        transform = fitted(name, panel)
        np.testing.assert_allclose(transform.powers, np.clip(expected.lambdas_, 0, 2), atol=0.02)
        if name == "yeo_johnson":
            np.testing.assert_allclose(
                transform.apply(panel).values, expected.transform(values[:, None]), rtol=1e-9, atol=1e-12
            )


def test_the_box_cox_power_knows_neither_levels_nor_later_rows():
    parts = [np.random.default_rng(i).normal(10, 1, 300) ** 2 for i in range(3)]  # the square root is normal
    ds = np.arange(300)

    def power(*series, end=300):
        frame = pd.concat([pd.DataFrame({"unique_id": str(i), "ds": ds, "y": y}) for i, y in enumerate(series)])
        return fitted("box_cox", to_panel(frame), end).powers[0]

    assert power(*parts) == pytest.approx(0.5, abs=0.25)
    assert power(*parts) == pytest.approx(power(parts[0] * 1e-3, parts[1], parts[2] * 1e6), abs=1e-6)
    spoilt = parts[0].copy()
    spoilt[200:] = 1e6
    assert power(parts[0], end=200) == power(spoilt, end=200) != power(spoilt)


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_is_no_trouble(name):
    panel = to_panel(np.full(50, 3.0))
    transform = fitted(name, panel)
    np.testing.assert_allclose(transform.inverse(transform.apply(panel).values[None]), 3.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 2.0])
def test_no_forecast_is_lost_beyond_the_range(name, power):
    wild = np.array([-1e300, -1e6, -3.0, 0.0, 3.0, 1e6, 1e300]).reshape(1, -1, 1)
    back = TargetTransform(name, np.array([power])).inverse(wild)
    assert np.isfinite(back).all() and (np.diff(back, axis=1) >= 0).all()
    assert name == "yeo_johnson" or back.min() >= (-1 if name == "log1p" else 0)


@pytest.mark.parametrize(("name", "bound", "value"), [("log1p", -1, -1.0), ("box_cox", 0, 0.0)])
def test_a_value_without_an_image_is_named(name, bound, value):
    frame = pd.DataFrame({"unique_id": "shop 7", "ds": pd.date_range("2024-01-01", periods=9), "y": 5.0})
    frame.loc[4, "y"] = value
    message = (
        f"target_transform='{name}' needs values above {bound}, and 1 are not, the first {value:g}: "
        f"column 'y', id 'shop 7', 2024-01-05. Set target_transform='yeo_johnson'"
    )
    with pytest.raises(ValueError, match=message):
        fitted(name, to_panel(frame))
    with pytest.raises(ValueError, match=message):
        TargetTransform(name, np.ones(1)).apply(to_panel(frame))


def test_nothing_to_do():
    panel = to_panel(skewed())
    transform = fitted(None, panel)
    assert transform.apply(panel) is panel
    np.testing.assert_array_equal(transform.inverse(panel.values[None])[0], panel.values)
