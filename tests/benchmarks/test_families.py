"""The generated families."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from controls import controls, data_split
from families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_the_same_every_time(name):
    family = FAMILIES[name]
    frame = family.frame()
    pd.testing.assert_frame_equal(frame, family.frame())
    assert len(frame) == family.n_series * family.n_steps
    values = frame["y"].to_numpy().reshape(family.n_series, -1)
    assert not np.isinf(values).any()
    assert len({series.tobytes() for series in values}) == family.n_series
    split = data_split(name, family.horizons[0])
    assert (split.test_begin - split.train_end >= max(family.horizons)).all()


def test_families_are_what_they_say():
    values = {name: family.frame()["y"].to_numpy().reshape(family.n_series, -1) for name, family in FAMILIES.items()}
    assert np.isnan(values["gaps"]).mean() == pytest.approx(0.2, abs=0.01)
    assert all(np.isfinite(values[name]).all() for name in FAMILIES if name != "gaps")
    assert (values["counts"] >= 0).all() and (values["counts"] % 1 == 0).all()
    assert 0.5 < (values["counts"] == 0).mean() < 0.8
    steps = np.diff(values["walk"])
    lagged = np.mean([np.corrcoef(series[1:], series[:-1])[0, 1] for series in steps])
    assert abs(lagged) < 0.02  # a walk: its steps do not know each other
    for name, season in [("heteroscedastic", 24), ("level_steps", 7), ("two_seasons", 24)]:
        change = {lag: np.abs(values[name][:, lag:] - values[name][:, :-lag]).mean() for lag in (season, season // 2)}
        assert change[season] < 0.6 * change[season // 2], name


def test_controls_find_the_season():
    scores = controls("heteroscedastic", 24)
    assert scores["seasonal_naive"]["season"] % 24 == 0
    assert scores["ridge"]["mae"] < scores["seasonal_naive"]["mae"]
    assert controls("walk", 7)["seasonal_naive"]["season"] == 1
