"""Covariates from the estimator's door to the forecast."""

import numpy as np
import pandas as pd
import pytest

import tsformer
from tsformer import RepeatLast, TransformerForecaster, backtest

OPTIONS = dict(
    context_length=24, patch_length=4, d_model=16, nhead=2, num_encoder_layers=1, dim_feedforward=32, verbose=False
)
NAMES = dict(known=["price", "promotion"], observed=["visits"], static=["kind"])


def sales(n_series=12, n=80, seed=0):
    """Sales that follow price and promotion alone."""
    rng = np.random.default_rng(seed)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{i:02}",
                "ds": pd.date_range("2024-01-01", periods=n),
                "price": np.round(rng.uniform(2, 4, n), 2),
                "promotion": rng.choice(["none", "leaflet"], n, p=[0.8, 0.2]),
                "visits": rng.normal(size=n),
                "kind": "ab"[i % 2],
            }
        )
        for i in range(n_series)
    ]
    df = pd.concat(parts, ignore_index=True)
    return df.assign(y=100 - 20 * df.price + 15 * (df.promotion == "leaflet") + rng.normal(0, 0.5, len(df)))


@pytest.fixture(scope="module")
def fitted():
    model = TransformerForecaster(8, **NAMES, **OPTIONS, max_steps=150, learning_rate=1e-2)
    return model.fit(sales())


def plan(model, price=3.0, promotion="none"):
    return model.make_future().assign(price=price, promotion=promotion)


# ------------------------------------------------------------------ the future


@pytest.mark.parametrize(("price", "promotion"), [(2.5, "none"), (3.1, "leaflet"), (4.4, "none"), (1.7, "none")])
def test_the_forecast_follows_a_price_never_seen(fitted, price, promotion):
    forecast = fitted.predict(future=plan(fitted, price, promotion))
    expected = 100 - 20 * price + 15 * (promotion == "leaflet")
    assert forecast.TransformerForecaster.mean() == pytest.approx(expected, abs=3.0)
    assert (forecast.TransformerForecaster - expected).abs().mean() < 3.5


def test_the_forecast_follows_a_price_that_did_not_change_for_a_whole_context(fitted):
    flat = sales()
    late = flat.groupby("unique_id").cumcount() >= 50
    flat.loc[late, "price"], flat.loc[late, "promotion"] = 3.0, "none"
    flat.loc[late, "y"] = 40.0
    for price in (2.0, 4.0):
        forecast = fitted.predict(flat, future=plan(fitted, price)).TransformerForecaster
        assert (forecast - (100 - 20 * price)).abs().mean() < 4


def test_order_and_further_columns_of_the_future_change_nothing(fitted):
    rng = np.random.default_rng(1)
    future = plan(fitted)
    future["price"] = rng.uniform(2, 4, len(future))
    shuffled = future.sample(frac=1, random_state=0)[["promotion", "ds", "price", "unique_id"]].assign(note="x")
    assert fitted.predict(future=shuffled).equals(fitted.predict(future=future))


def test_what_the_future_lacks_is_said_before_anything_is_forecast(fitted):
    with pytest.raises(ValueError, match=r"known covariates of the steps to come, 'price', 'promotion'.*make_future"):
        fitted.predict()
    with pytest.raises(ValueError, match="'s00'.*2 days missing"):
        fitted.predict(future=plan(fitted).groupby("unique_id").head(6))
    with pytest.raises(ValueError, match="no column 'price'"):
        fitted.predict(future=plan(fitted).drop(columns="price"))
    plain = TransformerForecaster(8, **OPTIONS, max_steps=1).fit(sales()[["unique_id", "ds", "y"]])
    with pytest.raises(ValueError, match="there are no known covariates, so future has no use"):
        plain.predict(future=plan(fitted))


def test_an_unseen_level_is_a_missing_one_with_a_warning(fitted):
    future = plan(fitted)
    with pytest.warns(UserWarning, match="unseen in training.*'promotion': 'tv'"):
        forecast = fitted.predict(future=future.assign(promotion="tv"))
    assert np.isfinite(forecast.TransformerForecaster).all()


def test_missing_covariates_of_the_past_are_allowed(fitted):
    df = sales()
    df.loc[df.index % 5 == 0, ["price", "visits"]] = np.nan
    df.loc[df.index % 7 == 0, "promotion"] = None
    assert np.isfinite(fitted.predict(df, future=plan(fitted)).TransformerForecaster).all()


# ------------------------------------------------------------------ saving, static frames


def test_a_loaded_model_forecasts_the_same(fitted, tmp_path):
    future = plan(fitted)
    loaded = tsformer.load(fitted.save(tmp_path / "model"))
    assert loaded.predict(future=future).equals(fitted.predict(future=future))
    without_static = sales().drop(columns="kind")
    assert loaded.predict(without_static, future=future).equals(fitted.predict(future=future))
    assert loaded.known == ["price", "promotion"] and loaded.static == ["kind"]


def test_static_covariates_as_a_frame(tmp_path):
    df = sales(4)
    table = df.groupby("unique_id")[["kind"]].first()
    plain = df[["unique_id", "ds", "y"]]
    columns = TransformerForecaster(4, static=["kind"], **OPTIONS, max_steps=5).fit(plain.assign(kind=df.kind))
    frame = TransformerForecaster(4, static=table, **OPTIONS, max_steps=5).fit(plain)
    assert frame.predict().equals(columns.predict())
    loaded = tsformer.load(frame.save(tmp_path / "model"))
    assert loaded.predict(plain).equals(frame.predict())
    new = plain.assign(unique_id=df.unique_id + "x")
    with pytest.raises(ValueError, match="static has no row for 4 ids: 's00x'"):
        frame.predict(new)


