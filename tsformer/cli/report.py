"""What a run says about itself: data, training, and the table of scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tsformer.cli.arguments import UsageError
from tsformer.cli.compose import Settings
from tsformer.cli.split import Split
from tsformer.data.axis import show_stamp
from tsformer.evaluation.benchmarks import LongHorizonProtocol
from tsformer.forecaster import TransformerForecaster

# Targets beyond this many are in metrics.json only.
MAX_TARGETS = 8


def describe_data(data: dict[str, Any], split: Split) -> str:
    """Say what the data are and how they are split."""
    panel = split.panel
    schema = panel.schema
    begin, end = panel.start.min(), panel.stamps(np.arange(panel.n_series), panel.lengths - 1).max()
    first, last = show_stamp(begin, schema.zone), show_stamp(end, schema.zone)
    used = split.protocol.n_rows if isinstance(split.protocol, LongHorizonProtocol) else panel.lengths.sum()
    train, test_begin = int(split.train_end.sum()), int(split.test_begin.sum())
    parts = f"{train:,} rows train, {test_begin - train:,} choose the epoch, {used - test_begin:,} test"
    if test_begin == train:
        parts = f"{train:,} rows train, the last of them choose the epoch, {used - test_begin:,} test"
    targets = ", ".join(map(str, schema.targets[:MAX_TARGETS])) + (" ..." if len(schema.targets) > MAX_TARGETS else "")
    series = f"{panel.n_series:,} series of " if panel.n_series > 1 else ""
    return f"{data['name'] or data['path']}: {series}{targets}, {first} to {last}, step {schema.freq}\n{parts}"


def describe_training(forecaster: TransformerForecaster, seconds: float) -> str:
    """Say how long the training was and where it was best."""
    epochs = forecaster.history_
    plural = "s" * (len(epochs) != 1)
    text = f"Trained {len(epochs)} epoch{plural}, {int(epochs['step'].iloc[-1]):,} steps, in {seconds:.1f} s"
    if "val_loss" in epochs:
        best = epochs[epochs["step"] == forecaster.best_step_]
        text += (
            f"; best validation loss {best['val_loss'].iloc[0]:.4f} after epoch {int(best['epoch'].iloc[0]) + 1}"
            if len(best)
            else "; none was better on the validation rows than the start"
        )
    if len(forecaster.blend_) > 1:
        text += "\nForecast: " + ", ".join(f"{share:.0%} {name}" for name, share in forecaster.blend_.items())
    return text


def table(scores: dict[str, Any], horizon: int, n_windows: int) -> str:
    """Set scores as a table, and say what the numbers are."""
    first = next(iter(scores.values()))
    if "owa" in first:
        return _m4_table(scores)
    if "mean" not in first:
        return _horizon_table(scores)
    targets = [name for name in first if name != "mean"]
    shown = targets[:MAX_TARGETS]
    lines = [
        f"\nTest: {n_windows:,} windows of {horizon} steps. Scaled: each target in units of its deviation in the "
        f"training rows, mean over targets;\nMAE by target: in its own units."
    ]
    head = ["", "scaled MAE", "scaled RMSE", "MASE", *(f"MAE {name}" for name in shown)]
    rows = [
        [
            model,
            _number(entry["mean"]["mae"], entry["mean"].get("mae_deviation")),
            _number(entry["mean"]["rmse"], entry["mean"].get("rmse_deviation")),
            _number(entry["mean"]["mase"], entry["mean"].get("mase_deviation")),
            *(_number(entry[name]["mae"], entry[name].get("mae_deviation"), digits=4) for name in shown),
        ]
        for model, entry in scores.items()
    ]
    lines.append(_aligned([head, *rows]))
    if len(targets) > len(shown):
        lines.append(f"{len(targets) - len(shown)} more targets in metrics.json")
    return "\n".join(lines) + "\n"


def _m4_table(scores: dict[str, dict[str, Any]]) -> str:
    """Set the scores of an M4 benchmark."""
    metrics = {"smape": "sMAPE", "mase": "MASE", "owa": "OWA"}
    rows = [["", *metrics.values()]]
    for model, entry in scores.items():
        rows.append([model, *(_number(entry[name], entry.get(f"{name}_deviation")) for name in metrics)])
    return f"\nTest: the official last values of every series.\n{_aligned(rows)}\n"


def _horizon_table(scores: dict[str, Any]) -> str:
    """Set the scores of a long-horizon benchmark: MSE / MAE of each horizon, and their average."""
    horizons = list(next(iter(scores.values())))
    rows = [["MSE / MAE", *horizons, "average"]]
    for model, entry in scores.items():
        pairs = [(entry[horizon]["mse"], entry[horizon]["mae"]) for horizon in horizons]
        averages = tuple(float(np.mean([pair[i] for pair in pairs])) for i in (0, 1))
        rows.append([model, *(f"{mse:.3f} / {mae:.3f}" for mse, mae in [*pairs, averages])])
    note = "\nTest: every window of each horizon, on data standardised by their training rows."
    return f"{note}\n{_aligned(rows)}\n"


def mean_and_deviation(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and sample deviation over seeds of every number, however deep: ``mae`` and ``mae_deviation``."""
    result: dict[str, Any] = {}
    for name, first in each[0].items():
        values = [one[name] for one in each]
        if isinstance(first, dict):
            result[name] = mean_and_deviation(values)
            continue
        is_whole = None not in values
        result[name] = float(np.mean(values)) if is_whole else None
        result[f"{name}_deviation"] = float(np.std(values, ddof=1)) if is_whole and len(values) > 1 else None
    return result


def refuse_others(settings: Settings, allowed: Iterable[str], command: str) -> None:
    """Refuse keys that a command would not look at."""
    allowed = set(allowed)
    for key in sorted(settings.given):
        if key not in allowed and key.split(".")[0] != "data":
            raise UsageError(
                f"{command} does not use {key}: it takes {', '.join(sorted(allowed))} and data. The model is as it "
                f"was trained"
            )


def _number(value: float | None, deviation: float | None = None, digits: int = 4) -> str:
    """Write a number with at least ``digits`` significant ones; - where there is none."""
    if value is None:
        return "-"
    places = max(0, digits - 1 - int(np.floor(np.log10(abs(value))))) if value else digits
    places = min(places, digits)
    return f"{value:,.{places}f}" + (f" ± {deviation:.{places}f}" if deviation is not None else "")


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Set rows in columns: the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)
