"""Commands ``fit`` and ``evaluate``: data, split, training, test, forecast, each a step that can be read by itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsformer.calibration import ConformalCalibration
from tsformer.cli import report, runs
from tsformer.cli.compose import Settings, read_yaml, to_yaml
from tsformer.cli.split import Config, Split, read_future, split_rows_of
from tsformer.config import check_bool, check_integer, quantile_pairs
from tsformer.data.future import with_future
from tsformer.data.series import ROLES
from tsformer.evaluation.benchmarks import (
    M4Protocol,
    evaluate_long_horizon,
    evaluate_m4,
    evaluate_windows,
    fit_baselines,
)
from tsformer.forecaster import TransformerForecaster, load

OURS = "TransformerForecaster"


def fit(settings: Settings) -> None:
    """Train, test beside the baselines, forecast from the last row of the data; fill a run folder."""
    config = settings.config
    if config["run"] is not None or config["seeds"] is not None:
        raise ValueError("run= and seeds= are for evaluate: fit trains one model, with seed=")
    check_bool("refit", config["refit"])
    split = split_rows_of(config)
    future = read_future(config)
    if future is not None:  # what it lacks is said before the training
        with_future(split.panel, future, config["prediction_length"])
    print(report.describe_data(config["data"], split))
    with runs.run_folder(config, settings.command) as folder:
        forecaster, seconds = _train(config, split, config["seed"])
        runs.clear(folder)
        _save(forecaster, config, folder)
        test = _test({OURS: forecaster} | _baselines(config, split), config, split, folder)
        runs.write_json(folder / runs.METRICS, {"test": test, "train_seconds": seconds})
        print(report.table(test, config["prediction_length"], split.n_windows(config["prediction_length"])))
        if config["refit"]:
            forecaster = _train_on_everything(forecaster, split)
            _save(forecaster, config, folder)
        if config["data"]["known"] is None or future is not None:
            write_forecast(forecaster, split.frame, config["prediction_length"], folder, future)
        else:
            print(f"No {runs.FORECAST}: it needs the known covariates of the steps to come, data.future=FILE")
        print(f"Run folder: {folder}")


def evaluate(settings: Settings) -> None:
    """Test a trained model, or train and test one for each seed, and write the metrics."""
    config = settings.config
    if config["refit"]:
        raise ValueError("refit=true is for fit: evaluate keeps the test rows out of the training")
    if config["run"] is not None:
        _evaluate_run(settings)
        return
    seeds = config["seeds"]
    if seeds is not None:
        if not isinstance(seeds, list) or not seeds or len(set(map(str, seeds))) < len(seeds):
            raise ValueError(f"seeds is a list of different numbers, as seeds=[0,1,2], got {seeds!r}")
        seeds = [check_integer("seeds", seed, minimum=0) for seed in seeds]
        runs.check_holds_no_model(config["output_dir"])
    split = split_rows_of(config)
    print(report.describe_data(config["data"], split))
    with runs.run_folder(config, settings.command) as folder:
        forecasters, seconds = {}, []
        for seed in [config["seed"]] if seeds is None else seeds:
            forecaster, elapsed = _train(config, split, seed)
            forecasters[OURS if seeds is None else f"{OURS} seed {seed}"] = forecaster
            seconds.append(elapsed)
        if seeds is None:
            runs.clear(folder)
            _save(forecaster, config, folder)
        scores = _test(forecasters | _baselines(config, split), config, split, folder, clear=seeds is not None)
        metrics: dict[str, Any] = {"test": scores, "train_seconds": round(float(np.mean(seconds)), 3)}
        if seeds is not None:
            runs.write(folder / runs.CONFIG, lambda path: path.write_text(to_yaml(config), encoding="utf-8"))
            each = [scores.pop(name) for name in forecasters]
            metrics["test"] = {OURS: report.mean_and_deviation(each), **scores}
            metrics["seeds"] = {
                str(seed): {"test": {OURS: one}, "train_seconds": elapsed}
                for seed, one, elapsed in zip(seeds, each, seconds, strict=True)
            }
        runs.write_json(folder / runs.METRICS, metrics)
        print(report.table(metrics["test"], config["prediction_length"], split.n_windows(config["prediction_length"])))
        print(f"Metrics: {folder / runs.METRICS}")


def _evaluate_run(settings: Settings) -> None:
    """Test the model of a run on the test rows of its data."""
    report.refuse_others(settings, {"run", "output_dir", "prediction_length", "verbose"}, "evaluate run=...")
    runs.check_holds_no_model(settings.config["output_dir"])
    model, config = model_and_config(settings)
    if config["refit"]:
        raise ValueError(f"{model.parent} was trained again on all rows (refit=true): it has seen the test rows")
    forecaster = load(model)
    config["freq"], config["data"]["targets"] = forecaster.freq_, list(forecaster.targets_)
    split = split_rows_of(config)
    print(report.describe_data(config["data"], split))
    with runs.run_folder(config, settings.command) as folder:
        test = _test({OURS: forecaster} | _baselines(config, split), config, split, folder, clear=True)
        runs.write(folder / runs.CONFIG, lambda path: path.write_text(to_yaml(config), encoding="utf-8"))
        runs.write_json(folder / runs.METRICS, {"test": test})
        print(report.table(test, config["prediction_length"], split.n_windows(config["prediction_length"])))
        print(f"Metrics: {folder / runs.METRICS}")


# ---------------------------------------------------------------------- steps


def build(config: Config, **changes: Any) -> TransformerForecaster:
    """Return the estimator that a configuration describes."""
    given: dict[str, Any] = dict(
        prediction_length=config["prediction_length"],
        context_length=config["context_length"],
        freq=config["freq"],
        target_cols=config["data"]["targets"],
        **{role: config["data"][role] for role in ROLES},
        weight_col=config["data"]["weight"],
        random_state=config["seed"],
        verbose=config["verbose"],
        **config["model"],
        **config["training"],
        **config["trainer"],
    )
    return TransformerForecaster(**(given | changes))


def _train(config: Config, split: Split, seed: int | None) -> tuple[TransformerForecaster, float]:
    """Return a forecaster trained on the rows before the test, and how many seconds that took."""
    forecaster = build(config, random_state=seed, validation_size=split.validation_size)
    began = time.perf_counter()
    forecaster.fit_panel(split.seen)
    seconds = round(time.perf_counter() - began, 3)
    print(report.describe_training(forecaster, seconds))
    return forecaster, seconds


def _train_on_everything(forecaster: TransformerForecaster, split: Split) -> TransformerForecaster:
    """Return one trained on all rows, from the same start for as many steps as were best when some were held out."""
    steps = max(1, forecaster.best_step_)
    lengths = ("context_length", "patch_length", "season_length", "rollout_length")  # more rows could change them
    changes = dict(validation_size=0, calibrate=False, patience=None, max_steps=steps)
    changes |= {name: getattr(forecaster, name + "_") for name in lengths}
    again = TransformerForecaster(**(forecaster.get_params(deep=False) | changes))
    print(f"Training again on all rows, {steps} step{'s' * (steps != 1)}")
    # No rows are left to measure errors on: those of the first model stand for those of the second, in the same units.
    first = forecaster._fitted
    again.fit_panel(split.panel, forecaster._start, first.transform)
    again._take(replace(again._fitted, calibration=first.calibration, blend=first.blend, errors=first.errors))
    return again


def _baselines(config: Config, split: Split) -> dict[str, Any]:
    """Return the controls, fitted on the rows before the test."""
    season, look_back = config["data"]["season_length"], 336
    if split.protocol is not None:
        season, look_back = split.protocol.season_length, split.protocol.ridge_context
    return fit_baselines(
        split.seen,
        config["prediction_length"],
        validation_size=split.validation_size,
        context_length=look_back,
        season_length=season,
    )


def _test(
    forecasters: Mapping[str, Any], config: Config, split: Split, folder: Path, *, clear: bool = False
) -> dict[str, Any]:
    """Return the scores on every test window; keep the forecasts if they are wanted.

    ``clear`` removes the files of an earlier run once there are scores, for a run that has written nothing before.
    """
    file = runs.ForecastFile(folder) if config["data"]["save_forecasts"] else None
    on_forecasts = None if file is None else file.add
    options: dict[str, Any] = dict(progress=config["verbose"] is not False, on_forecasts=on_forecasts)
    is_done = False
    try:
        scores: dict[str, Any]
        if isinstance(split.protocol, M4Protocol):
            scores = evaluate_m4(forecasters, split.panel, split.protocol, on_forecasts=on_forecasts)
        elif split.protocol is not None:
            scores = evaluate_long_horizon(forecasters, split.panel, split.protocol, **options)
        else:
            scores = evaluate_windows(
                forecasters,
                split.panel,
                split.test_begin,
                config["prediction_length"],
                train_end=split.train_end,
                season_length=config["data"]["season_length"],
                **options,
            )
        is_done = True
        if clear:
            runs.clear(folder)
    finally:
        if file is not None:
            file.close(keep=is_done)
    return scores


def _save(forecaster: TransformerForecaster, config: Config, folder: Path) -> None:
    """Write configuration and model: what ``predict`` and ``evaluate run=`` read."""
    runs.write(folder / runs.CONFIG, lambda path: path.write_text(to_yaml(config), encoding="utf-8"))
    forecaster.save(folder / runs.MODEL)


def write_forecast(
    forecaster: TransformerForecaster, history: Any, horizon: int, folder: Path, future: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Forecast from the last row of a history, with intervals where the model has them; draw it, too."""
    from tsformer.inspection.plotting import plot_forecast  # matplotlib: a second that nothing before needs

    head = forecaster.model_.head
    levels = [80, 95] if head.is_distribution else interval_levels(head.levels, forecaster._fitted.calibration)
    forecast = forecaster.predict(history, horizon, level=levels, future=future)
    runs.write(folder / runs.FORECAST, lambda path: forecast.to_csv(path, index=False))
    figure = plot_forecast(history, forecast, targets=forecaster.targets_)
    runs.write(folder / runs.PICTURE, lambda path: figure.savefig(path, dpi=120))
    return forecast


