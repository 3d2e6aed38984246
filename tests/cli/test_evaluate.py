"""``evaluate``: trained models, several seeds, public benchmarks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.cli import experiment

DATA = os.environ.get("TSFORMER_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="TSFORMER_DATA names no folder with the outside data sets")
OURS = "TransformerForecaster"


def metrics_in(folder: str | Path) -> dict:
    return json.loads((Path(folder) / "metrics.json").read_text())


@pytest.mark.parametrize("argv", [["evaluate", "run=MODEL"], ["evaluate", "seeds=[0,1]"], ["backtest"]])
def test_the_folder_of_a_model_is_not_for_a_run_without_one(argv, fitted, csv, run):
    before = {path.name: path.read_bytes() for path in fitted.iterdir()}
    argv = [word.replace("MODEL", str(fitted)) for word in argv]
    data = [] if "run=" in argv[-1] else [f"data.path={csv}", "prediction_length=7"]
    status, _, err = run(*argv, *data, f"output_dir={fitted}")
    assert status == 1 and "holds a trained model" in err
    assert run("predict", f"run={fitted}", f"output_dir={fitted}")[0] == 0  # as it was: the same forecast
    assert {path.name: path.read_bytes() for path in fitted.iterdir()}.keys() == before.keys()
    assert (fitted / "model.safetensors").read_bytes() == before["model.safetensors"]


@pytest.mark.parametrize("argv", [["run=MODEL"], ["seeds=[0,1]"]])
def test_a_test_that_fails_costs_nothing_of_the_one_before(argv, fitted, csv, run, monkeypatch):
    argv = [word.replace("MODEL", str(fitted)) for word in argv]
    if "run=" not in argv[-1]:
        argv += [f"data.path={csv}", "prediction_length=7", "context_length=14", "training.max_steps=2"]
    assert run("evaluate", *argv, "save_forecasts=true", "output_dir=tested")[0] == 0
    before = {path.name: path.read_bytes() for path in Path("tested").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "evaluate_windows", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("evaluate", *argv, "output_dir=tested")
    assert {path.name: path.read_bytes() for path in Path("tested").iterdir()} == before
    assert run("evaluate", *argv, "output_dir=tested")[0] == 0  # as it succeeds, the old forecasts go
    assert {path.name for path in Path("tested").iterdir()} == {"config.yaml", "metrics.json"}


def test_a_run_scores_as_when_it_was_fitted(fitted, run):
    status, out, err = run("evaluate", f"run={fitted}", "output_dir=tested", "save_forecasts=true")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == f"Metrics: {Path('tested').absolute() / 'metrics.json'}"
    assert metrics_in("tested")["test"] == metrics_in(fitted)["test"]
    assert list(Path("tested").glob("forecasts.*"))


def test_trains_where_there_is_no_run(fitted, run):
    argv = ["data.path=data/waves.csv", "prediction_length=7", "context_length=14"]
    assert run("evaluate", *argv, "training=quick", "output_dir=out")[0] == 0
    assert {path.name for path in Path("out").iterdir()} == {"config.yaml", "metrics.json", "model.safetensors"}
    assert metrics_in("out")["test"]["RidgeForecaster"] == metrics_in(fitted)["test"]["RidgeForecaster"]


def test_seeds(run, csv):
    argv = ["data.path=data/waves.csv", "prediction_length=7", "context_length=14", "training.max_steps=3"]
    assert run("evaluate", *argv, "seeds=[0,1,2]", "output_dir=many")[0] == 0
    metrics = metrics_in("many")
    assert list(metrics["seeds"]) == ["0", "1", "2"]
    assert list(metrics["test"]) == [OURS, "SeasonalNaive", "RidgeForecaster", "RepeatLast"]
    each = [metrics["seeds"][seed]["test"][OURS]["load"]["mae"] for seed in metrics["seeds"]]
    assert len(set(each)) == 3
    assert metrics["test"][OURS]["load"]["mae"] == pytest.approx(np.mean(each))
    assert metrics["test"][OURS]["load"]["mae_deviation"] == pytest.approx(np.std(each, ddof=1))
    assert run("evaluate", *argv, "seed=1", "output_dir=one")[0] == 0
    assert metrics_in("one")["test"][OURS] == metrics["seeds"]["1"]["test"][OURS]


@pytest.mark.parametrize("seeds", ["5", "[]", "[1,1]", "[a]"])
def test_wrong_seeds(run, csv, seeds):
    status, _, err = run("evaluate", "data.path=data/waves.csv", "prediction_length=7", f"seeds={seeds}")
    assert status == 1 and "seeds" in err


def test_outside_data_need_a_folder(run, folder):
    status, _, err = run("evaluate", "experiment=etth1")
    assert status == 1 and "TSFORMER_DATA" in err and "ETTh1.csv" in err
    status, _, err = run("evaluate", "experiment=etth1", "data.root=somewhere")
    assert status == 1 and str(folder / "somewhere") in err


@needs_data
def test_long_horizon_benchmark(run, folder):
    argv = ["experiment=illness", f"data.root={DATA}", "training.max_steps=2", "output_dir=out"]
    status, out, err = run("evaluate", *argv)
    assert (status, err) == (0, "")
    metrics = metrics_in("out")
    assert metrics["train_seconds"] > 0
    for scores in metrics["test"].values():
        assert list(scores) == ["24", "36", "48", "60"]
        assert all(list(score) == ["mse", "mae"] for score in scores.values())
    naive = metrics["test"]["SeasonalNaive"]["24"]
    assert (naive["mse"], naive["mae"]) == pytest.approx((2.564, 1.004), abs=5e-4)  # published control
    ridge = [metrics["test"]["RidgeForecaster"][h]["mse"] for h in metrics["test"]["RidgeForecaster"]]
    assert np.mean(ridge) == pytest.approx(2.089, abs=0.02)
    assert "average" in out


@needs_data
def test_m4_protocol(run, folder):
    argv = ["experiment=m4_weekly", f"data.root={DATA}", "training.max_steps=2", "output_dir=out"]
    status, out, err = run("evaluate", *argv, "seeds=[0,1]")
    assert (status, err) == (0, "")
    metrics = metrics_in("out")
    assert metrics["train_seconds"] > 0
    assert list(metrics["test"]) == [OURS, "SeasonalNaive", "RidgeForecaster", "RepeatLast", "Naive2"]
    assert list(metrics["test"]["Naive2"]) == ["smape", "mase", "owa"]
    each = [metrics["seeds"][seed]["test"][OURS]["owa"] for seed in ("0", "1")]
    assert metrics["test"][OURS]["owa"] == pytest.approx(np.mean(each))
    assert metrics["test"][OURS]["owa_deviation"] == pytest.approx(np.std(each, ddof=1))
    assert "OWA" in out and "9.161" in out
    status, _, err = run("evaluate", *argv, "prediction_length=6")
    assert status == 1 and "13 steps" in err


@needs_data
@pytest.mark.slow
def test_m4_is_tested_on_its_official_part(run, folder):
    argv = ["data=m4_weekly", f"data.root={DATA}", "training.max_steps=2", "output_dir=out"]
    status, out, err = run("evaluate", *argv)
    assert (status, err) == (0, "")
    assert "359 series" in out and "359 windows of 13 steps" in out


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["electricity_hourly", "temperature_daily", "pageviews_daily", "sunspots_monthly"])
@pytest.mark.filterwarnings("ignore:.*missing from the regular.*:UserWarning")
def test_outside_sets(run, folder, name):
    argv = [f"data={name}", f"data.root={DATA}", "training=quick", "output_dir=out"]
    assert run("fit", *argv)[0] == 0
    assert np.isfinite(pd.read_csv("out/forecast.csv").select_dtypes("number")).all(axis=None)


@pytest.mark.slow
def test_the_papers_form_learns_a_sine(run, folder):
    assert run("fit", "data=sine", "model=classic", "output_dir=out")[0] == 0
    assert metrics_in("out")["test"][OURS]["mean"]["mae"] < 0.07


@pytest.mark.slow
def test_embedded_set_beats_the_controls(run, folder):
    assert run("fit", "output_dir=out")[0] == 0
    test = metrics_in("out")["test"]
    assert 0.300 < test["RidgeForecaster"]["mean"]["mae"] < 0.307
    assert 0.41 < test["SeasonalNaive"]["mean"]["mae"] < 0.42
    assert test[OURS]["mean"]["mae"] < 0.289
