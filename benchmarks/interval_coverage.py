"""Coverage and width of 80 and 95 % intervals on real data, pooled over series, channels, windows and steps.

ETTh1 and air_quality: a day ahead, the split 70/10/20, a test window each 7 hours (so that all hours of the day begin
one). M4 Hourly: the official test part, two days. A training takes less than a minute of one core.

    python benchmarks/interval_coverage.py    # the table, and benchmarks/interval_coverage.json
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsformer import TransformerForecaster, load_dataset
from tsformer.data.panel import Panel, to_panel
from tsformer.data.windows import series_statistics
from tsformer.evaluation.arrays import rows_at
from tsformer.evaluation.benchmarks import split_70_10_20
from tsformer.metrics import divide

LEVELS = (80, 95)
STRIDE = 7
RESULT = Path(__file__).with_name("interval_coverage.json")

HEADS: dict[str, dict[str, Any]] = {
    "mae, calibrated": dict(loss="mae", calibrate=True),
    "quantile, calibrated": dict(loss="quantile", calibrate=True),
    "normal": dict(loss="normal"),
}
COMMON: dict[str, Any] = dict(
    d_model=32, num_encoder_layers=1, linear_path=False, max_steps=300, max_steps_per_epoch=250, verbose=False
)
DATA = ("etth1", "air_quality", "m4_hourly")


def read(name: str) -> tuple[Panel, int, np.ndarray, float | int, tuple[np.ndarray, np.ndarray]]:
    """Return the data, the horizon, first test rows (N,), the validation size, and series and cut-offs of the test."""
    frame = load_dataset(name)
    if name == "m4_hourly":
        panel, horizon = to_panel(frame), int(frame.attrs["test_size"])
        begin = panel.lengths - horizon
        return panel, horizon, begin, 0.1, (np.arange(panel.n_series), begin)
    panel, horizon = to_panel(frame[list(frame)[:6]] if name == "air_quality" else frame), 24
    train_end, begin = split_70_10_20(panel.lengths)
    cutoffs = np.arange(begin[0], panel.lengths[0] - horizon + 1, STRIDE)
    return panel, horizon, begin, int(begin[0] - train_end[0]), (np.zeros_like(cutoffs), cutoffs)


def measure(name: str, head: dict[str, Any]) -> dict[str, float]:
    """Train on the rows before the test; widths are in units of each channel's deviation in those rows."""
    panel, horizon, begin, validation_size, windows = read(name)
    began = time.process_time()
    model = TransformerForecaster(horizon, validation_size=validation_size, random_state=0, **COMMON, **head)
    model.fit_panel(panel.rows(0, begin))
    seconds = time.process_time() - began
    columns = model.forecast_columns(panel, *windows, horizon, level=LEVELS)
    truth = rows_at(panel, *windows, horizon)  # (B, H, C)
    observed = ~np.isnan(truth)
    deviation = series_statistics(panel.rows(0, begin)).deviation[windows[0]][:, None]  # (B, 1, C)
    result = {"core_seconds": round(seconds, 1)}
    for level in LEVELS:
        low, high = columns[f"-lo-{level}"], columns[f"-hi-{level}"]
        inside = (truth >= low) & (truth <= high)
        result[f"coverage_{level}"] = round(100 * float(inside[observed].mean()), 1)
        result[f"width_{level}"] = round(float(np.nanmean(divide(high - low, deviation))), 3)
    return result


def main() -> None:
    """Measure every head on every data set, and write the table as JSON, too."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    print("| data | head | coverage 80 | coverage 95 | width 80 | width 95 |\n| --- | --- | --- | --- | --- | --- |")
    for name in DATA:
        for head, options in HEADS.items():
            got = results.setdefault(name, {})[head] = measure(name, options)
            shown = [f"{got[f'coverage_{level}']:.1f}" for level in LEVELS]
            shown += [f"{got[f'width_{level}']:.2f}" for level in LEVELS]
            print(f"| {name} | {head} | {' | '.join(shown)} |", flush=True)
    RESULT.write_text(json.dumps({"settings": COMMON, "results": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
