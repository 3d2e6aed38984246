"""Backtests: which windows, what a forecast may know, refits, layouts, and metrics against numbers by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from utilsforecast import losses
from utilsforecast.evaluation import evaluate

from tsformer import (
    RepeatLast,
    RidgeForecaster,
    SeasonalNaive,
    TransformerForecaster,
    backtest,
    backtest_metrics,
)
from tsformer.evaluation.backtest import rolling_origins

DAYS = pd.date_range("2024-01-01", periods=120)


def panel(n: int = 120, names: str = "ab") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    season = np.sin(2 * np.pi * np.arange(n) / 7)
    return pd.concat(
        [
            pd.DataFrame(
                {"unique_id": name, "ds": DAYS[:n], "y": 10 * (i + 1) * (3 + season + 0.2 * rng.normal(size=n))}
            )
            for i, name in enumerate(names)
        ],
        ignore_index=True,
    )


class Recorder(RepeatLast):
    """Counts the rows of each series that it was fitted on."""

    seen: list[list[int]] = []

    def fit_panel(self, panel):
        Recorder.seen.append(panel.lengths.tolist())
        return super().fit_panel(panel)


@pytest.fixture
def fits():
    Recorder.seen = []
    return Recorder.seen


# ------------------------------------------------------------------ windows


def test_cut_offs_end_with_the_data():
    frame = backtest(RepeatLast(4), panel(), windows=3, step=2)
    assert list(frame.columns) == ["unique_id", "cutoff", "ds", "y", "RepeatLast"]
    assert len(frame) == 2 * 3 * 4
    first = frame[frame["unique_id"] == "a"]
    assert first["cutoff"].unique().tolist() == [DAYS[111], DAYS[113], DAYS[115]]
    assert frame["ds"].max() == DAYS[-1]
    ahead = (frame["ds"] - frame["cutoff"]).dt.days
    assert ahead.tolist() == [1, 2, 3, 4] * 6
    data = panel().set_index(["unique_id", "ds"])["y"]
    index = pd.MultiIndex.from_frame(frame[["unique_id", "ds"]])
    np.testing.assert_array_equal(frame["y"], data.loc[index])
    np.testing.assert_array_equal(
        frame["RepeatLast"], data.loc[pd.MultiIndex.from_arrays([frame["unique_id"], frame["cutoff"]])]
    )


def test_series_of_other_lengths_have_cut_offs_of_their_own():
    short = panel(9, "c").assign(ds=pd.date_range("2020-01-01", periods=9))
    frame = backtest(RepeatLast(4), pd.concat([panel(), short]), windows=3)
    assert frame.groupby("unique_id")["cutoff"].nunique().to_dict() == {"a": 3, "b": 3, "c": 2}
    assert frame.loc[frame["unique_id"] == "c", "cutoff"].min() == pd.Timestamp("2020-01-01")


def test_too_short():
    with pytest.raises(ValueError, match="longest has 4 rows, and horizon=4 needs 5"):
        backtest(RepeatLast(4), panel(4))
    with pytest.warns(UserWarning, match="of 13 rows, has 5 windows: there are 3"):
        frame = backtest(RepeatLast(4), panel(13), windows=5)
    assert frame["cutoff"].nunique() == 3


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"windows": 0}, ValueError, "windows must be at least 1"),
        ({"step": 0}, ValueError, "step"),
        ({"horizon": 1.5}, TypeError, "horizon"),
        ({"refit": 0}, ValueError, "refit"),
        ({"refit": "yes"}, TypeError, "refit"),
        ({"level": [80]}, ValueError, "point forecasts only"),
    ],
)
def test_wrong_options(options, error, words):
    with pytest.raises(error, match=words):
        backtest(RepeatLast(4), panel(), **options)


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({}, {"level": [80]}, "need a model fitted with calibrate=True"),
        ({"loss": "quantile"}, {"level": [99.9]}, "outside the trained ones"),
        ({"loss": "normal"}, {"level": [180]}, "level is a coverage in percent"),
        ({"positional_encoding": "learned"}, {"horizon": 30, "windows": 1}, "horizon=30 is beyond the 4 steps"),
        ({"d_model": 15}, {}, "d_model=15 must be a multiple of nhead=2"),
        ({}, {"name": "y"}, "a forecaster cannot be named 'y': 'y' is another column of the result"),
        ({}, {"name": "id"}, "cannot be named 'id'"),
        ({}, {"name": "ds"}, "cannot be named 'ds'"),
        ({}, {"name": "cutoff"}, "cannot be named 'cutoff'"),
        ({"loss": "normal"}, {"level": [80], "more": "m-lo-80"}, "'m-lo-80' is another column of the result"),
        ({"id_col": "cutoff"}, {}, "id column cannot be named 'cutoff', .* rename it, and set id_col"),
        ({"id_col": "y", "target_cols": "v"}, {}, "id column cannot be named 'y'"),
        ({"time_col": "cutoff"}, {}, "time column cannot be named 'cutoff', .* rename it, and set time_col"),
        ({"time_col": "y", "target_cols": "v"}, {}, "time column cannot be named 'y'"),
    ],
)
def test_what_is_refused_is_refused_before_the_training(small, monkeypatch, settings, options, words):
    monkeypatch.setattr(TransformerForecaster, "fit_panel", lambda *_: pytest.fail("trained"))
    named = {"unique_id": settings.get("id_col", "unique_id"), "ds": settings.get("time_col", "ds")}
    data = panel().rename(columns={"y": settings.get("target_cols", "y")} | named)
    models = {options.pop("name", "m"): small(4, **settings)}
    if "more" in options:
        models[options.pop("more")] = RepeatLast(4)
    with pytest.raises(ValueError, match=words):
        backtest(models, data, **options)


def test_every_forecaster_is_checked_before_the_first_is_trained(small, monkeypatch):
    monkeypatch.setattr(TransformerForecaster, "fit_panel", lambda *_: pytest.fail("trained"))
    with pytest.raises(ValueError, match="learning_rate must be above 0"):
        backtest({"good": small(4), "bad": small(4, learning_rate=-1)}, panel())


def test_intervals_that_come_with_a_loaded_model(small, monkeypatch):
    """Its parameters say nothing of them after a refit on the command line; its own errors do, where it is used."""
    model = small(4, calibrate=True).fit(panel().head(100)).set_params(calibrate=False)
    assert "TransformerForecaster-lo-80" in backtest(model, panel().head(120), windows=1, level=80)
    quantiles = small(4, loss="quantile").fit(panel().head(100)).set_params(loss="mae")
    assert "TransformerForecaster-lo-80" in backtest(quantiles, panel().head(120), windows=1, level=80)
    monkeypatch.setattr(TransformerForecaster, "fit_panel", lambda *_: pytest.fail("trained"))
    for rows, refit in ((120, True), (100, False)):  # in 100 rows it has seen the forecast ones: it is not used
        with pytest.raises(ValueError, match="calibrate=True"):
            backtest(model, panel().head(rows), windows=1, level=80, refit=refit)


def test_missing_truth_stays_missing():
    data = panel()
    data.loc[115, "y"] = np.nan
    frame = backtest(RepeatLast(4), data, windows=3)
    assert frame["y"].isna().sum() == 1 and frame["RepeatLast"].notna().all()


def test_many_windows_are_forecast_part_by_part(monkeypatch):
    data = panel()
    untouched = data.copy()
    whole = backtest(SeasonalNaive(4), data, windows=5)
    monkeypatch.setattr("tsformer.evaluation.backtest.CHUNK", 3)
    pd.testing.assert_frame_equal(backtest(SeasonalNaive(4), data, windows=5), whole)
    pd.testing.assert_frame_equal(data, untouched)


# ------------------------------------------------------------------ what a forecast knows


def test_future_does_not_change_earlier_forecasts(small):
    data = panel()
    tampered = data.copy()
    tampered.loc[tampered["ds"] > DAYS[105], "y"] = 1e4
    options = dict(windows=4, step=5, refit=True)
    models = {"ours": small(5, max_steps=2), "ridge": RidgeForecaster(5, context_length=14)}
    before, after = (backtest(models, frame, **options) for frame in (data, tampered))
    known = before["cutoff"] <= DAYS[105]
    assert before.loc[known, "cutoff"].nunique() == 2
    pd.testing.assert_frame_equal(before.loc[known].drop(columns="y"), after.loc[known].drop(columns="y"))
    assert (before.loc[~known, "ours"] != after.loc[~known, "ours"]).all()


def test_a_single_fit_sees_nothing_after_the_first_cut_off(small):
    data = panel()
    tampered = data.copy()
    tampered.loc[tampered["ds"] > DAYS[99], "y"] *= 7
    before, after = (backtest(small(5, max_steps=2), frame, windows=4) for frame in (data, tampered))
    first = before["cutoff"] == DAYS[99]
    assert first.sum() == 10
    np.testing.assert_array_equal(before.loc[first, "TransformerForecaster"], after.loc[first, "TransformerForecaster"])


def test_equals_fit_and_predict_by_hand(small):
    data = panel()
    model = small(5)
    frame = backtest(model, data, windows=2, refit=True)
    assert not hasattr(model, "model_")
    for cutoff in frame["cutoff"].unique():
        by_hand = small(5).fit(data[data["ds"] <= cutoff]).predict()
        ours = frame[frame["cutoff"] == cutoff]
        assert ours["ds"].tolist() == by_hand["ds"].tolist()
        np.testing.assert_allclose(ours["TransformerForecaster"], by_hand["TransformerForecaster"], rtol=1e-6)


@pytest.mark.parametrize(
    ("refit", "rows"),
    [(False, [92]), (True, [92, 96, 100, 104, 108, 112, 116]), (3, [92, 104, 116]), (10, [92])],
)
def test_refits(fits, refit, rows):
    backtest(Recorder(4), panel(), windows=7, refit=refit)
    assert fits == [[n, n] for n in rows]


def test_short_series_is_not_fitted_ahead_of_the_others(fits):
    backtest(Recorder(4), pd.concat([panel(), panel(9, "c")]), windows=3, refit=2)
    assert fits == [[108, 108, 0], [116, 116, 5]]


def test_fitted_forecaster_is_used_where_it_saw_nothing_later(fits, small):
    data = panel()
    model = Recorder(4).fit(data[data["ds"] <= DAYS[99]])
    backtest(model, data, windows=5)  # the first cut-off is DAYS[99]
    assert fits == [[100, 100]]
    backtest(model, data, windows=6)
    assert fits == [[100, 100], [96, 96]]
    backtest(model, data, windows=1, refit=True)
    assert fits[2:] == [[116, 116]]
    backtest(model, data.rename(columns={"y": "z"}).assign(y=data["y"].to_numpy()), windows=1)
    assert len(fits) == 3

    fitted = small(4).fit(data[data["ds"] <= DAYS[99]])
    frame = backtest(fitted, data, windows=2)
    by_hand = fitted.predict(data[data["ds"] <= DAYS[115]])
    last = frame[frame["cutoff"] == DAYS[115]]
    np.testing.assert_allclose(last["TransformerForecaster"], by_hand["TransformerForecaster"], rtol=1e-6)


def test_forecaster_without_its_history_is_fitted_anew(small, tmp_path):
    import tsformer

    data = panel()
    fitted = small(4).fit(data[data["ds"] <= DAYS[99]])
    bare = tsformer.load(fitted.save(tmp_path / "model", include_history=False))
    a, b = (backtest(model, data, windows=2) for model in (bare, small(4)))
    np.testing.assert_array_equal(a["TransformerForecaster"], b["TransformerForecaster"])


# ------------------------------------------------------------------ frames


def test_intervals_have_the_names_of_predict(small):
    data = panel()
    model = small(5, loss="quantile")
    frame = backtest([model, SeasonalNaive(5)], data, windows=2, level=[80, 95], quantiles=[0.5])
    heads = ["", "-median", "-lo-80", "-hi-80", "-lo-95", "-hi-95"]
    names = [f"TransformerForecaster{suffix}" for suffix in heads]
    assert list(frame.columns) == ["unique_id", "cutoff", "ds", "y", *names, "SeasonalNaive"]
    fitted = small(5, loss="quantile").fit(data[data["ds"] <= DAYS[109]])
    by_hand = fitted.predict(level=[80, 95], quantiles=[0.5])
    first = frame[frame["cutoff"] == DAYS[109]]
    np.testing.assert_allclose(first[names], by_hand[names], rtol=1e-6)
    with pytest.raises(ValueError, match="quantile"):
        backtest(small(5), data, windows=2, level=[80])


def test_several_forecasters_and_their_names():
    data = panel()
    frame = backtest({"week": SeasonalNaive(7), "day": SeasonalNaive(7, season_length=1)}, data, windows=2)
    last = backtest([RepeatLast(7), SeasonalNaive(7)], data, windows=2)
    np.testing.assert_array_equal(frame["day"], last["RepeatLast"])
    np.testing.assert_array_equal(frame["week"], last["SeasonalNaive"])
    with pytest.raises(ValueError, match="need names"):
        backtest([RepeatLast(7), RepeatLast(3)], data)
    with pytest.raises(ValueError, match="prediction_length differ .*: set horizon"):
        backtest([RepeatLast(7), SeasonalNaive(3)], data)
    assert len(backtest([RepeatLast(7), SeasonalNaive(3)], data, horizon=2, windows=1)) == 4
    with pytest.raises(ValueError, match="targets"):
        wide = data.assign(z=data["y"])
        backtest([RepeatLast(7, target_cols=["y", "z"]), SeasonalNaive(7, target_cols="y")], wide)
    with pytest.raises(ValueError, match="'y'"):
        backtest({"y": RepeatLast(7)}, data)
    for nothing in (RepeatLast, "naive"):
        with pytest.raises(TypeError, match="no forecaster"):
            backtest(nothing, data)


def test_wide_frame_has_its_targets():
    values = np.arange(240.0).reshape(120, 2)
    for data, time in (
        (pd.DataFrame(values, columns=["u", "v"], index=DAYS), "ds"),
        (pd.DataFrame(values, columns=["u", "v"]).assign(when=DAYS), "when"),
    ):
        frame = backtest(RepeatLast(3, time_col=time), data, windows=2)
        assert list(frame.columns) == ["unique_id", "cutoff", time, "target", "y", "RepeatLast"]
        assert frame["unique_id"].tolist() == frame["target"].tolist() == ["u", "v"] * 6
        assert (frame["y"] - frame["RepeatLast"]).tolist() == [2, 2, 4, 4, 6, 6] * 2
        metrics = backtest_metrics(frame, data, time_col=time, season_length=1)
        mase = metrics.by_series.query("metric == 'mase'")
        assert mase["RepeatLast"].tolist() == [2.0, 2.0] and mase["target"].tolist() == ["u", "v"]


def test_series_and_arrays():
    values = np.arange(120.0)
    frame = backtest(RepeatLast(3), pd.Series(values, index=DAYS, name="load"), windows=2)
    assert frame["unique_id"].unique().tolist() == ["load"] and frame["cutoff"].iloc[0] == DAYS[113]
    frame = backtest(RepeatLast(3), values, windows=2)
    assert frame["cutoff"].unique().tolist() == [113, 116] and frame["y"].tolist() == [*range(114, 120)]
    frame = backtest(RepeatLast(3), np.stack([values, values], 1), windows=2)
    assert frame["target"].unique().tolist() == ["y0", "y1"]
    assert backtest_metrics(frame, np.stack([values, values], 1)).overall["RepeatLast"].notna().all()


def test_columns_and_dtypes_as_they_came():
    data = panel().rename(columns={"unique_id": "shop", "ds": "day", "y": "sold"})
    data["shop"] = data["shop"].astype("category")
    data["day"] = data["day"].dt.tz_localize("Europe/Amsterdam")
    names = dict(id_col="shop", time_col="day")
    frame = backtest(RepeatLast(40, target_cols="sold", **names), data, windows=2)  # over the change of the clock
    assert list(frame.columns) == ["shop", "cutoff", "day", "y", "RepeatLast"]
    assert frame.dtypes["shop"] == data.dtypes["shop"]
    assert frame.dtypes["cutoff"] == frame.dtypes["day"] == data.dtypes["day"]
    metrics = backtest_metrics(frame, data, target_cols="sold", **names)
    plain = panel()
    expected = backtest_metrics(backtest(RepeatLast(40), plain, windows=2), plain)
    np.testing.assert_allclose(metrics.overall["RepeatLast"], expected.overall["RepeatLast"])


def test_long_with_several_targets():
    data = panel().assign(z=lambda rows: 2 * rows["y"])
    model = RepeatLast(3, target_cols=["y", "z"])
    frame = backtest(model, data, windows=2)
    assert list(frame.columns) == ["unique_id", "cutoff", "ds", "target", "y", "RepeatLast"]
    overall = backtest_metrics(frame, data, target_cols=["y", "z"]).overall
    scores = overall.pivot(index="metric", columns="target", values="RepeatLast")
    assert scores.loc["mae", "z"] == pytest.approx(2 * scores.loc["mae", "y"])
    assert scores.loc["mase", "z"] == pytest.approx(scores.loc["mase", "y"])


# ------------------------------------------------------------------ metrics


def by_hand() -> pd.DataFrame:
    """Two cut-offs of two steps of one series, with an interval."""
    return pd.DataFrame(
        {
            "unique_id": "a",
            "cutoff": [3, 3, 5, 5],
            "ds": [4, 5, 6, 7],
            "y": [10.0, 20.0, 30.0, 40.0],
            "m": [12.0, 16.0, 30.0, 50.0],
            "m-lo-80": [9.0, 10.0, 31.0, 35.0],
            "m-hi-80": [13.0, 19.0, 33.0, 55.0],
            "naive": [10.0, 10.0, 10.0, 10.0],
        }
    )


def scores(frame: pd.DataFrame, model: str = "m") -> dict[str, float]:
    return frame.set_index("metric")[model].to_dict()


def test_metrics_by_hand():
    insample = pd.DataFrame({"unique_id": "a", "ds": range(8), "y": [0.0, 1.0, 3.0, 6.0, 10.0, 20.0, 30.0, 40.0]})
    metrics = backtest_metrics(by_hand(), insample, season_length=1)
    found = scores(metrics.by_series)
    assert found["mae"] == pytest.approx((2 + 4 + 0 + 10) / 4)
    assert found["rmse"] == pytest.approx(np.sqrt((4 + 16 + 0 + 100) / 4))
    assert found["smape"] == pytest.approx((2 / 22 + 4 / 36 + 0 + 10 / 90) / 4)
    assert found["wape"] == pytest.approx(16 / 100)
    assert found["coverage_level80"] == pytest.approx(2 / 4)
    # Changes before the cut-offs: 1, 2, 3; and 1, 2, 3, 4, 10.
    assert found["mase"] == pytest.approx((2 / 2 + 4 / 2 + 0 / 4 + 10 / 4) / 4)
    assert found["rmsse"] == pytest.approx(np.sqrt((20 / (14 / 3) + 100 / (130 / 5)) / 4))
    low, high = [0.1, 1.0, 0.9, 0.5], [0.3, 0.9, 0.3, 1.5]  # quantile losses at .1 and .9
    assert found["scaled_crps"] == pytest.approx(2 * (np.mean(low) + np.mean(high)) / 2 * 4 / 100)
    unit = np.array([2, 2, 4, 4])
    assert found["scaled_mqloss"] == pytest.approx((np.mean(low / unit) + np.mean(high / unit)) / 2)
    assert np.isnan(scores(metrics.by_series, "naive")["coverage_level80"])
    assert scores(metrics.overall) == found
    steps = metrics.by_step.query("metric == 'mae'")
    assert steps["step"].tolist() == [1, 2]
    assert steps["m"].tolist() == [1.0, 7.0] and steps["naive"].tolist() == [10.0, 20.0]
    without = backtest_metrics(by_hand())
    assert set(scores(without.overall)) == {"mae", "rmse", "smape", "wape", "scaled_crps", "coverage_level80"}


def test_rows_in_any_order_and_missing_truth():
    frame = by_hand()
    expected = backtest_metrics(frame)
    shuffled = backtest_metrics(frame.sample(frac=1, random_state=0))
    for one, other in zip(expected, shuffled, strict=True):
        pd.testing.assert_frame_equal(one, other)
    frame.loc[3, "y"] = np.nan
    found = scores(backtest_metrics(frame).overall)
    assert found["mae"] == pytest.approx(2.0) and found["coverage_level80"] == pytest.approx(1 / 3)
    frame.loc[0, "m"] = np.nan
    with pytest.raises(ValueError, match="m has missing forecasts"):
        backtest_metrics(frame)
    with pytest.raises(ValueError, match="'cutoff' is missing"):
        backtest_metrics(frame.drop(columns="cutoff"))


@pytest.fixture(scope="module")
def quantile_backtest():
    data = pd.concat([panel(), panel(60, "c")])
    rng = np.random.default_rng(0)
    frame = backtest([SeasonalNaive(6), RepeatLast(6)], data, windows=4, step=5)
    for model in ("SeasonalNaive", "RepeatLast"):
        width = rng.uniform(0, 5, len(frame))
        for level, factor in ((80, 1), (95, 2)):
            frame[f"{model}-lo-{level}"] = frame[model] - factor * width
            frame[f"{model}-hi-{level}"] = frame[model] + factor * width
    return frame, data


def test_metrics_are_those_of_utilsforecast(quantile_backtest):
    frame, data = quantile_backtest
    models = ["SeasonalNaive", "RepeatLast"]
    pooled = ["mae", "rmse", "smape", "scaled_crps", "coverage"]
    pooled += ["wape"] if hasattr(losses, "wape") else []
    ours = backtest_metrics(frame, data).by_series.set_index(["unique_id", "metric"])[models]
    theirs = evaluate(
        frame.drop(columns="cutoff"), [getattr(losses, name) for name in pooled], models=models, level=[80, 95]
    )
    theirs = theirs.set_index(["unique_id", "metric"])
    assert len(theirs) == 3 * (len(pooled) + 1)
    pd.testing.assert_frame_equal(ours.loc[theirs.index], theirs)

    # In units of the seasonal change: theirs by series and cut-off.
    if not hasattr(losses, "scaled_mqloss"):
        pytest.skip("this utilsforecast has no metrics by cut-off")
    by_window = evaluate(
        frame,
        [_with_season(getattr(losses, name)) for name in ("mase", "msse", "scaled_mqloss")],
        models=models,
        level=[80, 95],
        train_df=data,
    )
    means = by_window.groupby(["unique_id", "metric"])[models].mean().unstack("metric")
    for metric, expected in (
        ("mase", means.xs("mase", axis=1, level=1)),
        ("rmsse", np.sqrt(means.xs("msse", axis=1, level=1))),
        ("scaled_mqloss", means.xs("scaled_mqloss", axis=1, level=1)),
    ):
        np.testing.assert_allclose(ours.xs(metric, level="metric"), expected)


def _with_season(loss):
    from functools import partial, update_wrapper

    return update_wrapper(partial(loss, seasonality=7), loss)


def test_means_are_over_series(quantile_backtest):
    frame, data = quantile_backtest
    metrics = backtest_metrics(frame, data)
    order = list(metrics.overall["metric"])
    means = metrics.by_series.groupby("metric", sort=False)[["SeasonalNaive", "RepeatLast"]].mean()
    pd.testing.assert_frame_equal(metrics.overall.set_index("metric"), means.loc[order])
    third = frame[frame.groupby(["unique_id", "cutoff"]).cumcount() == 2]
    by_step = metrics.by_step.query("step == 3 and metric == 'rmse'")["RepeatLast"].item()
    errors = (third["y"] - third["RepeatLast"]) ** 2
    assert by_step == pytest.approx(np.sqrt(errors.groupby(third["unique_id"]).mean()).mean())
    assert len(metrics.by_step) == 6 * len(order)


def test_metrics_need_the_data_of_the_backtest():
    frame = backtest(RepeatLast(3), panel(), windows=2)
    for other in (panel(names="a"), panel(80)):
        with pytest.raises(ValueError, match="not the data of this backtest"):
            backtest_metrics(frame, other)


def test_constant_series_have_no_unit():
    data = pd.concat([panel(names="a"), panel(names="b").assign(y=5.0)])
    metrics = backtest_metrics(backtest(RepeatLast(3), data, windows=2), data)
    mase = metrics.by_series.query("metric == 'mase'").set_index("unique_id")["RepeatLast"]
    assert np.isnan(mase["b"]) and mase["a"] > 0
    assert metrics.overall.query("metric == 'mase'")["RepeatLast"].item() == mase["a"]


def test_origins():
    origins = rolling_origins(np.array([10, 3, 6]), windows=2, step=3, horizon=2)
    assert list(zip(origins.series.tolist(), origins.cutoffs.tolist(), strict=True)) == [
        (0, 5),
        (0, 8),
        (1, 1),
        (2, 1),
        (2, 4),
    ]
    assert origins.ends.tolist() == [[5, 0, 1], [8, 1, 4]]
