"""Scenarios: the forecast goes on from future values that are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer import TransformerForecaster

NAME = "TransformerForecaster"


@pytest.fixture(scope="module")
def walk() -> TransformerForecaster:
    """A forecaster of one token a step, which has learned that the next value is near the last."""
    x = np.zeros(600)
    for t, noise in enumerate(np.random.default_rng(0).normal(size=599)):
        x[t + 1] = 0.95 * x[t] + noise
    frame = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=600), "y": x})
    size = dict(context_length=16, patch_length=1, d_model=16, nhead=2, num_encoder_layers=1, dim_feedforward=32)
    training = dict(training_mode="teacher_forcing", scaling="standard", learning_rate=5e-3, dropout=0.0, max_steps=150)
    return TransformerForecaster(8, **size, **training, batch_size=32, verbose=False).fit(frame)


def ahead(forecast: pd.DataFrame, **values: object) -> pd.DataFrame:
    return forecast[["unique_id", "ds"]].assign(**values)


def test_later_steps_follow_what_is_given(walk):
    own = walk.predict()
    high, low = (walk.predict(given=ahead(own, y=level).head(3))[NAME] for level in (8.0, -8.0))
    assert (high[:3] == 8.0).all() and (low[:3] == -8.0).all()
    assert (high[3:] > low[3:]).all()
    assert high[3] - low[3] > 4  # of 16: persistence has been learned


def test_steps_before_what_is_given_stay(walk):
    own = walk.predict()
    forecast = walk.predict(given=ahead(own, y=9.0).iloc[[4]])
    np.testing.assert_array_equal(forecast[NAME][:4], own[NAME][:4])
    assert forecast[NAME][4] == 9.0 and (forecast[NAME][5:] > own[NAME][5:]).all()


@pytest.mark.parametrize("mixing", ["independent", "joint"])
@pytest.mark.parametrize("loss", ["mae", "quantile"])
def test_its_own_forecast_changes_nothing(small, wave, mixing, loss):
    frame = pd.DataFrame({"a": wave(100), "b": wave(100, level=0)}, index=pd.date_range("2024-01-01", periods=100))
    forecaster = small(20, channel_mixing=mixing, loss=loss).fit(frame)
    own = forecaster.predict()
    pd.testing.assert_frame_equal(forecaster.predict(given=own), own, check_exact=True)
    pd.testing.assert_frame_equal(forecaster.predict(given=own[["b"]].iloc[2:9]), own, rtol=1e-6)


def test_single_steps_of_a_patch_and_single_channels(small, wave):
    frame = pd.DataFrame({"a": wave(100), "b": wave(100, level=0)}, index=pd.date_range("2024-01-01", periods=100))
    forecaster = small(14, channel_mixing="joint", linear_path=False).fit(frame)
    own = forecaster.predict()
    given = own[["b"]].iloc[[3]] + 5
    forecast = forecaster.predict(given=given)
    assert forecast["b"].iloc[3] == own["b"].iloc[3] + 5
    same = forecast.drop(columns="b").iloc[:7], forecast["b"].drop(given.index).iloc[:6]  # the patch it is in
    pd.testing.assert_frame_equal(same[0], own[["a"]].iloc[:7])
    pd.testing.assert_series_equal(same[1], own["b"].drop(given.index).iloc[:6])
    assert not np.isclose(forecast["a"].iloc[7:], own["a"].iloc[7:], rtol=1e-6).any()


def test_given_values_have_no_interval(small, make_panel):
    frame = make_panel({"a": 5.0, "b": 50.0})
    for settings in (dict(calibrate=True), dict(loss="quantile"), dict(loss="quantile", calibrate=True)):
        forecaster = small(validation_size=0.3, **settings).fit(frame)
        forecast = forecaster.predict(level=80, given=ahead(forecaster.predict(), y=5.0).iloc[[1, 9]])
        bands = forecast[[NAME, f"{NAME}-lo-80", f"{NAME}-hi-80"]]
        assert (bands.iloc[[1, 9]] == 5.0).all(axis=None)
        assert (bands.drop([1, 9]).iloc[:, 1] < bands.drop([1, 9]).iloc[:, 2]).all()


def test_rows_and_columns_are_matched_by_key_and_name(small, make_panel):
    frame = make_panel({"a": 5.0, "b": 50.0}).assign(z=lambda d: d.y * 2)
    forecaster = small(target_cols=["y", "z"]).fit(frame)
    given = ahead(forecaster.predict(), y=np.arange(14.0), z=-np.arange(14.0), note="x")
    given.loc[3, "y"] = np.nan
    expected = forecaster.predict(given=given)
    shuffled = given.sample(frac=1, random_state=0)[["z", "note", "ds", "y", "unique_id"]]
    pd.testing.assert_frame_equal(forecaster.predict(given=shuffled), expected)
    assert expected["z"].tolist() == [-float(i) for i in range(14)]
    assert np.flatnonzero(expected["y"] != np.arange(14.0)).tolist() == [3]
    # From another history the same stamps are other steps.
    shorter = frame[frame.groupby("unique_id").cumcount() < 118]
    assert forecaster.predict(shorter, given=given[given.ds == "2024-05-01"])["y"].iloc[3] == 1.0


def test_series_and_integer_time(small, wave):
    series = pd.Series(wave(100), index=pd.RangeIndex(100, name="t"), name="load")
    forecast = small().fit(series).predict(given=pd.Series([1.0, 2.0], index=[102, 101]))
    assert forecast.loc[[101, 102]].tolist() == [2.0, 1.0]
    assert small().fit(wave(100)).predict(given=pd.DataFrame({"y": [3.0]}, index=[100]))["y"].iloc[0] == 3.0


def test_what_cannot_be_given(small, make_panel):
    frame = make_panel({"a": 5.0, "b": 50.0})
    forecaster = small().fit(frame)
    given = ahead(forecaster.predict(), y=1.0)
    late = given.assign(ds=given.ds + pd.Timedelta(days=5))
    for wrong, message in [
        (
            late,
            r"10 rows that are no steps of the forecast, the first: 2024-05-07 of id 'a'. The 7 steps go from 2024-0",
        ),
        (frame, "240 rows that are no steps of the forecast, the first: 2024-01-01 of id 'a'"),
        (given.assign(ds=given.ds + pd.Timedelta(hours=1)), "14 rows that are no steps"),
        (given.replace({"unique_id": {"a": "new"}}), "values of 1 ids that are not in the history, the first: 'new'"),
        (pd.concat([given, given.head(2)]), "given has 2 surplus rows that are duplicates, the first: 2024-04-30"),
        (given.assign(y=np.nan), "given has no value"),
        (given.head(0), "given has no value"),
        (given.drop(columns="y"), "no column of a target"),
        (given.drop(columns="unique_id"), "no id column 'unique_id' in given"),
        (given.assign(y=np.inf), "infinite values in column 'y'"),
        (given.assign(y="high"), "must hold numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            forecaster.predict(given=wrong)
    with pytest.raises(TypeError, match="given must be a DataFrame"):
        forecaster.predict(given=[1.0])
    # Rows without a value say nothing, wherever they are.
    pd.testing.assert_frame_equal(
        forecaster.predict(given=pd.concat([late.assign(y=np.nan), given])), forecaster.predict(given=given)
    )


@pytest.mark.parametrize(
    "changes", [dict(loss="normal"), dict(loss="normal", scaling="asinh"), dict(loss="negative_binomial")]
)
def test_paths_go_on_from_what_is_given(small, changes):
    counts = np.random.default_rng(0).poisson(20, 120).astype(float)
    frame = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=120), "y": counts})
    forecaster = small(14, max_steps=60, learning_rate=1e-2, **changes).fit(frame)
    own = forecaster.predict(level=80)
    given = ahead(own, y=40.0).head(7)
    forecast, paths = forecaster.predict(level=80, given=given), forecaster.sample(20, given=given)
    for column in (NAME, f"{NAME}-lo-80", f"{NAME}-hi-80"):
        assert (forecast[column][:7] == 40).all()
        assert (forecast[column][7:] != own[column][7:]).any()
    assert (paths.iloc[:7, 2:] == 40).all(axis=None)
    assert (paths.iloc[7:, 2:].nunique(axis=1) > 1).all()
    own_paths = forecaster.sample(20, given=ahead(own, y=np.nan).assign(y=[3.0] + [np.nan] * 13))
    assert (own_paths.iloc[0, 2:] == 3).all()


def test_a_transform_takes_given_values_in_target_units(small, make_panel):
    frame = make_panel({"a": 100.0})
    forecaster = small(14, target_transform="log1p").fit(frame)
    own = forecaster.predict()
    pd.testing.assert_frame_equal(forecaster.predict(given=ahead(own, y=own[NAME])), own, check_exact=True)
    higher = forecaster.predict(given=ahead(own, y=2 * own[NAME]).head(7))
    assert (higher[NAME][:7] == 2 * own[NAME][:7]).all() and (higher[NAME][7:] != own[NAME][7:]).all()
    with pytest.raises(ValueError, match="'log1p' needs values above -1, got -3"):
        forecaster.predict(given=ahead(own, y=-3.0))
