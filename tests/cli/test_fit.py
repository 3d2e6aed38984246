"""``fit``: the run folder, the scores in it, and that it is the estimator's own training."""

from __future__ import annotations

import errno
import importlib.util
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import tsformer
from tsformer import TransformerForecaster
from tsformer.cli.main import _one_line
from tsformer.cli.runs import clear, new_run
from tsformer.evaluation.benchmarks import split_70_10_20

MODELS = ["TransformerForecaster", "SeasonalNaive", "RidgeForecaster", "RepeatLast"]
FILES = ["config.yaml", "forecast.csv", "forecast.png", "metrics.json", "model.safetensors"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_run_folder(quick_fit, folder):
    status, out, err = quick_fit()
    assert (status, err) == (0, "")
    (run_folder,) = (folder / "runs" / "fit").iterdir()
    assert out.splitlines()[-1] == f"Run folder: {run_folder}"
    assert not set("=% ") & set(run_folder.name)
    assert names_in(run_folder) == FILES
    assert sorted(path.name for path in folder.iterdir()) == ["data", "runs"]  # no lightning_logs, no checkpoints

    metrics = json.loads((run_folder / "metrics.json").read_text())
    assert list(metrics["test"]) == MODELS
    for model in MODELS:
        assert list(metrics["test"][model]) == ["load", "heat", "mean"]
        for scores in metrics["test"][model].values():
            assert list(scores) == ["mae", "rmse", "mase"]
            assert all(np.isfinite(value) for value in scores.values())
        assert f"{model} " in out
    assert metrics["train_seconds"] > 0

    forecast = pd.read_csv(run_folder / "forecast.csv", parse_dates=["ds"])
    assert list(forecast) == ["ds", "load", "heat"]
    assert forecast["ds"].tolist() == pd.date_range("2024-04-30", periods=7).tolist()  # after the last row of all
    assert np.isfinite(forecast[["load", "heat"]]).all(axis=None)
    assert (run_folder / "forecast.png").read_bytes()[:4] == b"\x89PNG"

    config = yaml.safe_load((run_folder / "config.yaml").read_text())
    assert config["prediction_length"] == 7
    assert config["data"]["path"] == str(folder / "data" / "waves.csv")


def test_command_line_is_the_estimator(quick_fit, csv, folder):
    status, *_ = quick_fit("output_dir=out", "seed=3")
    assert status == 0
    frame = pd.read_csv(csv, parse_dates=["day"])
    train_end, test_begin = (int(row) for row in split_70_10_20(len(frame)))
    forecaster = tsformer.TransformerForecaster(
        prediction_length=7,
        context_length=14,
        time_col="day",
        d_model=16,
        nhead=2,
        num_encoder_layers=1,
        dim_feedforward=16,
        batch_size=16,
        max_steps=4,
        max_steps_per_epoch=2,
        validation_size=test_begin - train_end,
        random_state=3,
        verbose=False,
    )
    expected = forecaster.fit(frame.iloc[:test_begin]).predict(frame)
    written = pd.read_csv(folder / "out" / "forecast.csv")
    np.testing.assert_allclose(written[["load", "heat"]], expected[["load", "heat"]], rtol=1e-12)
    again = tsformer.load(folder / "out" / "model.safetensors").predict(frame.rename(columns={"day": "ds"}))
    pd.testing.assert_frame_equal(again.drop(columns="ds"), expected.drop(columns="day"))


@pytest.mark.parametrize("chdir", ["true", "false"])
def test_paths_are_relative_to_where_the_user_stands(quick_fit, folder, chdir):
    status, *_ = quick_fit(f"hydra.job.chdir={chdir}", "hydra.run.dir=elsewhere", "output_dir=my/out")
    assert status == 0
    assert names_in(folder / "my" / "out") == FILES
    assert sorted(path.name for path in folder.iterdir()) == ["data", "my"]


def test_missing_file_is_one_line_with_the_path_tried(run, folder):
    status, out, err = run("fit", "data.path=data/nope.csv", "prediction_length=5")
    assert (status, out) == (1, "")
    assert err == f"tsformer: no such file: {folder / 'data' / 'nope.csv'}\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["epoch=3-step=40.csv", "my data.csv", "a,b.csv", "näive.csv", "2024-01-31.csv"])
def test_quoted_paths_work(run, csv, name):
    csv.rename(csv.parent / name)
    status, _, err = run("fit", f'data.path="data/{name}"')
    assert status == 1 and "prediction_length" in err  # the configuration is fine but for that


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["training.validation_size=0", "training.patience=3"], ["patience=3", "validation_size"]),
        (["prediction_length=100"], ["120 rows", "prediction_length=100"]),
        (["data.targets=[nothing]"], ["nothing", "load, heat"]),
        (["data.time=nothing"], ["no time column 'nothing'"]),
        (["freq=fortnight"], ["fortnight"]),
        (["model.d_model=abc"], ["d_model", "'abc'"]),
        (["model.d_model=15", "model.nhead=4"], ["d_model=15", "nhead=4"]),
        (["refit=maybe"], ["refit"]),
        (["data.protocol=long_horizon"], ["long_horizon", "etth1"]),
        (["seeds=[0,1]"], ["evaluate"]),
        (["run=latest"], ["evaluate"]),
    ],
)
def test_faults_are_found_before_training(quick_fit, folder, argv, words):
    status, out, err = quick_fit(*argv)
    assert status == 1
    assert "Trained" not in out and "Traceback" not in err
    for word in words:
        assert word in err
    assert not list(folder.glob("runs/*/*"))


