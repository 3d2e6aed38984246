"""The estimator as scikit-learn, frames and files see it."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from dataclasses import MISSING, fields
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.utils.estimator_checks import check_estimator

import tsformer
from tsformer import TransformerForecaster
from tsformer.config import ModelConfig, TrainingConfig
from tsformer.persistence import FORMAT

# scikit-learn's checks that a forecaster cannot pass, or does better not to.
SKLEARN_EXCEPTIONS = {
    "check_fit1d": "a one-dimensional array is a series here, and welcome",
    "check_fit2d_predict1d": "likewise; the wrong number of channels is refused in our words",
    "check_fit2d_1sample": "refused, in words about training rows",
    "check_dtype_object": "objects that are no numbers are a ValueError, scikit-learn wants a TypeError",
    "check_methods_sample_order_invariance": "rows are steps in time: their order is the data",
    "check_methods_subset_invariance": "likewise; a part of the rows is another history",
    "check_array_api_input": "skipped by scikit-learn itself unless SCIPY_ARRAY_API is set",
}


# ------------------------------------------------------------------ scikit-learn


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
def test_scikit_learns_own_checks():
    forecaster = TransformerForecaster(
        2, context_length=4, patch_length=2, d_model=8, nhead=2, dim_feedforward=8, max_steps=1, verbose=False
    )
    results = check_estimator(forecaster, on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] != "passed"}
    assert failed <= set(SKLEARN_EXCEPTIONS)
    assert sum(r["status"] == "passed" for r in results) >= 28


def test_defaults_are_written_once():
    signature = inspect.signature(TransformerForecaster).parameters
    for config in (ModelConfig, TrainingConfig):
        for field in fields(config):
            if field.default is not MISSING and field.name in signature and field.name != "quantiles":
                assert signature[field.name].default == field.default, field.name
    assert signature["quantiles"].default == TrainingConfig().quantiles
    assert {f.name for f in fields(TrainingConfig)} <= set(signature)


def test_clone_and_params_keep_the_very_objects(small, make_panel):
    kwargs, callbacks = {"limit_train_batches": 2}, []
    forecaster = small(trainer_kwargs=kwargs, callbacks=callbacks, learning_rate=1)
    assert forecaster.get_params()["trainer_kwargs"] is kwargs
    assert forecaster.get_params()["callbacks"] is callbacks
    before = dict(forecaster.get_params())
    forecaster.fit(make_panel({"a": 5.0}))
    assert forecaster.get_params() == before and type(forecaster.learning_rate) is int
    copy = clone(forecaster)
    assert not hasattr(copy, "model_")
    copy.set_params(context_length=14, learning_rate=0.1)
    assert clone(copy).context_length == 14
    assert kwargs == {"limit_train_batches": 2} and callbacks == []


def test_pickle(small, make_panel):
    forecaster = small().fit(make_panel({"a": 5.0}))
    again = pickle.loads(pickle.dumps(forecaster))
    pd.testing.assert_frame_equal(again.predict(), forecaster.predict())
    with mock.patch.object(type(forecaster.model_), "to") as to:
        pickle.dumps(forecaster)
    to.assert_called_once_with("cpu")  # from wherever the last forecast was made


def test_grid_search_over_time(small, wave):
    index = pd.date_range("2024-01-01", periods=240)
    frame = pd.DataFrame({"a": wave(240), "b": wave(240, level=-5, seed=1)}, index=index)
    search = GridSearchCV(
        small(linear_path=False),
        {"learning_rate": [1e-7, 1e-2], "max_steps": [40]},
        cv=TimeSeriesSplit(2, test_size=21),
    )
    search.fit(frame)
    assert search.best_params_["learning_rate"] == 1e-2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert list(search.predict(None).columns) == ["a", "b"]


def test_fit_refuses_before_any_training(small, make_panel):
    frame = make_panel({"a": 5.0})
    for wrong, message in [
        (dict(prediction_length=0), "prediction_length must be at least 1"),
        (dict(loss="mape"), "loss='mape' is not one of"),
        (dict(batch_size=0), "batch_size must be at least 1"),
        (dict(training_mode="free"), "'free_running'"),
        (dict(context_length=0), "context_length must be at least 1"),
        (dict(d_model=10, nhead=4), "multiple of nhead"),
        (dict(quantiles=[0.5, 1.2]), "between 0 and 1"),
        (dict(random_state=-1), "random_state"),
        (dict(verbose="loud"), "verbose must be True, False or 'auto'"),
    ]:
        with pytest.raises(ValueError, match=message):
            small(**wrong).fit(frame)
    with pytest.raises(TypeError, match="prediction_length must be a whole number"):
        small(prediction_length="7").fit(frame)


def test_calendar_needs_dates(small, wave):
    with pytest.raises(ValueError, match="integer"):
        small(timestamp_encoding="calendar").fit(wave(100))


def test_not_fitted(small):
    for call in ("predict", "save"):
        with pytest.raises(NotFittedError):
            getattr(small(), call)(*(["x"] if call == "save" else []))


# ------------------------------------------------------------------ frames in, frames out


def test_long_frame(small, make_panel):
    frame = make_panel({"b": 5.0, "a": 100.0})
    forecast = small(loss="quantile").fit(frame).predict(level=[80], quantiles=[0.5])
    assert list(forecast) == [
        "unique_id",
        "ds",
        *(f"TransformerForecaster{s}" for s in ("", "-median", "-lo-80", "-hi-80")),
    ]
    assert len(forecast) == 14 and forecast["ds"].min() == pd.Timestamp("2024-04-30")
    low, mid, high = (forecast[f"TransformerForecaster{s}"] for s in ("-lo-80", "", "-hi-80"))
    assert (low < mid).all() and (mid < high).all()


def test_long_frame_of_several_targets(small, make_panel):
    frame = make_panel({"a": 5.0}).assign(z=lambda d: d.y * 10)
    forecast = small(target_cols=["z", "y"]).fit(frame).predict()
    assert list(forecast) == ["unique_id", "ds", "z", "y"]


def test_a_panel_larger_than_a_batch(small, make_panel):
    frame = make_panel({f"s{i}": 10.0 * i for i in range(5)})
    forecaster = small().fit(frame)
    pd.testing.assert_frame_equal(forecaster.predict(batch_size=2), forecaster.predict())


@pytest.mark.parametrize("kind", ["index", "column"])
def test_wide_frame(small, wave, kind):
    index = pd.date_range("2024-01-01", periods=100, freq="h", tz="Europe/Paris", name="when")
    frame = pd.DataFrame({"a": wave(100), "b": wave(100, level=0), "text": "x"}, index=index)
    frame = frame if kind == "index" else frame.reset_index()
    forecast = small(time_col="when").fit(frame).predict(horizon=3)
    stamps = forecast.index if kind == "index" else pd.DatetimeIndex(forecast["when"])
    assert list(stamps) == list(pd.date_range("2024-01-05 04:00", periods=3, freq="h", tz="Europe/Paris"))
    assert list(forecast.columns) == (["a", "b"] if kind == "index" else ["when", "a", "b"])


def test_series_and_arrays(small, wave):
    series = pd.Series(wave(100), index=pd.RangeIndex(100, name="t"), name="load")
    forecast = small().fit(series).predict()
    assert isinstance(forecast, pd.Series) and forecast.name == "load" and list(forecast.index) == list(range(100, 107))
    bands = small(loss="quantile").fit(series).predict(level=80)
    assert list(bands) == ["load", "load-lo-80", "load-hi-80"]
    assert small().fit(wave(100)).predict().shape == (7, 1)
    assert small().fit(np.stack([wave(100), wave(100)], 1)).predict().shape == (7, 2)


def test_predict_is_stateless(small, make_panel):
    frame = make_panel({"a": 5.0, "b": 50.0})
    forecaster = small().fit(frame)
    own = forecaster.predict()
    pd.testing.assert_frame_equal(forecaster.predict(frame), own)
    forecaster.predict(frame.assign(y=frame.y * 2))
    pd.testing.assert_frame_equal(forecaster.predict(), own)


def test_joint_channels_see_each_other_and_independent_ones_do_not(small, wave):
    index = pd.date_range("2024-01-01", periods=100)
    frame = pd.DataFrame({"a": wave(100), "b": wave(100, level=0, seed=1)}, index=index)
    other = frame.assign(b=frame.b[::-1].to_numpy())
    for mixing, same in (("independent", True), ("joint", False)):
        forecaster = small(channel_mixing=mixing, linear_path=False).fit(frame)
        assert np.allclose(forecaster.predict(frame)["a"], forecaster.predict(other)["a"]) == same


def test_interval_levels_that_were_not_learned(small, make_panel):
    frame = make_panel({"a": 5.0})
    with pytest.raises(ValueError, match="loss='quantile'"):
        small().fit(frame).predict(level=80)
    forecaster = small(loss="quantile", quantiles=[0.1, 0.9]).fit(frame)
    assert forecaster.model_.config.quantiles == (0.1, 0.5, 0.9)
    with pytest.raises(ValueError, match=r"0.025 lies outside the trained ones, 0.1 to 0.9"):
        forecaster.predict(level=95)
    with pytest.raises(ValueError, match="coverage in percent"):
        forecaster.predict(level=0.95)
    with pytest.raises(TypeError, match="level must be a number"):
        forecaster.predict(level="80")
    assert "TransformerForecaster-lo-60" in forecaster.predict(level=60)  # between two trained ones


def test_learned_positions_name_their_end(small, make_panel):
    forecaster = small(positional_encoding="learned").fit(make_panel({"a": 5.0}))
    with pytest.raises(ValueError, match="horizon=8 is beyond the 7 steps.*rotary"):
        forecaster.predict(horizon=8)


def test_score_goes_on_from_the_training_end(small, make_panel):
    frame = make_panel({"a": 5.0, "b": 100.0}, n=160)
    train, test = frame[frame.ds < "2024-05-01"], frame[frame.ds >= "2024-05-01"]
    forecaster = small().fit(train)
    # By hand: windows of 7 steps, each forecast from all that came before it.
    errors = []
    for _, group in frame.groupby("unique_id"):
        values = group.y.to_numpy()
        n = (group.ds < "2024-05-01").sum()
        found = []
        for cutoff in range(n, len(values), 7):
            history = group.iloc[:cutoff]
            predicted = forecaster.predict(history)["TransformerForecaster"].to_numpy()
            truth = values[cutoff : cutoff + 7]
            found.append(np.abs(predicted[: len(truth)] - truth))
        n_fit = n - round(0.1 * n)  # the rows that are not for validation
        errors.append(np.concatenate(found).mean() / values[:n_fit].std())
    assert forecaster.score(test) == pytest.approx(-np.mean(errors))
    with pytest.raises(ValueError, match=r"end at 2024-04-30.*start at 2024-05-01.*starts at 2024-05-03"):
        forecaster.score(test[test.ds >= "2024-05-03"])


def test_utilsforecast_reads_our_frames(small, make_panel):
    from utilsforecast.evaluation import evaluate
    from utilsforecast.losses import coverage, mae

    frame = make_panel({"a": 5.0, "b": 100.0})
    train, test = frame[frame.ds < "2024-04-20"], frame[frame.ds >= "2024-04-20"]
    forecast = small(loss="quantile").fit(train).predict(horizon=10, level=[80])
    table = evaluate(forecast.merge(test, on=["unique_id", "ds"]), [mae, coverage], level=[80])
    assert np.isfinite(table["TransformerForecaster"]).all() and len(table) == 4


# ------------------------------------------------------------------ one file


@pytest.mark.parametrize("loss", ["mae", "quantile", lambda f, t: (f - t).abs()], ids=["mae", "quantile", "callable"])
def test_save_and_load_bit_for_bit(small, make_panel, tmp_path, loss):
    frame = make_panel({"a": 5.0, "b": 1e4})
    forecaster = small(loss=loss, timestamp_encoding="calendar", target_cols="y").fit(frame)
    path = forecaster.save(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    again = tsformer.load(tmp_path / "model")  # the name that was saved under
    pd.testing.assert_frame_equal(tsformer.load(path).predict(), again.predict(), check_exact=True)
    pd.testing.assert_frame_equal(again.predict(horizon=20), forecaster.predict(horizon=20), check_exact=True)
    pd.testing.assert_frame_equal(again.predict(frame), forecaster.predict(frame), check_exact=True)
    pd.testing.assert_frame_equal(again.history_, forecaster.history_)
    given = {n: v for n, v in forecaster.get_params().items() if n not in ("loss", "quantiles")}
    assert {n: again.get_params()[n] for n in given} == given
    assert (again.context_length_, again.freq_, again.targets_) == (28, "D", ("y",))
    assert again.score(frame.assign(ds=frame.ds + pd.Timedelta(days=120)).head(7)) < 0


def test_a_file_without_the_history(small, make_panel, tmp_path):
    frame = make_panel({"a": 5.0})
    forecaster = small().fit(frame)
    forecaster.save(tmp_path / "with.safetensors")
    forecaster.save(tmp_path / "without.safetensors", include_history=False)
    again = tsformer.load(tmp_path / "without.safetensors")
    with pytest.raises(ValueError, match="saved without its history"):
        again.predict()
    with pytest.raises(ValueError, match="saved without its history"):
        again.score(frame)
    pd.testing.assert_frame_equal(again.predict(frame), forecaster.predict())


def test_no_pickle_no_class_names_in_the_file(small, make_panel, tmp_path):
    path = small().fit(make_panel({"a": 5.0})).save(tmp_path / "m")
    content = path.read_bytes()
    assert b"ForecastTransformer" not in content and b"tsformer.nn" not in content and b"_target_" not in content


def test_files_that_are_no_model(tmp_path, small, make_panel):
    with pytest.raises(ValueError, match=r"no model at .*nothing.safetensors"):
        tsformer.load(tmp_path / "nothing.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a saved model"):
        tsformer.load(tmp_path / "junk.safetensors")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not written by this version"):
        tsformer.load(tmp_path / "other.safetensors")
    from tsformer.persistence import write_model

    write_model(tmp_path / "early", {"a": torch.zeros(1)}, {"config": {}})
    with pytest.raises(ValueError, match="another version of tsformer: it lacks about, calendar_fields"):
        tsformer.load(tmp_path / "early.safetensors")
    with pytest.raises(ValueError, match="folder .* does not exist"):
        small().fit(make_panel({"a": 5.0})).save(tmp_path / "no" / "model")
    for work in (tsformer.load, small().fit(make_panel({"a": 5.0})).save):
        with pytest.raises(ValueError, match=r"path must be the name of a \.safetensors file, got '\.'"):
            work(".")


def test_parameters_that_are_no_json_are_saved_as_what_they_meant(small, make_panel, tmp_path):
    forecaster = small(freq=pd.Timedelta("1D"), random_state=np.random.RandomState(0), target_cols=("y",))
    path = forecaster.fit(make_panel({"a": 5.0})).save(tmp_path / "m")
    again = tsformer.load(path)
    assert (again.freq, again.random_state, again.target_cols) == (forecaster.freq_, None, ["y"])
    pd.testing.assert_frame_equal(again.predict(), forecaster.predict())


def test_numbers_of_numpy_are_saved_as_numbers(small, make_panel, tmp_path):
    forecaster = small(random_state=np.int64(3), batch_size=np.int32(16)).fit(make_panel({"a": 5.0}))
    again = tsformer.load(forecaster.save(tmp_path / "m"))
    assert (again.random_state, again.batch_size) == (3, 16)


def test_damaged_files(small, make_panel, tmp_path):
    from safetensors.torch import load_file, save_file

    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ValueError, match="it is a folder"):
        small().fit(make_panel({"a": 5.0})).save(tmp_path / "folder")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare.safetensors", metadata={"format": FORMAT})
    save_file({"a": torch.zeros(1)}, tmp_path / "text.safetensors", metadata={"format": FORMAT, "tsformer": "{"})
    for name in ("bare", "text"):
        with pytest.raises(ValueError, match="is damaged: its description"):
            tsformer.load(tmp_path / f"{name}.safetensors")
    path = small().fit(make_panel({"a": 5.0})).save(tmp_path / "m")
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    tensors = load_file(path)
    del tensors["model.head.projection.bias"]
    save_file(tensors, path, metadata=header)
    with pytest.raises(ValueError, match="its weights do not fit"):
        tsformer.load(path)


def test_a_failed_save_leaves_the_old_file(small, make_panel, tmp_path, monkeypatch):
    forecaster = small().fit(make_panel({"a": 5.0}))
    path = forecaster.save(tmp_path / "m")
    old = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        forecaster.save(tmp_path / "m")
    assert path.read_bytes() == old and len(list(tmp_path.iterdir())) == 1


def test_predicting_never_loads_lightning(small, make_panel, tmp_path):
    path = small().fit(make_panel({"a": 5.0})).save(tmp_path / "m")
    code = (
        "import sys, tsformer; tsformer.load(sys.argv[1]).predict(); "
        "print([m for m in ('lightning', 'matplotlib', 'hydra') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
