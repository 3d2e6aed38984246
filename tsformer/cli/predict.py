"""Command ``predict``: a trained model continues a history."""

from __future__ import annotations

import sys

import pandas as pd

from tsformer.cli import report, runs
from tsformer.cli.compose import Settings
from tsformer.cli.experiment import model_and_config, write_forecast
from tsformer.cli.split import Config, read_data, read_future
from tsformer.forecaster import load


def predict(settings: Settings) -> None:
    """Forecast from the last row of the data of a run, or of other data, and write table and picture."""
    report.refuse_others(settings, {"run", "output_dir", "prediction_length", "verbose"}, "predict")
    model, config = model_and_config(settings)
    forecaster = load(model)
    horizon = config["prediction_length"] if "prediction_length" in settings.given else forecaster.prediction_length
    history = _history(config, is_asked_for=any(key.split(".")[0] == "data" for key in settings.given))
    future = read_future(config)
    known = [repr(covariate.name) for covariate in forecaster._fitted.schema.of_role("known")]
    if known and future is None:
        raise ValueError(
            f"the forecast needs the known covariates of the steps to come, {', '.join(known)}: name a file of them, "
            f"data.future=FILE"
        )
    with runs.run_folder(config, settings.command) as folder:
        forecast = write_forecast(forecaster, history, horizon, folder, future)
        print(f"Model: {model}")
        print(forecast.head(10).to_string(index=False))
        if len(forecast) > 10:
            print(f"... {len(forecast):,} rows in all")
        print(f"Forecast: {folder / runs.FORECAST}")


def _history(config: Config, *, is_asked_for: bool) -> pd.DataFrame | None:
    """Return what to forecast from; None: the history kept in the model, where the data of the run are not there."""
    data = config["data"]
    if data["path"] is None and data["name"] is None:
        return None
    try:
        return read_data(config)
    except ValueError as error:
        if is_asked_for:
            raise
        print(f"warning: {error}. Forecasting from the history kept in the model", file=sys.stderr)
        return None
