"""Stallion: monthly volumes of 350 beverages, half a year ahead, beside the baselines.

Rows 1-48 of each series train, 49-54 choose the epoch, 55-60 are the test. MAE over all series and steps, in the units of
the volume.

    python benchmarks/stallion.py             # the table, and benchmarks/stallion.json
    python benchmarks/stallion.py --search    # how SETTINGS were chosen; never looks at a test row
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsformer import RepeatLast, RidgeForecaster, SeasonalNaive, TransformerForecaster, load_dataset
from tsformer.data.panel import Panel, to_panel
from tsformer.evaluation.arrays import rows_at

HORIZON = 6
TEST_BEGIN = 54
SEEDS = (0, 1, 2)
HERE = Path(__file__).parent

# The choice of --search.
SETTINGS: dict[str, Any] = dict(context_length=24, patch_length=6)

# What every candidate has.
COMMON: dict[str, Any] = dict(
    freq="MS", d_model=32, nhead=4, dim_feedforward=64, num_encoder_layers=1, max_epochs=10, verbose=False
)
# The first is what the others differ from.
CANDIDATES: list[dict[str, Any]] = [
    dict(context_length=24, patch_length=6, scaling="standard"),
    dict(scaling="last_value"),
    dict(scaling="last_season"),
    dict(scaling="robust"),
    dict(scaling="asinh"),
    dict(target_transform="log1p"),
    dict(target_transform="yeo_johnson"),
    dict(scaling="last_value", target_transform="log1p"),
    dict(weigh=True),
    dict(weigh=True, scaling="last_value"),
    dict(weigh=True, target_transform="log1p"),
    dict(weigh=True, timestamp_encoding="calendar"),
    dict(weigh=True, context_length=12),
    dict(weigh=True, context_length=36),
    dict(weigh=True, patch_length=1),
    dict(weigh=True, patch_length=3),
    dict(weigh=True, context_length=36, patch_length=12),
]


def read() -> Panel:
    """All rows, with the mean volume of the rows before the first cut-off of the search as weight."""
    frame = load_dataset("stallion")[["unique_id", "ds", "y"]]
    early = frame[frame.groupby("unique_id").cumcount() < TEST_BEGIN - 3 * HORIZON]
    frame["weight"] = frame["unique_id"].map(early.groupby("unique_id")["y"].mean()) + 1.0
    return to_panel(frame, weight_col="weight", freq="MS")


def mae(forecaster: Any, panel: Panel, cutoff: int) -> float:
    """Mean absolute error of the steps after one cut-off, over all series."""
    series = np.arange(panel.n_series)
    cutoffs = np.full(panel.n_series, cutoff)
    forecasts = forecaster.forecast_windows(panel, series, cutoffs, HORIZON)
    return float(np.abs(forecasts - rows_at(panel, series, cutoffs, HORIZON)).mean())


def train(panel: Panel, cutoff: int, settings: dict[str, Any], seed: int) -> TransformerForecaster:
    """A forecaster that has seen the rows before a cut-off, the last HORIZON of them to choose the epoch."""
    given = COMMON | settings
    seen = panel.rows(0, cutoff)
    if not given.pop("weigh", False):
        seen = to_unweighted(seen)
    return TransformerForecaster(HORIZON, random_state=seed, validation_size=HORIZON, **given).fit_panel(seen)


def to_unweighted(panel: Panel) -> Panel:
    from dataclasses import replace

    return replace(panel, weight=None)


def baselines() -> dict[str, Any]:
    return {
        "RepeatLast": RepeatLast(HORIZON, freq="MS"),
        "SeasonalNaive": SeasonalNaive(HORIZON, freq="MS"),
        "RidgeForecaster": RidgeForecaster(HORIZON, context_length=24, validation_size=HORIZON, freq="MS"),
    }


def search() -> None:
    """Score each candidate on the two half years before the test, as the test will be scored."""
    panel = read().rows(0, TEST_BEGIN)
    cutoffs = (TEST_BEGIN - 2 * HORIZON, TEST_BEGIN - HORIZON)
    with (HERE / "stallion_search.jsonl").open("w", encoding="utf-8") as log:

        def write(name: Any, errors: list[float], **more: Any) -> None:
            row = {
                "settings": name,
                "mae": round(float(np.mean(errors)), 2),
                "by_cutoff": [round(e, 2) for e in errors],
            }
            line = json.dumps(row | more)
            print(line, flush=True)
            print(line, file=log, flush=True)

        for name, model in baselines().items():
            write(name, [mae(model.fit_panel(to_unweighted(panel.rows(0, c))), panel, c) for c in cutoffs])
        for candidate in CANDIDATES:
            began = time.perf_counter()
            models = [train(panel, c, CANDIDATES[0] | candidate, seed=0) for c in cutoffs]
            errors = [mae(model, panel, c) for model, c in zip(models, cutoffs, strict=True)]
            best = [float(model.history_["val_loss"].min()) for model in models]
            write(CANDIDATES[0] | candidate, errors, val_loss=best, seconds=round(time.perf_counter() - began, 1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    search()