def test_traceback_on_request(run, folder):
    with pytest.raises(ValueError, match="no such file"):
        run("fit", "data.path=nope.csv", "prediction_length=5", "--traceback")


def test_no_data_and_no_horizon(run, csv):
    assert "data.path" in run("fit", "data=file", "prediction_length=3")[2]
    assert "prediction_length" in run("fit", "data.path=data/waves.csv")[2]


def test_saved_forecasts_recompute_the_metrics(quick_fit, folder):
    status, *_ = quick_fit("save_forecasts=true", "output_dir=out")
    assert status == 0
    if importlib.util.find_spec("pyarrow"):
        table = pd.read_parquet(folder / "out" / "forecasts.parquet")
    else:
        table = pd.read_csv(folder / "out" / "forecasts.csv.gz")
    assert list(table) == ["cutoff", "ds", "id", "target", "y", *MODELS]
    metrics = json.loads((folder / "out" / "metrics.json").read_text())["test"]
    for model in MODELS:
        mae = (table[model] - table["y"]).abs().groupby(table["target"], observed=True).mean()
        for target in ("load", "heat"):
            assert mae[target] == pytest.approx(metrics[model][target]["mae"], rel=1e-9)


def test_forecasts_without_pyarrow_are_csv(folder, monkeypatch):
    from tsformer.cli.runs import ForecastFile

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    file = ForecastFile(folder)
    frame = pd.DataFrame({"cutoff": [1, 2], "y": [0.1, 1 / 3]})
    file.add(frame)
    file.add(frame)
    file.close(keep=True)
    assert names_in(folder) == ["forecasts.csv.gz"]
    written = pd.read_csv(folder / "forecasts.csv.gz")
    pd.testing.assert_frame_equal(written, pd.concat([frame, frame], ignore_index=True))


