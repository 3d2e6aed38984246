"""``backtest``: what it writes, that it is the function of the library, trained models, refits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import SeasonalNaive, backtest
from tsformer.cli.compose import compose
from tsformer.cli.experiment import build

OURS = "TransformerForecaster"
MODELS = [OURS, "SeasonalNaive", "RidgeForecaster", "RepeatLast"]
ARGV = ["data.path=data/waves.csv", "prediction_length=7", "context_length=14", "training.max_steps=2"]


def forecasts_in(folder: str | Path) -> pd.DataFrame:
    path = Path(folder) / "backtest.parquet"
    return pd.read_parquet(path) if path.exists() else pd.read_csv(Path(folder) / "backtest.csv.gz")


def metrics_in(folder: str | Path) -> dict:
    return json.loads((Path(folder) / "metrics.json").read_text())


def test_writes_forecasts_metrics_and_a_picture(run, csv):
    status, out, err = run("backtest", *ARGV, "backtest.windows=3", "output_dir=out")
    assert (status, err) == (0, "")
    names = {"config.yaml", "backtest.parquet", "metrics.json", "metrics_by_series.csv", "backtest.png"}
    assert {path.name for path in Path("out").iterdir()} == names
    lines = out.splitlines()
    assert lines[0].startswith(str(csv)) and "load, heat, step D" in lines[0]
    assert lines[1] == "3 windows of 7 steps, 7 apart, the last from 2024-04-22; one fit before the first"
    assert [line.split()[0] for line in lines[5:9]] == MODELS
    assert lines[4].split()[:2] == ["MASE", "RMSSE"] and lines[4].endswith("MAE heat")
    assert lines[-1] == f"Run folder: {Path('out').absolute()}"

    frame = forecasts_in("out")
    assert list(frame.columns) == ["unique_id", "cutoff", "ds", "target", "y", *MODELS]
    assert len(frame) == 3 * 7 * 2
    metrics = metrics_in("out")
    assert list(metrics["backtest"]) == MODELS
    of_load = frame[frame["target"] == "load"]
    error = (of_load["y"] - of_load[OURS]).abs()
    assert metrics["backtest"][OURS]["load"]["mae"] == pytest.approx(error.mean())
    ahead = of_load.groupby("cutoff").cumcount()
    np.testing.assert_allclose(metrics["by_step"][OURS]["load"]["mae"], error.groupby(ahead).mean())
    each = [metrics["backtest"][OURS][name]["mase"] for name in ("load", "heat")]
    assert metrics["backtest"][OURS]["mean"]["mase"] == pytest.approx(np.mean(each))
    assert "mae" not in metrics["backtest"][OURS]["mean"]
    table = pd.read_csv("out/metrics_by_series.csv")
    row = table.query("target == 'heat' and metric == 'mase'")
    assert row[OURS].item() == pytest.approx(metrics["backtest"][OURS]["heat"]["mase"])


def test_is_the_librarys_backtest(run, csv):
    Path("out").mkdir()
    for name in ("backtest.csv.gz", "forecast.csv", "notes.txt"):
        (Path("out") / name).write_text("old")
    options = [*ARGV, "backtest.windows=2", "backtest.step=3", "refit=true", "training=quantile", "output_dir=out"]
    assert run("backtest", *options)[0] == 0
    forecaster = build(compose("backtest", options).config)
    data = pd.read_csv(csv, parse_dates=["day"]).rename(columns={"day": "ds"})
    models = {OURS: forecaster, "SeasonalNaive": SeasonalNaive(7)}
    expected = backtest(models, data, windows=2, step=3, refit=True, level=[80, 95])
    pd.testing.assert_frame_equal(
        forecasts_in("out")[expected.columns], expected, check_dtype=False, check_categorical=False
    )
    scores = metrics_in("out")["backtest"]
    assert 0 <= scores[OURS]["mean"]["coverage_level80"] <= scores[OURS]["mean"]["coverage_level95"] <= 1
    assert scores["RidgeForecaster"]["mean"]["coverage_level80"] is None
    left = {path.name for path in Path("out").iterdir()}  # files of an earlier run go, others stay
    assert "notes.txt" in left and not {"backtest.csv.gz", "forecast.csv"} & left


def test_trained_model_is_tested_on_what_it_has_not_seen(fitted, run):
    assert run("backtest", f"run={fitted}", "backtest.windows=3", "output_dir=out")[0] == 0
    import tsformer

    data = pd.read_csv("data/waves.csv", parse_dates=["day"]).rename(columns={"day": "ds"})
    frame = forecasts_in("out")
    first = frame[frame["cutoff"] == frame["cutoff"].min()]
    history = data[data["ds"] <= first["cutoff"].iloc[0]]
    by_hand = tsformer.load(fitted / "model.safetensors").predict(history)
    np.testing.assert_allclose(first[OURS].to_numpy().reshape(7, 2), by_hand[["load", "heat"]], rtol=1e-6)

    status, _, err = run("backtest", f"run={fitted}", "backtest.windows=4")  # trained on 96 of 120 rows
    assert status == 1 and "has seen rows after the first of 4 cut-offs" in err
    status, _, err = run("backtest", f"run={fitted}", "model.d_model=8")
    assert status == 2 and "does not use model.d_model" in err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("seeds=[0,1]", "seeds"),
        ("backtest.windows=0", "backtest.windows"),
        ("backtest.step=0", "backtest.step"),
        ("prediction_length=null", "how many steps"),
        ("prediction_length=200", "the longest has 120 rows"),
        ("refit=maybe", "refit"),
    ],
)
def test_wrong_options(run, csv, option, words):
    status, _, err = run("backtest", *ARGV, option, "output_dir=out")
    assert status == 1 and words in err
    assert not Path("out").exists() or not any(Path("out").iterdir())


def test_calibrated_backtest_has_coverage(run, csv):
    assert run("backtest", *ARGV, "training.calibrate=true", "backtest.windows=2", "output_dir=out")[0] == 0
    assert f"{OURS}-hi-95" in forecasts_in("out")
    assert 0 <= metrics_in("out")["backtest"][OURS]["mean"]["coverage_level80"] <= 1
