"""Command ``backtest``: forecasts from a rolling origin beside the baselines, in a frame, metrics and a picture."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer.cli import report, runs
from tsformer.cli.compose import Settings, to_yaml
from tsformer.cli.experiment import OURS, build, interval_levels, model_and_config
from tsformer.cli.split import Config, check_season, panel_of, read_data
from tsformer.config import DISTRIBUTIONS, check_integer
from tsformer.data.axis import show_stamp
from tsformer.data.panel import Panel
from tsformer.evaluation.backtest import backtest as run_backtest
from tsformer.evaluation.backtest import rolling_origins, trained_before
from tsformer.evaluation.backtest_metrics import BacktestMetrics, backtest_metrics
from tsformer.evaluation.baselines import RepeatLast, RidgeForecaster, SeasonalNaive
from tsformer.forecaster import TransformerForecaster, load
from tsformer.metrics import as_json, mean_or_nan

# These have a unit and are not averaged over targets.
IN_TARGET_UNITS = ("mae", "rmse")
HEADINGS = {
    "mase": "MASE",
    "rmsse": "RMSSE",
    "smape": "sMAPE",
    "wape": "WAPE",
    "scaled_mqloss": "scaled QL",
    "scaled_crps": "scaled CRPS",
}


def backtest(settings: Settings) -> None:
    """Forecast the last windows of the data, each from what was known before it; fill a run folder."""
    config, forecaster = settings.config, None
    if config["seeds"] is not None:
        raise ValueError("seeds= is for evaluate: a backtest trains with seed=")
    runs.check_holds_no_model(config["output_dir"])
    if config["run"] is not None:
        allowed = {"run", "output_dir", "prediction_length", "refit", "verbose", "backtest.windows", "backtest.step"}
        report.refuse_others(settings, allowed, "backtest run=...")
        model, of_run = model_and_config(settings)
        forecaster = load(model)
        config = of_run | {key: config[key] for key in ("refit", "backtest")}
        config["freq"], config["data"]["targets"] = forecaster.freq_, list(forecaster.targets_)
    horizon, windows = _lengths(config)
    step = config["backtest"]["step"] or horizon
    frame = read_data(config)
    panel = panel_of(config, frame)
    end = next(rolling_origins(panel.lengths, windows, step, horizon).rounds(windows))[1]
    if forecaster is not None and config["refit"] is False and not trained_before(forecaster, panel, end):
        raise ValueError(
            f"the model of run={settings.config['run']} has seen rows after the first of {windows} cut-offs, or other "
            f"data: lower backtest.windows, or train again with refit=true"
        )
    targets = list(panel.schema.targets)
    ours = build(config, target_cols=targets) if forecaster is None else forecaster
    print(_describe(config, panel, windows, step, horizon))
    with runs.run_folder(config, settings.command) as folder:
        began = time.perf_counter()
        result = run_backtest(
            {OURS: ours} | _baselines(config, targets, horizon),
            frame,
            windows=windows,
            step=step,
            horizon=horizon,
            refit=config["refit"],
            level=_levels(ours),
            progress=config["verbose"] is not False,
        )
        seconds = round(time.perf_counter() - began, 3)
        season = config["data"]["season_length"]
        metrics = backtest_metrics(result, frame, season_length=season, freq=config["freq"], target_cols=targets)
        runs.clear(folder)
        _write(folder, config, result, metrics, str(targets[0]), seconds)
        print(f"{result['cutoff'].nunique():,} cut-offs, {len(result):,} forecasts in {seconds:.1f} s\n")
        print(_table(metrics.overall, str(targets[0])))
        print(f"\nRun folder: {folder}")


def _lengths(config: Config) -> tuple[int, int]:
    """Return horizon and number of windows, checked."""
    if config["prediction_length"] is None:
        raise ValueError(
            "how many steps to forecast? Set prediction_length=24, say: these data bring none of their own"
        )
    if config["backtest"]["step"] is not None:
        check_integer("backtest.step", config["backtest"]["step"], minimum=1)
    check_season(config)
    horizon = check_integer("prediction_length", config["prediction_length"], minimum=1)
    return horizon, check_integer("backtest.windows", config["backtest"]["windows"], minimum=1)


def _baselines(config: Config, targets: list[Any], horizon: int) -> dict[str, Any]:
    """Return the controls, not fitted yet."""
    reading: dict[str, Any] = dict(freq=config["freq"], target_cols=targets)
    share = config["training"]["validation_size"]
    return {
        "SeasonalNaive": SeasonalNaive(horizon, season_length=config["data"]["season_length"], **reading),
        "RidgeForecaster": RidgeForecaster(horizon, validation_size=share, **reading),
        "RepeatLast": RepeatLast(horizon, **reading),
    }


def _levels(forecaster: TransformerForecaster) -> list[float] | None:
    """Return the coverages in percent that a forecaster, fitted or not, will have: 80 and 95, or the widest."""
    if forecaster.loss == "quantile":
        return interval_levels(forecaster.quantiles, None)
    return [80, 95] if forecaster.calibrate or forecaster.loss in DISTRIBUTIONS else None


def _describe(config: Config, panel: Panel, windows: int, step: int, horizon: int) -> str:
    """Say what is forecast from where."""
    schema = panel.schema
    longest = int(panel.lengths.argmax())
    last = show_stamp(panel.stamps(longest, panel.lengths[longest] - horizon - 1), schema.zone)
    series = f"{panel.n_series:,} series of " if panel.n_series > 1 else ""
    shown = ", ".join(map(str, schema.targets[: report.MAX_TARGETS]))
    more = " ..." if len(schema.targets) > report.MAX_TARGETS else ""
    fits = {False: "one fit before the first", True: "a fit before each"}
    refit = fits[config["refit"]] if isinstance(config["refit"], bool) else f"a fit before every {config['refit']}"
    return (
        f"{config['data']['name'] or config['data']['path']}: {series}{shown}{more}, step {schema.freq}\n"
        f"{windows} windows of {horizon} steps, {step} apart, the last from {last}; {refit}"
    )


def _write(
    folder: Path, config: Config, result: pd.DataFrame, metrics: BacktestMetrics, target: str, seconds: float
) -> None:
    """Write forecasts, metrics and picture."""
    from tsformer.inspection.plotting import plot_backtest  # matplotlib: a second that nothing before needs

    runs.write(folder / runs.CONFIG, lambda path: path.write_text(to_yaml(config), encoding="utf-8"))
    if importlib.util.find_spec("pyarrow") is not None:
        runs.write(folder / runs.BACKTESTS[0], lambda path: result.to_parquet(path, index=False))
    else:
        runs.write(folder / runs.BACKTESTS[1], lambda path: result.to_csv(path, index=False))
    content = {
        "backtest": _by_model(metrics.overall, target),
        "by_step": _by_model(metrics.by_step, target),
        "seconds": seconds,
    }
    runs.write_json(folder / runs.METRICS, content)
    runs.write(folder / runs.BY_SERIES, lambda path: metrics.by_series.to_csv(path, index=False))
    figure = plot_backtest(result, by_step=metrics.by_step)
    runs.write(folder / runs.BACKTEST_PICTURE, lambda path: figure.savefig(path, dpi=120))


def _by_model(metrics: pd.DataFrame, target: str) -> dict[str, Any]:
    """Return ``{model: {target: {metric: number, or a list by step}}}``; ``"mean"``: over targets, without a unit."""
    has_steps = "step" in metrics
    if "target" not in metrics:
        metrics = metrics.assign(target=target)
    content: dict[str, Any] = {}
    for model in metrics.columns.drop(["target", "metric", "step"], errors="ignore"):
        of_model: dict[str, Any] = {"mean": {}}
        for (name, metric), rows in metrics.groupby(["target", "metric"], sort=False, observed=True)[model]:
            numbers = [as_json(number) for number in rows]
            of_model.setdefault(str(name), {})[metric] = numbers if has_steps else numbers[0]
        for metric, of_metric in metrics.groupby("metric", sort=False):
            if metric not in IN_TARGET_UNITS:
                values = of_metric[model].to_numpy().reshape(of_metric["target"].nunique(), -1)  # (C, H), or (C, 1)
                numbers = [as_json(number) for number in mean_or_nan(values, axis=0)]
                of_model["mean"][metric] = numbers if has_steps else numbers[0]
        content[str(model)] = of_model
    return content


def _table(overall: pd.DataFrame, target: str) -> str:
    """Set the overall metrics as a table, a row a forecaster: without a unit the mean over targets, MAE of each."""
    rows = {}
    for model, entry in _by_model(overall, target).items():
        mean = {HEADINGS[name]: entry["mean"][name] for name in HEADINGS if name in entry["mean"]}
        coverage = {
            name.replace("coverage_level", "coverage "): share
            for name, share in entry["mean"].items()
            if name.startswith("coverage")
        }
        targets = [name for name in entry if name != "mean"][: report.MAX_TARGETS]
        rows[model] = mean | coverage | {f"MAE {name}": entry[name]["mae"] for name in targets}
    table = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    return table.to_string(float_format=lambda number: f"{number:,.4g}", na_rep="-")