def test_refit_trains_on_all_rows(fitted, quick_fit, run, folder):
    status, out, _ = quick_fit("output_dir=again", "refit=true")
    assert status == 0 and "Training again on all rows" in out
    scores = [json.loads((path / "metrics.json").read_text())["test"] for path in (fitted, folder / "again")]
    assert scores[0] == scores[1]  # the scores are those of the model that has not seen the test rows
    plain, again = (pd.read_csv(path / "forecast.csv") for path in (fitted, folder / "again"))
    assert not np.allclose(plain["load"], again["load"])
    kept = tsformer.load(folder / "again" / "model.safetensors").predict()
    np.testing.assert_allclose(kept["load"], again["load"], rtol=1e-6)  # its history is all rows
    status, _, err = run("evaluate", "run=again")
    assert status == 1 and "has seen the test rows" in err


def test_a_refit_has_the_lengths_and_the_start_of_the_first(run, folder):
    """The rows of the test lengthen a derived look-back, and no rows are left to fit the linear path on."""
    steps = np.arange(300)
    truth = 100 + 10 * np.sin(2 * np.pi * steps / 15)
    pd.DataFrame({"ds": steps[:288], "y": truth[:288]}).to_csv(folder / "my.csv", index=False)
    status, out, err = run(
        "fit", "data.path=my.csv", "prediction_length=12", "training.max_steps=4", "refit=true", "output_dir=out"
    )
    assert (status, err) == (0, "") and "Training again on all rows" in out
    np.testing.assert_allclose(pd.read_csv(folder / "out" / "forecast.csv")["y"], truth[288:], atol=0.5)


def test_a_panel_in_long_form(run, folder):
    rng = np.random.default_rng(0)
    sizes = {"a": 60, "b": 90, "c": 75}
    table = pd.concat(
        [
            pd.DataFrame(
                {"shop": name, "day": pd.date_range("2024-01-01", periods=n), "sold": rng.normal(10, 1, n), "kind": "x"}
            )
            for name, n in sizes.items()
        ]
    )
    table.to_csv("shops.csv", index=False)
    status, out, err = run(
        *("fit", "data.path=shops.csv", "data.time=day", "data.id=shop", "data.targets=sold", "prediction_length=5"),
        *("training.max_steps=2", "output_dir=out"),
    )
    assert (status, err) == (0, "")
    assert "3 series" in out
    forecast = pd.read_csv("out/forecast.csv", parse_dates=["ds"])
    assert list(forecast) == ["unique_id", "ds", "TransformerForecaster"]
    for name, n in sizes.items():
        first = forecast.loc[forecast["unique_id"] == name, "ds"].iloc[0]
        assert first == pd.Timestamp("2024-01-01") + pd.Timedelta(days=n)
    assert list(json.loads(Path("out/metrics.json").read_text())["test"]["RepeatLast"]) == ["sold", "mean"]


@pytest.mark.parametrize("override", ["training=quantile", "training.loss=normal"])
def test_intervals_where_they_are_learned(quick_fit, folder, override):
    assert quick_fit(override, "output_dir=out")[0] == 0
    forecast = pd.read_csv(folder / "out" / "forecast.csv")
    for name in ("load", "heat"):
        columns = [f"{name}{suffix}" for suffix in ("-lo-95", "-lo-80", "", "-hi-80", "-hi-95")]
        assert set(columns) <= set(forecast)
        assert (forecast[columns].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)


@pytest.mark.parametrize("targets", [[], ["data.targets=load"]])
def test_weights_and_a_transform(targets, quick_fit, csv, folder):
    pd.read_csv(csv).assign(trust=1.0).to_csv(csv, index=False)
    transform = "model.target_transform=box_cox"
    status, _, err = quick_fit("data.weight=trust", transform, "training.loss=mse", *targets, "output_dir=out")
    assert (status, err) == (0, "")
    forecast = pd.read_csv(folder / "out" / "forecast.csv")
    assert "trust" not in forecast and ("heat" in forecast) == (not targets)
    assert forecast["load"].between(50, 150).all()


def test_gaps_are_one_warning_line(quick_fit, csv):
    table = pd.read_csv(csv)
    table.drop(index=[50, 51]).to_csv(csv, index=False)
    with pytest.warns(UserWarning, match="2024-02-20"):
        assert quick_fit()[0] == 0


