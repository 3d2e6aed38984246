"""Seasons found in the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer import TransformerForecaster
from tsformer.data.panel import to_panel
from tsformer.resolve import resolve_lengths
from tsformer.seasonality import candidate_periods, some_series, strong_seasons

RNG = np.random.default_rng(0)
LEFT_OPEN = dict(context_length=None, patch_length=None, season_length=None, rollout_length=None)


def season(period: float, n: int, noise: float = 0.3) -> np.ndarray:
    return np.sin(2 * np.pi * np.arange(n) / period) + np.random.default_rng(1).normal(0, noise, n)


def test_seasons_need_ten_cycles_and_room_in_the_context():
    noise = np.random.default_rng(0).normal(size=400)
    assert {1, 7} <= set(candidate_periods([noise], 7, 100))
    assert 49 not in candidate_periods([noise], 7, 100)  # 8 cycles
    assert 7 not in candidate_periods([noise], 7, 6)
    assert candidate_periods([noise[:30]] * 1000, 7, 100) == [1]
    assert candidate_periods([], 7, 100) == [1]


def test_an_unusual_season_shows_in_the_autocorrelation():
    wave = np.sin(2 * np.pi * np.arange(600) / 25) + np.random.default_rng(0).normal(0, 0.3, 600)
    assert 25 in candidate_periods([wave], 1, 50)


def test_a_strong_season_is_found_without_its_multiples():
    assert strong_seasons([season(24, 1000)]) == [24]
    both = [season(24, 2000) + season(168, 2000)]
    assert strong_seasons(both) == [168, 24]
    year = strong_seasons([season(365.25, 2600) + 0.2 * season(7, 2600)])
    assert year and abs(year[0] - 365) <= 6


@pytest.mark.parametrize(
    "values",
    [RNG.normal(size=1000), RNG.normal(size=1000).cumsum(), np.arange(1000.0), np.ones(1000), season(24, 60)],
    ids=["noise", "walk", "trend", "constant", "short"],
)
def test_where_there_is_no_season_none_is_found(values):
    assert strong_seasons([values]) == []


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_unit_of_the_data_does_not_matter(unit):
    values = season(24, 1000)
    assert strong_seasons([unit * values]) == [24]
    assert candidate_periods([unit * values], 7, 100) == candidate_periods([values], 7, 100)


def test_a_year_of_days_is_looked_back_on_and_an_unknown_season_becomes_the_patch():
    days = dict(prediction_length=7, usual_season=7, n_rows=2600, **LEFT_OPEN)
    assert resolve_lengths(**days).context_length == 98
    assert resolve_lengths(**days, seasons=[365]).context_length == 371
    numbers = dict(prediction_length=48, usual_season=1, n_rows=900, **LEFT_OPEN)
    assert resolve_lengths(**numbers)[:3] == (288, 12, 1)
    assert resolve_lengths(**numbers, seasons=[24])[:3] == (288, 24, 24)
    given = resolve_lengths(**(numbers | {"season_length": 1}), seasons=[24])
    assert given.season_length == 1


@pytest.mark.parametrize(("season", "patch"), [(7, 7), (47, 47), (52, 26), (53, 27), (96, 48), (97, 33), (168, 42)])
def test_a_long_season_is_cut_into_patches_that_are_not_tiny(season, patch):
    found = resolve_lengths(prediction_length=9, usual_season=season, n_rows=9000, **LEFT_OPEN)
    assert found.patch_length == patch


def test_a_fit_finds_the_season_of_numbered_steps():
    model = TransformerForecaster(12, max_steps=2, d_model=8, nhead=2, num_encoder_layers=1, verbose=False)
    model.fit(season(15, 600))
    assert (model.season_length_, model.patch_length_) == (15, 15)


def test_missing_values_and_empty_series_are_no_obstacle():
    values = season(24, 1000)
    values[::5] = np.nan
    frame = pd.DataFrame({"a": values, "empty": np.nan})
    found = some_series(to_panel(frame))
    assert len(found) == 1 and np.isfinite(found[0]).all()
    assert strong_seasons(found) == [24]