def interval_levels(quantiles: Sequence[float], calibration: ConformalCalibration | None) -> list[float] | None:
    """Return the coverages in percent to show: 80 and 95 where there are such, or the widest; None: there are none."""
    if not quantiles and calibration is not None:
        return [level for level in (80, 95) if level <= calibration.widest] or None
    coverage = list(quantile_pairs(quantiles))
    return [level for level in coverage if level in (80, 95)] or coverage[-1:] or None


def model_and_config(settings: Settings) -> tuple[Path, Config]:
    """Return the model of ``run=`` and its configuration, with the data that the command line names in place of its."""
    asked = settings.config
    model, path = runs.find_run(str(asked["run"] or "latest"))
    config = read_yaml(path) if path is not None else asked | {"data": {key: None for key in asked["data"]}}
    if "data" in settings.given:
        config["data"] = asked["data"]
    elif "data.path" in settings.given:  # another file of the same columns
        config["data"] = asked["data"] | {key: config["data"][key] for key in ("time", "id", "targets", *ROLES)}
    for key in settings.given:
        group, _, leaf = key.rpartition(".")
        if group == "data":
            config["data"][leaf] = asked["data"][leaf]
        elif key == "prediction_length":
            config[key] = asked[key]
    return model, config | {key: asked[key] for key in ("run", "output_dir", "verbose")}
