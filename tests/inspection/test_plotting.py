"""Pictures: what is drawn where, for every layout of data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tsformer import RepeatLast, SeasonalNaive, backtest, backtest_metrics
from tsformer.inspection.plotting import plot_backtest, plot_forecast

DAYS = pd.date_range("2024-01-01", periods=120, freq="D")
WAVE = 10 + np.sin(2 * np.pi * np.arange(120) / 7)


def lines(axis) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {line.get_label(): (line.get_xdata(), line.get_ydata()) for line in axis.lines}


def panels(figure: Figure) -> list:
    return [axis for axis in figure.axes if axis.axison]


def wide() -> pd.DataFrame:
    return pd.DataFrame({"a": WAVE, "b": 2 * WAVE, "c": 3 * WAVE}, index=DAYS)


def test_a_notebook_shows_the_picture_without_pyplot():
    frame = wide()
    assert plot_forecast(frame, SeasonalNaive(5).fit(frame).predict())._repr_png_().startswith(b"\x89PNG")


def test_wide():
    frame = wide()
    forecast = SeasonalNaive(5).fit(frame).predict()
    axes = panels(plot_forecast(frame, forecast))
    assert [axis.get_title(loc="left") for axis in axes] == ["a", "b", "c"]
    for axis, name in zip(axes, "abc", strict=True):
        drawn = lines(axis)
        np.testing.assert_array_equal(drawn["history"][1], frame[name].iloc[-60:])
        # The line starts at the last value known.
        np.testing.assert_array_equal(drawn["forecast"][1], [frame[name].iloc[-1], *forecast[name]])
        assert drawn["forecast"][0][-1] == DAYS[-1] + pd.Timedelta(days=5)


def test_long_with_one_target_has_a_panel_a_series():
    frame = pd.concat([pd.DataFrame({"unique_id": i, "ds": DAYS, "y": WAVE * (i + 1)}) for i in range(3)])
    forecast = SeasonalNaive(5).fit(frame).predict()
    axes = panels(plot_forecast(frame.sample(frac=1, random_state=0), forecast))  # rows in any order
    assert [axis.get_title(loc="left") for axis in axes] == ["0", "1", "2"]
    np.testing.assert_allclose(lines(axes[2])["history"][1], 3 * WAVE[-60:])
    assert len(panels(plot_forecast(frame, forecast, max_panels=2))) == 2


def test_long_with_several_targets():
    frame = pd.DataFrame({"unique_id": "s", "ds": DAYS, "u": WAVE, "v": 2 * WAVE})
    forecast = SeasonalNaive(5, target_cols=["u", "v"]).fit(frame).predict()
    axes = panels(plot_forecast(frame, forecast))
    assert [axis.get_title(loc="left") for axis in axes] == ["s · u", "s · v"]
    assert len(panels(plot_forecast(frame, forecast, targets=["v"]))) == 1


def test_series_and_array():
    series = pd.Series(WAVE, index=DAYS, name="load")
    (axis,) = panels(plot_forecast(series, SeasonalNaive(5).fit(series).predict()))
    assert axis.get_title(loc="left") == "load"
    (axis,) = panels(plot_forecast(WAVE, SeasonalNaive(5, season_length=7).fit(WAVE).predict()))
    assert lines(axis)["forecast"][0].tolist() == list(range(119, 125))


def test_intervals_are_bands_and_truth_a_line():
    frame = wide()[["a"]]
    forecast = SeasonalNaive(5).fit(frame.iloc[:-5]).predict()
    for suffix, shift in (("-lo-80", -1), ("-hi-80", 1), ("-lo-95", -2), ("-hi-95", 2)):
        forecast[f"a{suffix}"] = forecast["a"] + shift
    (axis,) = panels(plot_forecast(frame.iloc[:-5], forecast, truth=frame.iloc[-5:]))
    assert {band.get_label() for band in axis.collections} == {"80 %", "95 %"}
    np.testing.assert_array_equal(lines(axis)["truth"][1], WAVE[-5:])


def test_without_history():
    forecast = SeasonalNaive(5).fit(wide()).predict()
    axes = panels(plot_forecast(None, forecast))
    assert len(axes) == 3 and "history" not in lines(axes[0])


def test_zone_and_missing_end():
    frame = wide().tz_localize("Europe/Amsterdam")
    frame.iloc[-2:, 0] = np.nan
    (axis,) = panels(plot_forecast(frame, SeasonalNaive(5, freq="D").fit(frame).predict(), targets=["a"]))
    assert len(lines(axis)["forecast"][1]) == 5  # nothing known to start from


def test_nothing_to_draw():
    forecast = SeasonalNaive(5).fit(wide()).predict()
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_forecast(wide(), forecast, targets=["z"])


def test_arguments_are_left_alone(tmp_path):
    frame = wide()
    forecast = SeasonalNaive(5).fit(frame).predict()
    before = frame.copy(), forecast.copy()
    plot_forecast(frame, forecast).savefig(tmp_path / "picture.png")
    pd.testing.assert_frame_equal(frame, before[0])
    pd.testing.assert_frame_equal(forecast, before[1])


# ------------------------------------------------------------------ backtests


def test_backtest_draws_every_window():
    data = wide()
    frame = backtest([SeasonalNaive(5), RepeatLast(5)], data, windows=3, step=2)
    frame["SeasonalNaive-lo-80"], frame["SeasonalNaive-hi-80"] = frame["SeasonalNaive"] - 1, frame["SeasonalNaive"] + 1
    figure = plot_backtest(frame, by_step=backtest_metrics(frame, data).by_step)
    *axes, errors = panels(figure)
    assert [axis.get_title(loc="left") for axis in axes] == ["a", "b", "c"]
    for axis, name in zip(axes, "abc", strict=True):
        np.testing.assert_array_equal(lines(axis)["truth"][1], data[name].iloc[-9:])
        drawn = [line for line in axis.lines if line.get_label() == "forecast"]
        expected = frame.loc[frame["target"] == name, "SeasonalNaive"].to_numpy().reshape(3, 5)
        np.testing.assert_array_equal([line.get_ydata() for line in drawn], expected)
        assert len(axis.collections) == 3  # a band each
    assert errors.get_title(loc="left") == "MASE by step"
    assert list(lines(errors)) == ["SeasonalNaive", "RepeatLast"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["truth", "80 %", "forecast"]


def test_names_are_no_formulas(tmp_path):
    data = wide().rename(columns={"a": "a$b^$"})
    models = {"low$_$": SeasonalNaive(5), "$^$": RepeatLast(5)}
    frame = backtest(models, data, windows=2)
    figure = plot_backtest(frame, by_step=backtest_metrics(frame, data).by_step)
    figure.savefig(tmp_path / "picture.png")
    assert panels(figure)[0].get_title(loc="left") == "a$b^$"
    plot_forecast(data, models["$^$"].fit(data).predict()).savefig(tmp_path / "picture.png")


def test_backtest_of_many_series():
    frame = pd.concat([pd.DataFrame({"unique_id": i, "ds": np.arange(40), "y": WAVE[:40] * (i + 1)}) for i in range(3)])
    result = backtest(RepeatLast(5), frame, windows=2)
    figure = plot_backtest(result, by_step=backtest_metrics(result).by_step, max_panels=2)
    assert [axis.get_title(loc="left") for axis in panels(figure)] == ["0", "1", "MAE by step"]
    with pytest.raises(ValueError, match="no forecasts of 'x', there are RepeatLast"):
        plot_backtest(result, model="x")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_backtest(result.iloc[:0])
