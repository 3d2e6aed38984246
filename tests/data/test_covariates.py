"""Covariates on the way in: roles, dtypes, levels, static values, and their way into a batch."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer.data.panel import Panel, Schema, check_trainable, to_panel
from tsformer.data.windows import Windows, series_statistics


def days(n, start="2024-01-01"):
    return pd.date_range(start, periods=n)


def long_frame(n=20, ids=("s1", "s2"), **columns):
    parts = [pd.DataFrame({"unique_id": u, "ds": days(n), "y": np.arange(n) + 100.0 * i}) for i, u in enumerate(ids)]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def rich_frame(n=20):
    """Every role and every kind of column."""
    df = long_frame(n)
    t = np.tile(np.arange(n), 2)
    return df.assign(
        price=t + 0.5,
        holiday=t % 7 == 6,
        weather=np.where(t % 2, "sun", "rain"),
        visits=t * 10,
        city=np.where(df.unique_id == "s1", "Oslo", "Bern"),
        size=np.where(df.unique_id == "s1", 3, 4),
    )


ROLES = dict(known=["price", "holiday", "weather"], observed=["visits"], static=["city", "size"])


# --------------------------------------------------------------------------------------------- roles


def test_every_role_has_its_array():
    panel = to_panel(rich_frame(), **ROLES)
    assert panel.values.shape == (40, 1) and panel.schema.targets == ("y",)
    assert panel.known.shape == (40, 3) and panel.observed.shape == (40, 1) and panel.static.shape == (2, 2)
    assert panel.known[:3].tolist() == [[0.5, 0, 0], [1.5, 0, 1], [2.5, 0, 0]] and panel.known[6, 1] == 1
    assert panel.static.tolist() == [[1, 3], [0, 4]]
    assert [(c.name, c.role, c.levels) for c in panel.schema.covariates] == [
        ("city", "static", ("Bern", "Oslo")),
        ("size", "static", None),
        ("price", "known", None),
        ("holiday", "known", None),
        ("weather", "known", ("rain", "sun")),
        ("visits", "observed", None),
    ]
    for array in (panel.known, panel.observed, panel.static):
        assert array.dtype == np.float64


def test_without_covariates_the_arrays_have_no_columns():
    panel = to_panel(long_frame(unused="text", other=1.0))
    assert panel.known.shape == (40, 0) and panel.observed.shape == (40, 0) and panel.static.shape == (2, 0)
    assert panel.schema.covariates == ()
    assert panel.rows(0, 3).known.shape == (6, 0)


def test_covariates_are_no_targets():
    wide = pd.DataFrame({"a": 1.0, "b": 2.0, "temp": 3.0, "sky": "blue"}, index=days(4))
    panel = to_panel(wide, known=["temp", "sky"])
    assert panel.schema.targets == ("a", "b") and panel.known.tolist() == [[3, 0]] * 4
    by_column = to_panel(wide.rename_axis("ds").reset_index(), observed="temp")
    assert by_column.schema.targets == ("a", "b") and by_column.observed.tolist() == [[3]] * 4
    load = long_frame().rename(columns={"y": "load"}).assign(price=1.0)
    assert to_panel(load, known="price").schema.targets == ("load",)


def test_rows_go_with_their_covariates():
    df = rich_frame()
    panel, shuffled = to_panel(df, **ROLES), to_panel(df.sample(frac=1, random_state=1), **ROLES)
    assert np.array_equal(panel.known, shuffled.known) and np.array_equal(panel.static, shuffled.static)
    part = panel.rows(2, 5)
    assert part.known[:, 0].tolist() == [2.5, 3.5, 4.5] * 2 and part.observed[:, 0].tolist() == [20, 30, 40] * 2
    assert np.array_equal(part.static, panel.static)
    assert panel.tail(1).known[:, 0].tolist() == [19.5, 19.5]


def test_gaps_have_missing_covariates():
    df = long_frame(10, ids=("s1",), price=5.0)
    with pytest.warns(UserWarning, match="1 stamps are missing"):
        panel = to_panel(df.drop(index=4), known="price")
    assert np.isnan(panel.known[4, 0]) and np.isnan(panel.known).sum() == 1


def test_the_callers_objects_are_not_changed():
    df = rich_frame().sample(frac=1, random_state=2)
    table = pd.DataFrame({"unique_id": ["s2", "s1"], "area": [1.0, 2.0]})
    before, table_before, known = df.copy(deep=True), table.copy(deep=True), ["price", "weather"]
    to_panel(df, known=known, static=table)
    pd.testing.assert_frame_equal(df, before)
    pd.testing.assert_frame_equal(table, table_before)
    assert known == ["price", "weather"]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (dict(known="price", observed="price"), "'price' is named both as known and as observed"),
        (dict(known=["price", "price"]), "'price' is named twice as known"),
        (dict(known="y"), "known covariate 'y' is a target.*target_cols"),
        (dict(observed="ds"), "observed covariate 'ds' is the time column"),
        (dict(static="unique_id"), "static covariate 'unique_id' is the id column"),
        (dict(known="prize"), "no known covariate column 'prize'.*did you mean 'price'"),
        (dict(static="citty"), "no static covariate column 'citty'.*did you mean 'city'"),
        (dict(observed="price", target_cols=["y", "price"]), "observed covariate 'price' is a target"),
    ],
)
def test_a_covariate_has_one_role_and_a_column(roles, message):
    with pytest.raises(ValueError, match=message):
        to_panel(rich_frame(), **roles)


def test_covariates_are_columns_of_a_frame():
    for X in (pd.Series([1.0, 2.0], index=days(2)), np.arange(3.0)):
        with pytest.raises(ValueError, match="'price'.*columns of a frame"):
            to_panel(X, known="price")
    with pytest.raises(ValueError, match="long frame with ids"):
        to_panel(pd.DataFrame({"a": 1.0, "size": 2.0}, index=days(3)), static="size")


# ------------------------------------------------------------------------------------ kinds of columns


@pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]", "int8", "Int64", "Float64", "double[pyarrow]"])
def test_numbers_and_booleans_of_any_dtype(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    panel = to_panel(
        long_frame(4, ids=("s1",), promo=pd.array([1, 0, 1, 1], dtype="int8").astype(dtype)), known="promo"
    )
    assert panel.known[:, 0].tolist() == [1, 0, 1, 1] and panel.schema.covariates[0].levels is None


@pytest.mark.parametrize("dtype", ["str", object, "category", "string[python]", "string[pyarrow]"])
def test_text_and_categories_of_any_dtype(dtype):
    if dtype == "string[pyarrow]":
        pytest.importorskip("pyarrow")
    sky = pd.Series(["sun", None, "rain", "sun"], dtype=object).astype(dtype)
    panel = to_panel(long_frame(4, ids=("s1",), sky=sky), known="sky")
    assert np.array_equal(panel.known[:, 0], [1, np.nan, 0, 1], equal_nan=True)
    assert panel.schema.covariates[0].levels == ("rain", "sun")


def test_missing_values_of_nullable_columns():
    for values in (pd.array([1, None, 0], dtype="boolean"), pd.array([1, None, 0], dtype="Int64"), [True, None, False]):
        panel = to_panel(long_frame(3, ids=("s1",), promo=pd.Series(values)), observed="promo")
        assert np.array_equal(panel.observed[:, 0], [1, np.nan, 0], equal_nan=True)


def test_categories_keep_their_order_and_those_that_never_occur_are_left_out():
    size = pd.Categorical(["M", "S", "M"], categories=["S", "M", "L"], ordered=True)
    panel = to_panel(long_frame(3, ids=("s1",), size=size), known="size")
    assert panel.schema.covariates[0].levels == ("S", "M") and panel.known[:, 0].tolist() == [1, 0, 1]
    numbers = to_panel(long_frame(3, ids=("s1",), kind=pd.Categorical([20, 3, 20])), known="kind")
    assert numbers.schema.covariates[0].levels == (3, 20) and numbers.known[:, 0].tolist() == [1, 0, 1]
    mixed = to_panel(long_frame(3, ids=("s1",), kind=pd.Series(["b", 2, "a"], dtype=object)), known="kind")
    assert mixed.schema.covariates[0].levels == (2, "a", "b")


def test_dates_and_other_objects_are_refused():
    for column in (days(3), [(1, 2)] * 3, [1j, 2j, 3j], pd.to_timedelta([1, 2, 3])):
        with pytest.raises(ValueError, match="'when' must hold numbers, booleans, text or categories"):
            to_panel(long_frame(3, ids=("s1",), when=pd.Series(column)), known="when")


@pytest.mark.parametrize("role", ["known", "observed"])
def test_infinite_values_are_named(role):
    df = long_frame(10)
    df["price"] = np.where(df.index == 13, -np.inf, 1.0)
    with pytest.raises(ValueError, match="1 values are infinite, the first: column 'price', id 's2', 2024-01-04"):
        to_panel(df, **{role: "price"})


def test_infinite_static_values_are_named():
    with pytest.raises(ValueError, match="infinite, the first: column 'area', id 's2'"):
        to_panel(long_frame(), static=pd.DataFrame({"area": [1.0, np.inf]}, index=["s1", "s2"]))


def test_a_covariate_without_values_cannot_be_trained_on():
    for empty in (np.nan, None, pd.Series([None] * 40, dtype="str"), pd.Series([pd.NA] * 40, dtype="Int64")):
        panel = to_panel(long_frame(price=empty), known="price")
        with pytest.raises(ValueError, match="no value of known covariate 'price'"):
            check_trainable(panel)


# ---------------------------------------------------------------------------- what a model was fitted on


def test_levels_names_and_order_come_from_training():
    df = rich_frame()
    schema = to_panel(df, **ROLES).schema
    later = df.iloc[:, ::-1].assign(weather="sun", city=df.city.astype("category"), extra=1.0)
    panel = to_panel(later, schema=schema)
    assert panel.schema.covariates == schema.covariates
    assert (panel.known[:, 2] == 1).all() and panel.static.tolist() == [[1, 3], [0, 4]]


def test_unseen_levels_are_missing_with_one_warning():
    df = rich_frame()
    schema = to_panel(df, **ROLES).schema
    df["weather"] = df.weather.replace({"sun": "snow"})
    df["city"] = df.city.replace({"Bern": "Rome"})
    with pytest.warns(UserWarning, match="unseen in training.*'city': 'Rome'; in column 'weather': 'snow'") as caught:
        panel = to_panel(df, schema=schema)
    assert len(caught) == 1
    assert np.isnan(panel.known[:, 2]).sum() == 20 and np.isnan(panel.static[:, 0]).tolist() == [False, True]
    assert panel.schema.covariates == schema.covariates


def test_columns_of_another_kind_than_in_training():
    df = rich_frame()
    schema = to_panel(df, **ROLES).schema
    with pytest.raises(ValueError, match="'price' held numbers in training"):
        to_panel(df.assign(price="cheap"), schema=schema)
    with pytest.raises(ValueError, match="no known covariate column 'holiday'"):
        to_panel(df.drop(columns="holiday"), schema=schema)
    missing = to_panel(df.assign(price=None, weather=np.nan), schema=schema)
    assert np.isnan(missing.known[:, [0, 2]]).all()


def test_a_schema_goes_through_json():
    schema = to_panel(rich_frame(), **ROLES).schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    old = {name: value for name, value in to_panel(long_frame()).schema.to_dict().items() if name != "covariates"}
    assert Schema.from_dict(old).covariates == ()


# ------------------------------------------------------------------------------------------- static ones


def test_static_columns_must_not_change_within_an_id():
    df = rich_frame()
    df.loc[25, "city"] = "Rome"
    with pytest.raises(ValueError, match="'city' changes within id 's2': Bern and Rome"):
        to_panel(df, static="city")


def test_static_values_may_be_missing():
    df = rich_frame()
    df.loc[df.unique_id == "s1", "size"] = np.nan
    df.loc[[20, 30], "city"] = None  # known from the other rows
    panel = to_panel(df, static=["city", "size"])
    assert np.array_equal(panel.static, [[1, np.nan], [0, 4]], equal_nan=True)


@pytest.mark.parametrize("in_index", [False, True])
def test_static_frame_by_id(in_index):
    table = pd.DataFrame({"unique_id": ["zz", "s2", "s1"], "city": ["Rome", "Bern", "Oslo"], "size": [9, 4, 3]})
    panel = to_panel(long_frame(), static=table.set_index("unique_id") if in_index else table)
    assert panel.static.tolist() == [[1, 3], [0, 4]]
    assert panel.schema.covariates[0].levels == ("Bern", "Oslo")  # of training: nobody has Rome


def test_static_frame_that_does_not_fit():
    table = pd.DataFrame({"unique_id": ["s1"], "size": [3.0]})
    with pytest.raises(ValueError, match="no row for 1 ids: 's2'"):
        to_panel(long_frame(), static=table)
    with pytest.raises(ValueError, match="several rows for 's1'"):
        to_panel(long_frame(), static=pd.concat([table, table]))
    with pytest.raises(ValueError, match="no columns besides the id"):
        to_panel(long_frame(), static=table[["unique_id"]])
    many = long_frame(3, ids=[f"n{i}" for i in range(9)])
    with pytest.raises(ValueError, match="no row for 9 ids: 'n0', 'n1', 'n2' and 6 more"):
        to_panel(many, static=table)
    with pytest.raises(TypeError, match="one row an id"):
        to_panel(long_frame(), static={"s1": 3})


def test_static_frame_at_predict():
    table = pd.DataFrame({"city": ["Oslo", "Bern"], "size": [3, 4]}, index=["s1", "s2"])
    schema = to_panel(long_frame(), static=table).schema
    new = long_frame(ids=("brand_new", "s1"))
    with pytest.raises(ValueError, match="no row for 1 ids: 'brand_new'"):
        to_panel(new, static=table, schema=schema)
    longer = pd.concat([table, pd.DataFrame({"city": ["Bern"], "size": [7]}, index=["brand_new"])])
    assert to_panel(new, static=longer[["size", "city"]], schema=schema).static.tolist() == [[0, 7], [1, 3]]
    columns = new.assign(city="Bern", size=1)  # as columns instead
    assert to_panel(columns, schema=schema).static.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match="no static covariate column 'size' in static"):
        to_panel(new, static=longer[["city"]], schema=schema)


# ---------------------------------------------------------------------------------------------- batches


def make_windows(panel, series, cutoffs, context=8, horizon=4):
    statistics = series_statistics(panel)
    return Windows(
        panel, np.asarray(series), np.asarray(cutoffs), context_length=context, horizon=horizon, statistics=statistics
    )


def test_a_batch_has_the_covariates_of_its_steps():
    panel = to_panel(rich_frame(), **ROLES)
    batch = make_windows(panel, [0, 1, 1], [8, 3, 18]).batch(np.arange(3))
    assert batch.known.shape == (3, 12, 3) and batch.observed.shape == (3, 8, 1) and batch.static.shape == (3, 2)
    assert all(x.dtype == torch.float32 for x in (batch.known, batch.observed, batch.static))
    for i, (series, cutoff) in enumerate([(0, 8), (1, 3), (1, 18)]):
        for k, step in enumerate(range(cutoff - 8, cutoff + 4)):
            inside = 0 <= step < 20
            expected = panel.known[panel.indptr[series] + step] if inside else np.full(3, np.nan)
            assert np.array_equal(batch.known[i, k].numpy(), expected.astype(np.float32), equal_nan=True)
            if k < 8:
                expected = panel.observed[panel.indptr[series] + step] if inside else [np.nan]
                assert np.array_equal(batch.observed[i, k].numpy(), expected, equal_nan=True)
        assert batch.static[i].tolist() == panel.static[series].tolist()


def test_observed_covariates_end_at_the_cutoff():
    df = rich_frame()
    window = ([0, 1], [12, 12])
    batch = make_windows(to_panel(df, **ROLES), *window).batch(np.arange(2))
    df.loc[df.ds >= days(20)[12], "visits"] = 1e9
    other = make_windows(to_panel(df, **ROLES), *window).batch(np.arange(2))
    assert torch.equal(batch.observed, other.observed)


def test_a_batch_without_covariates_has_none():
    batch = make_windows(to_panel(long_frame()), [0], [8]).batch(np.array([0]))
    assert batch.known is None and batch.observed is None and batch.static is None
    only_static = make_windows(to_panel(rich_frame(), static="size"), [0], [8]).batch(np.array([0]))
    assert only_static.known is None and only_static.static.tolist() == [[3]]


def test_a_batch_moves_whole():
    batch = make_windows(to_panel(rich_frame(), **ROLES), [0, 1], [8, 9]).batch(np.arange(2)).to("meta")
    assert batch.known.device.type == batch.static.device.type == batch.context.device.type == "meta"
    assert batch.calendar is None


def test_unused_columns_cost_nothing():
    n = 5_000
    unused = {f"text{i}": pd.Series(["x"]).repeat(n).to_numpy(dtype=object) for i in range(200)}
    df = pd.concat([long_frame(n, ids=("s1",), price=1.0), pd.DataFrame(unused)], axis=1)
    panel = to_panel(df, known="price")
    used = [panel.values, panel.known, panel.observed, panel.static]
    assert isinstance(panel, Panel) and sum(array.nbytes for array in used) == 2 * 8 * n


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_panel(rich_frame(), **ROLES)
