"""Frames of polars and pyarrow at the estimators' door: what goes in comes out."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import tsformer
from tsformer import SeasonalNaive, backtest, backtest_metrics

pl = pytest.importorskip("polars")

TIMES = {
    "days": (pl.Date, "2024-01-01", "D"),
    "microseconds": (pl.Datetime("us"), "2024-01-01", "D"),
    "hours over the clock change": (pl.Datetime("us", "Europe/Amsterdam"), "2023-10-26 22:00", "h"),
}


@pytest.fixture(params=TIMES, ids=str)
def frames(request, make_panel):
    """The same long data in pandas and in polars."""
    dtype, begin, freq = TIMES[request.param]
    zone = getattr(dtype, "time_zone", None)
    stamps = pd.date_range(begin, periods=100, freq=freq, tz=None if zone is None else "UTC").as_unit("us")
    ours = make_panel({"a": 5.0, "b": 50.0}, n=100)
    ours["ds"] = list(stamps if zone is None else stamps.tz_convert(zone)) * 2
    theirs = pl.DataFrame({"unique_id": ours["unique_id"].tolist(), "y": ours["y"].to_numpy()})
    utc = pl.Series(
        ours["ds"].dt.tz_localize(None).to_numpy() if zone is None else np.tile(stamps.tz_localize(None), 2)
    )
    utc = utc.cast(dtype) if zone is None else utc.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    return ours, theirs.with_columns(ds=utc).select("unique_id", "ds", "y")


def same(theirs: pl.DataFrame, ours: pd.DataFrame) -> bool:
    """Whether two frames hold the same names, instants and numbers."""
    assert isinstance(theirs, pl.DataFrame) and theirs.columns == list(ours)
    for name in theirs.columns:
        column, expected = theirs[name], ours[name]
        if column.dtype.is_temporal():
            wanted = expected.dt.tz_convert("UTC").dt.tz_localize(None) if expected.dt.tz is not None else expected
            column = column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if wanted is not expected else column
            np.testing.assert_array_equal(column.to_numpy(), wanted.to_numpy())
        elif column.dtype.is_numeric():
            np.testing.assert_array_equal(column.to_numpy(), expected.to_numpy())
        else:
            assert column.to_list() == expected.tolist()
    return True


def test_polars_in_polars_out(small, frames):
    ours, theirs = frames
    before = theirs.clone()
    plain = small(calibrate=True, validation_size=0.3).fit(ours)
    forecaster = small(calibrate=True, validation_size=0.3).fit(theirs)
    forecast = forecaster.predict(level=80)
    assert same(forecast, plain.predict(level=80))
    assert forecast.schema["ds"] == theirs.schema["ds"]
    assert same(forecaster.predict(theirs, horizon=3), plain.predict(ours, horizon=3))
    assert isinstance(forecaster.predict(ours), pd.DataFrame)  # as the history, not as the training data
    assert same(plain.predict(theirs), plain.predict(ours))
    given = forecast.select("unique_id", "ds", y=pl.lit(1.0)).head(3)
    assert same(forecaster.predict(theirs, given=given), plain.predict(given=plain.predict().assign(y=1.0).head(3)))
    assert theirs.equals(before)


def test_score_and_backtest_take_polars(small, frames):
    ours, theirs = frames
    is_history = ours.groupby("unique_id").cumcount() < 90
    parts = ours[is_history], ours[~is_history]
    of_theirs = theirs.filter(pl.Series(is_history.to_numpy())), theirs.filter(pl.Series(~is_history.to_numpy()))
    assert small().fit(of_theirs[0]).score(of_theirs[1]) == small().fit(parts[0]).score(parts[1])
    models = [small(loss="quantile"), SeasonalNaive(7)]
    result, expected = (backtest(models, df, windows=2, level=80) for df in (theirs, ours))
    assert same(result, expected)
    assert result.schema["ds"] == result.schema["cutoff"] == theirs.schema["ds"]
    for table, wanted in zip(backtest_metrics(result, theirs), backtest_metrics(expected, ours), strict=True):
        assert same(table, wanted)


def test_pictures_of_polars_frames(small, make_panel):
    from tsformer.inspection.plotting import plot_backtest, plot_forecast

    theirs = pl.from_dicts(make_panel({"a": 5.0}).assign(ds=lambda d: d.ds.dt.date).to_dict("records"))
    forecaster = small(calibrate=True, validation_size=0.3).fit(theirs)
    axis = plot_forecast(theirs, forecaster.predict(level=[80, 90])).axes[0]
    assert len(axis.collections) == 2  # bands
    result = backtest(forecaster, theirs, windows=2, level=80)
    assert len(plot_backtest(result, by_step=backtest_metrics(result).by_step).axes) == 2


def test_baselines_give_polars_back(make_panel):
    ours = make_panel({"a": 5.0, "b": 50.0})
    theirs = pl.DataFrame(
        {name: ours[name].to_numpy() for name in ("ds", "y")} | {"unique_id": ours.unique_id.tolist()}
    )
    baseline = SeasonalNaive(7).fit(theirs)
    expected = SeasonalNaive(7).fit(ours).predict()
    assert same(baseline.predict(), expected) and same(baseline.predict(theirs), expected)


def test_a_file_does_not_know_of_polars(small, make_panel, tmp_path):
    theirs = pl.DataFrame({"ds": make_panel({"a": 5.0})["ds"].to_numpy(), "load": np.arange(120.0)})
    forecaster = small().fit(theirs)
    assert forecaster.predict().columns == ["ds", "load"]
    assert isinstance(pickle.loads(pickle.dumps(forecaster)).predict(), pl.DataFrame)
    again = tsformer.load(forecaster.save(tmp_path / "model"))
    assert isinstance(again.predict(), pd.DataFrame)
    assert isinstance(again.predict(theirs), pl.DataFrame)


def test_pyarrow_tables(small, make_panel):
    pa = pytest.importorskip("pyarrow")
    ours = make_panel({"a": 5.0, "b": 50.0})
    table = pa.table({"unique_id": ours["unique_id"].tolist(), "ds": ours["ds"].to_numpy(), "y": ours["y"].to_numpy()})
    forecast = small().fit(table).predict()
    assert isinstance(forecast, pa.Table) and forecast.schema.field("ds").type == table.schema.field("ds").type
    np.testing.assert_array_equal(forecast[2].to_numpy(), small().fit(ours).predict().iloc[:, 2])


def test_a_polars_frame_whose_time_is_not_named(small, make_panel):
    theirs = pl.DataFrame({"when": make_panel({"a": 5.0})["ds"].to_numpy(), "load": np.arange(120.0)})
    with pytest.raises(ValueError, match="column 'when' holds dates, .* set time_col='when'"):
        small().fit(theirs)


def test_known_covariates_of_polars(small, make_panel):
    ours = make_panel({"a": 5.0, "b": 50.0}).assign(price=lambda d: d.y / 10)
    theirs = pl.DataFrame({name: ours[name].to_numpy() for name in ("ds", "y", "price")})
    theirs = theirs.with_columns(unique_id=pl.Series(ours["unique_id"].tolist()))
    settings = dict(known="price", calibrate=True, validation_size=0.3)
    forecasters = small(**settings).fit(ours), small(**settings).fit(theirs)
    futures = [forecaster.make_future() for forecaster in forecasters]
    assert isinstance(futures[1], pl.DataFrame)
    futures = futures[0].assign(price=1.5), futures[1].with_columns(price=pl.lit(1.5))
    given = forecasters[0].make_future().drop(columns="price").assign(y=1.0).head(2)
    expected, result = (
        forecaster.predict(future=future, level=80, given=given)
        for forecaster, future in zip(forecasters, futures, strict=True)
    )
    assert same(result, expected) and (result[:2, 2:] == 1.0).to_numpy().all()
