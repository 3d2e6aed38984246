from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer import RepeatLast, RidgeForecaster, SeasonalNaive


def daily(values, start: str = "2024-01-01") -> pd.DataFrame:
    return pd.DataFrame({"y": np.asarray(values, dtype=float)}, index=pd.date_range(start, periods=len(values)))


def panel_frame(values: dict[str, list[float]], start: str = "2024-01-01") -> pd.DataFrame:
    pieces = [
        pd.DataFrame({"unique_id": name, "ds": pd.date_range(start, periods=len(y)), "y": np.asarray(y, dtype=float)})
        for name, y in values.items()
    ]
    return pd.concat(pieces, ignore_index=True)


def test_score_by_hand():
    model = RepeatLast(2).fit(daily([0.0, 2.0, 0.0, 2.0]))  # deviation 1, last value 2
    assert model.score(daily([3.0, 5.0], "2024-01-05")) == pytest.approx(-2.0)


def test_history_grows_with_longer_data():
    model = RepeatLast(2).fit(daily([0.0, 2.0, 0.0, 2.0]))
    # Windows [3, 5] from 2, [6, 6] from 5 and [9] from 6.
    assert model.score(daily([3.0, 5.0, 6.0, 6.0, 9.0], "2024-01-05")) == pytest.approx(-(1 + 3 + 1 + 1 + 3) / 5)


def test_missing_truth_is_not_scored():
    model = RepeatLast(2).fit(daily([0.0, 2.0, 0.0, 2.0]))
    assert model.score(daily([np.nan, 5.0], "2024-01-05")) == pytest.approx(-3.0)
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(daily([np.nan, np.nan], "2024-01-05"))


def test_targets_count_alike_whatever_their_unit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"], index=pd.date_range("2024-01-01", periods=120))
    scores = [SeasonalNaive(7).fit(data.iloc[:100]).score(data.iloc[100:]) for data in (frame, frame * [1.0, 1e6])]
    assert scores[0] == pytest.approx(scores[1])


def test_series_count_alike_whatever_their_length():
    model = RepeatLast(1).fit(panel_frame({"a": [0, 2, 0, 2], "b": [0, 20, 0, 20]}))
    after = panel_frame({"a": [3], "b": [20, 20, 20]}, "2024-01-05")  # scaled errors 1 and 0
    assert model.score(after) == pytest.approx(-0.5)
    assert model.score(after[after["unique_id"] == "a"]) == pytest.approx(-1.0)


@pytest.mark.parametrize("start", ["2024-01-04", "2024-01-06"])
def test_data_must_start_right_after_training(start):
    model = RepeatLast(2).fit(daily([0.0, 2.0, 0.0, 2.0]))
    with pytest.raises(ValueError, match=rf"they end at 2024-01-04.*must start at 2024-01-05.*starts at {start}"):
        model.score(daily([3.0, 5.0], start))


def test_late_series_of_a_panel_is_named():
    model = RepeatLast(2).fit(panel_frame({"a": [0, 2, 0, 2], "b": [0, 20, 0, 20, 0]}))
    with pytest.raises(ValueError, match=r"series 'b'.*2024-01-06.*2024-01-05"):
        model.score(panel_frame({"a": [1, 1], "b": [1, 1]}, "2024-01-05"))


def test_unknown_series_is_named():
    model = RepeatLast(2).fit(panel_frame({"a": [0, 2, 0, 2]}))
    with pytest.raises(ValueError, match="'c'"):
        model.score(panel_frame({"a": [1], "c": [1]}, "2024-01-05"))
    with pytest.raises(ValueError, match="unique_id"):
        model.score(daily([1.0, 1.0], "2024-01-05"))


def test_array_is_taken_to_follow():
    model = RepeatLast(2).fit(np.array([0.0, 2.0, 0.0, 2.0]))
    assert model.score(np.array([3.0, 5.0])) == pytest.approx(-2.0)


def test_constant_training_rows_cannot_scale():
    with pytest.raises(ValueError, match="varies in the training rows"):
        RepeatLast(2).fit(daily([1.0, 1.0, 1.0])).score(daily([1.0, 2.0], "2024-01-04"))


def test_time_zone_and_clock_change():
    index = pd.date_range("2024-03-25", periods=200, freq="h", tz="Europe/Amsterdam")
    series = pd.Series(np.sin(np.arange(200) * np.pi / 12), index=index, name="load")
    model = RidgeForecaster(24, context_length=48).fit(series.iloc[:140])
    assert model.score(series.iloc[140:]) > -0.1
    with pytest.raises(ValueError, match="starts at 2024-03-31 00:00:00"):
        model.score(series.iloc[144:])