def test_warnings_are_printed_without_code():
    assert (
        _one_line(UserWarning("2 stamps are missing"), UserWarning, "axis.py", 210) == "warning: 2 stamps are missing\n"
    )


def test_a_run_again_into_the_same_folder_leaves_nothing_old(fitted):
    for name in ("forecasts.parquet", "backtest.parquet", "metrics_by_series.csv", "backtest.png", "mine.txt"):
        (fitted / name).touch()
    assert new_run(str(fitted), "fit") == fitted
    clear(fitted)
    assert names_in(fitted) == ["mine.txt"]


def test_a_command_that_is_refused_or_fails_costs_nothing(fitted, quick_fit, monkeypatch):
    def contents():
        return {path.name: path.read_bytes() for path in fitted.iterdir()}

    before = contents()
    status, _, err = quick_fit("model.nhead=3", f"output_dir={fitted}")
    assert status == 1 and "nhead=3" in err and contents() == before
    monkeypatch.setattr(TransformerForecaster, "fit_panel", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        quick_fit(f"output_dir={fitted}")
    assert contents() == before


def test_no_command_writes_over_the_data_it_reads(fitted, run, csv):
    mine = csv.with_name("forecast.csv")
    before = csv.rename(mine).read_bytes()
    reads, into = f"data.path={mine}", f"output_dir={mine.parent}"
    for argv in (["fit"], ["backtest"], ["evaluate"], ["predict", f"run={fitted}"], ["evaluate", f"run={fitted}"]):
        status, out, err = run(*argv, reads, "prediction_length=7", into)
        assert status == 1 and "Trained" not in out
        assert f"{reads} would be lost" in err and "output_dir" in err
        assert mine.read_bytes() == before and list(mine.parent.iterdir()) == [mine]


def test_a_folder_that_cannot_be(quick_fit, csv):
    for name in (csv, csv / "below", csv.with_name("a" * 300)):
        status, _, err = quick_fit(f"output_dir={name}")
        assert status == 1 and f"cannot write to the folder {name} (" in err and "output_dir=FOLDER" in err
    status, _, err = quick_fit("output_dir=[a,b]")
    assert status == 1 and "is not the name of a folder" in err and "output_dir=FOLDER" in err


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_training(quick_fit, csv, monkeypatch):
    def refuse(dir):  # permissions do not hold for everyone who runs tests
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    status, out, err = quick_fit(f"output_dir={csv.parent}")
    assert status == 1 and "Trained" not in out
    assert f"cannot write to the folder {csv.parent} (Permission denied): name another one, output_dir=FOLDER" in err


@pytest.mark.parametrize("season", ["0", "abc"])
def test_a_season_that_is_none_is_refused_before_the_training(quick_fit, folder, season):
    status, out, err = quick_fit(f"data.season_length={season}", "output_dir=out")
    assert status == 1 and "data.season_length must be" in err and not out
    assert not (folder / "out").exists()


@pytest.mark.parametrize("command", ["fit", "evaluate", "backtest"])
def test_a_test_row_without_an_image_is_refused_before_the_training(command, run, csv, folder):
    table = pd.read_csv(csv)
    table.loc[119, "load"] = -3.0
    table.to_csv(csv, index=False)
    options = [f"data.path={csv}", "prediction_length=7", "model.target_transform=box_cox", "output_dir=out"]
    status, out, err = run(command, *options, "training=quick")
    assert status == 1 and "needs values above 0" in err and "'load', 2024-04-29" in err
    assert not out and not (folder / "out").exists()


def test_a_refit_keeps_the_units_and_the_errors_of_the_first(run, folder, monkeypatch):
    """Closed forms, past errors and network speak of the same transformed targets."""
    made = []
    monkeypatch.setattr(TransformerForecaster, "save", lambda self, path: made.append(self._fitted))
    rows = np.random.default_rng(0).lognormal(3, 0.5, 200)
    rows[160:] **= 2  # a Box-Cox of all rows is another one
    pd.DataFrame({"ds": np.arange(200), "y": rows}).to_csv(folder / "my.csv", index=False)
    settings = ["training.loss=mse", "model.target_transform=box_cox", "refit=true", "output_dir=out"]
    assert run("fit", "data.path=my.csv", "prediction_length=5", "training=quick", *settings)[0] == 0
    first, second = made
    assert second.transform is first.transform and second.errors is first.errors and second.blend is first.blend
    assert second.transformed.mean > first.transformed.mean


def test_calibrated_intervals_outlive_the_refit(quick_fit):
    assert quick_fit("training.calibrate=true", "refit=true", "output_dir=out")[0] == 0
    forecast = pd.read_csv("out/forecast.csv")
    ends = [f"{name}-{end}" for name in ("load", "heat") for end in ("lo-80", "hi-80", "lo-95", "hi-95")]
    assert set(ends) < set(forecast)
    assert (forecast["load-lo-95"] < forecast["load-lo-80"]).all() and (forecast["heat"] < forecast["heat-hi-80"]).all()


def test_a_distribution_brings_its_intervals(quick_fit, folder):
    status, *_ = quick_fit("output_dir=out", "training.loss=normal")
    assert status == 0
    columns = list(pd.read_csv(folder / "out" / "forecast.csv"))
    assert columns[:6] == ["ds", "load", "load-lo-80", "load-hi-80", "load-lo-95", "load-hi-95"]


def test_covariates_of_a_file(folder, run):
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=130)
    price = rng.uniform(1, 3, 130).round(2)
    sold = (50 - 10 * price + rng.normal(0, 1, 130)).round(2)
    table = pd.DataFrame({"day": days, "sold": sold, "price": price, "weather": rng.choice(["sun", "rain"], 130)})
    table[:120].to_csv("shop.csv", index=False)
    table[120:][["day", "price"]].to_csv("plan.csv", index=False)
    common = ["data.path=shop.csv", "data.targets=sold", "data.known=[price]", "data.observed=weather"]
    quick = ["prediction_length=5", "model.d_model=16", "model.nhead=2", "training.max_steps=5", "verbose=false"]
    status, out, err = run("fit", *common, *quick, "output_dir=out")
    assert (status, err) == (0, "")
    assert "No forecast.csv: it needs the known covariates of the steps to come, data.future=FILE" in out
    assert not (folder / "out" / "forecast.csv").exists()
    status, out, err = run("predict", "run=out", "data.future=plan.csv", "output_dir=ahead")
    assert (status, err) == (0, "")
    forecast = pd.read_csv(folder / "ahead" / "forecast.csv", parse_dates=["ds"])
    assert forecast.ds.tolist() == days[120:125].tolist() and np.isfinite(forecast.sold).all()
    status, out, err = run("predict", "run=out", "output_dir=ahead")
    assert status == 1 and "data.future" in err


def test_what_the_future_lacks_is_said_before_the_training(folder, run):
    days = pd.date_range("2024-01-01", periods=60)
    pd.DataFrame({"day": days, "sold": np.arange(60.0), "price": 2.0}).to_csv("shop.csv", index=False)
    pd.DataFrame({"day": days[-2:] + pd.Timedelta(days=2), "price": 2.0}).to_csv("short.csv", index=False)
    common = ["fit", "data.path=shop.csv", "data.targets=sold", "prediction_length=5", "output_dir=out"]
    for given, said in [
        (["data.known=price", "data.future=nope.csv"], "no such file"),
        (["data.known=price", "data.future=short.csv"], "3 days missing"),
        (["data.future=short.csv"], "name its columns with data.known"),
    ]:
        status, out, err = run(*common, *given)
        assert status == 1 and said in err and "epoch" not in out
    assert not (folder / "out").exists()