# ------------------------------------------------------------------ evaluation cannot leak


def test_a_backtest_reads_known_covariates_ahead_and_observed_ones_never(fitted):
    df = sales()
    model = TransformerForecaster(8, **NAMES, **OPTIONS, max_steps=30)
    base = backtest(model, df, windows=2, horizon=8)
    last = df.groupby("unique_id").cumcount() >= 72
    other = df.assign(visits=df.visits.where(~last, 100.0))
    assert backtest(model, other, windows=2, horizon=8).equals(base)
    cheaper = df.assign(price=df.price.where(~last, 1.0))
    changed = backtest(model, cheaper, windows=2, horizon=8).TransformerForecaster != base.TransformerForecaster
    assert changed[base.cutoff == base.cutoff.max()].all() and not changed[base.cutoff == base.cutoff.min()].any()


def test_levels_are_those_of_the_fit_whatever_levels_other_data_have(fitted):
    df = sales().iloc[::-1]
    df["promotion"] = pd.Categorical(df.promotion, categories=["a new one", "none", "leaflet"])
    panel = fitted.read_panel(df)  # by levels of its own
    windows = np.arange(panel.n_series), panel.lengths - 8
    ours = fitted.forecast_windows(panel, *windows, 8)
    theirs = fitted.forecast_windows(fitted.read_panel(sales()), *windows, 8)
    assert np.array_equal(ours, theirs)


def test_score_goes_on_with_the_covariates(fitted):
    more = sales(n=96)
    fresh = more[more.ds > "2024-03-20"]
    history = more[more.ds <= "2024-03-20"]
    model = TransformerForecaster(8, **NAMES, **OPTIONS, max_steps=100, learning_rate=1e-2).fit(history)
    assert model.score(fresh) > 5 * RepeatLast(8, target_cols="y").fit(history).score(fresh) > -10
    assert model.score(fresh) > -0.2


def test_holidays_need_the_calendar():
    with pytest.raises(ValueError, match="needs timestamp_encoding='calendar'"):
        TransformerForecaster(8, holidays="DE", **OPTIONS).fit(sales())
    pytest.importorskip("holidays")
    model = TransformerForecaster(8, holidays="DE", timestamp_encoding="calendar", **OPTIONS, max_steps=2)
    model.fit(sales(2)[["unique_id", "ds", "y"]])
    assert model._fitted.calendar_fields[-1] == "holiday:DE"


@pytest.mark.parametrize("loss", ["mse", "quantile", "normal", "log_normal"])
def test_every_head_goes_with_covariates(loss):
    model = TransformerForecaster(8, loss=loss, **NAMES, **OPTIONS, max_steps=5, scaling=None).fit(sales(4))
    future = plan(model)
    forecast = model.predict(future=future, level=80 if loss in ("quantile", "normal", "log_normal") else None)
    assert np.isfinite(forecast.drop(columns=["unique_id", "ds"])).all(axis=None)
    if loss in ("normal", "log_normal"):
        paths = model.sample(5, future=future)
        assert paths.shape == (32, 7) and np.isfinite(paths.iloc[:, 2:]).all(axis=None)
        with pytest.raises(ValueError, match="needs the known covariates"):
            model.sample(5)


def test_covariates_go_with_transforms_calibration_and_weights(tmp_path):
    df = sales(6).assign(w=1.0)
    options = OPTIONS | dict(max_steps=10, target_transform="log1p", calibrate=True, weight_col="w")
    model = TransformerForecaster(8, **NAMES, **options).fit(df)
    future = plan(model)
    forecast = model.predict(future=future, level=80)
    assert np.isfinite(forecast.iloc[:, 2:]).all(axis=None)
    assert tsformer.load(model.save(tmp_path / "model")).predict(future=future, level=80).equals(forecast)


def test_a_new_series_follows_its_price_from_one_row_on(fitted):
    for n in (1, 5):
        new = pd.DataFrame({"unique_id": "new", "ds": pd.date_range("2024-01-01", periods=n), "y": 40.0, "price": 3.0})
        new = new.assign(promotion="none", visits=0.0, kind="a")
        future = fitted.make_future(new).assign(promotion="none")
        low, high = (fitted.predict(new, future=future.assign(price=price)).iloc[:, 2] for price in (4.0, 2.0))
        assert (high - low > 15).all(), n  # 40 in the series of training
        assert low.between(0, 45).all() and high.between(35, 80).all()


def test_static_columns_come_together(fitted):
    model = TransformerForecaster(8, static=["kind", "size"], **OPTIONS, max_steps=1)
    df = sales(4).assign(size=1.0)[["unique_id", "ds", "y", "kind", "size"]]
    model.fit(df)
    with pytest.raises(ValueError, match="X has some of the static covariates, and not 'kind'"):
        model.predict(df.drop(columns="kind"))


def test_a_forecast_that_is_no_number_is_an_error(fitted):
    with pytest.raises(ValueError, match="the forecast of id 's00' is not a finite number: a known covariate"):
        fitted.predict(future=plan(fitted, price=1e30))


@pytest.mark.parametrize("known", [3.5, {"price": 1}, pd.DataFrame({"price": [1.0]})])
def test_names_of_covariates_are_a_list(known):
    with pytest.raises(TypeError, match="known must name columns: a name or a list of names"):
        TransformerForecaster(8, known=known, **OPTIONS).fit(sales(2))
