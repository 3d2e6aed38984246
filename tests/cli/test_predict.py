"""``predict``: a trained model continues histories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tsformer.cli.runs import find_run

QUICK = ["model.d_model=16", "model.nhead=2", "model.dim_feedforward=16", "training.max_steps=4"]


def test_continues_the_data_of_the_run(fitted, run, folder):
    status, out, err = run("predict", "run=latest")
    assert (status, err) == (0, "")
    (run_folder,) = (folder / "runs" / "predict").iterdir()
    assert sorted(path.name for path in run_folder.iterdir()) == ["forecast.csv", "forecast.png"]
    assert out.splitlines()[-1] == f"Forecast: {run_folder / 'forecast.csv'}"
    assert f"Model: {fitted / 'model.safetensors'}" in out
    pd.testing.assert_frame_equal(pd.read_csv(run_folder / "forecast.csv"), pd.read_csv(fitted / "forecast.csv"))


def test_any_horizon_and_history(fitted, run, folder, csv):
    table = pd.read_csv(csv)
    table.iloc[:100, [2, 0, 1]].to_csv("shorter.csv", index=False)  # columns in another order
    argv = ["predict", f"run={fitted}", "data.path=shorter.csv", "prediction_length=20", "output_dir=out"]
    assert run(*argv)[0] == 0
    forecast = pd.read_csv("out/forecast.csv", parse_dates=["ds"])
    assert forecast["ds"].tolist() == pd.date_range("2024-04-10", periods=20).tolist()
    assert abs(forecast["load"].mean() - 100) < 20 and abs(forecast["heat"].mean() - 200) < 20


def test_another_file_has_the_columns_of_the_run(run, folder):
    wave = 10 + np.sin(2 * np.pi * np.arange(120) / 7)
    day = pd.date_range("2024-01-01", periods=120)
    parts = [pd.DataFrame({"product": name, "day": day, "sold": wave}) for name in ("north", "south")]
    pd.concat(parts).to_csv("shop.csv", index=False)
    argv = ["data.path=shop.csv", "data.id=product", "data.targets=sold", "prediction_length=7", "context_length=14"]
    assert run("fit", *argv, *QUICK, "output_dir=shop")[0] == 0
    status, _, err = run("predict", "run=shop", "data.path=shop.csv", "output_dir=out")
    assert (status, err) == (0, "")
    assert len(pd.read_csv("out/forecast.csv")) == 14


def test_a_target_called_mean_is_refused_before_training(run, folder):
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=120), "mean": np.arange(120.0)})
    frame.to_csv("x.csv", index=False)
    status, _, err = run("fit", "data.path=x.csv", "prediction_length=7")
    assert status == 1 and "cannot be called 'mean'" in err


def test_new_rows_in_the_file_are_seen(fitted, run, csv):
    table = pd.read_csv(csv)
    table.iloc[:-3].to_csv(csv, index=False)
    assert run("predict", "output_dir=out")[0] == 0
    assert pd.read_csv("out/forecast.csv")["ds"].iloc[0] == "2024-04-27"


def test_from_the_kept_history_where_the_data_are_gone(fitted, run, csv):
    csv.unlink()
    status, _, err = run("predict", "output_dir=out")
    assert status == 0
    assert "no such file" in err and "kept in the model" in err
    assert pd.read_csv("out/forecast.csv")["ds"].iloc[0] == "2024-04-06"  # after the rows of the training


def test_a_model_file_alone(fitted, run, folder):
    (fitted / "model.safetensors").rename(folder / "mine.safetensors")
    assert run("predict", "run=mine.safetensors", "output_dir=out")[0] == 0
    assert np.isfinite(pd.read_csv("out/forecast.csv")["load"]).all()


def test_latest_is_the_newest_with_a_model(fitted, folder):
    newer = folder / "runs" / "evaluate" / "2023-01-01_00-00-00"  # newer by what was written, whatever its name
    shutil.copytree(fitted, newer)
    os.utime(newer / "model.safetensors")
    (folder / "runs" / "fit" / "9999-12-31_00-00-00").mkdir()  # a run that never came to a model
    assert find_run("latest") == (newer / "model.safetensors", newer / "config.yaml")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run=nowhere"], ["nowhere"]),
        (["run=latest", "data.path=nope.csv"], ["no such file", "nope.csv"]),
        (["run=latest", "prediction_length=0"], ["at least 1"]),
    ],
)
def test_faults(fitted, run, argv, words):
    status, _, err = run("predict", *argv, "output_dir=out")
    assert status == 1 and err.count("\n") == 1
    for word in words:
        assert word in err


def test_no_run_yet(run, folder):
    status, _, err = run("predict")
    assert status == 1 and str(folder / "runs") in err and "fit" in err


def test_a_missing_column_is_named(fitted, run, csv):
    pd.read_csv(csv).drop(columns="heat").to_csv("less.csv", index=False)
    status, _, err = run("predict", "data.path=less.csv")
    assert status == 1 and "heat" in err


def test_lightning_is_not_loaded(fitted, folder):
    code = (
        "import sys; from tsformer.__main__ import main; status = main(['predict', 'output_dir=out']);"
        "print(status, 'lightning' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert result.stdout.splitlines()[-1] == "0 False False"
