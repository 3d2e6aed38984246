"""Stallion: monthly volumes of 350 beverages, half a year ahead, beside the baselines.

Of the 60 rows of each series, 1-48 train, 49-54 choose the epoch, 55-60 are the test.

    python benchmarks/stallion.py             # trains on three seeds; the table, and benchmarks/stallion.json
    python benchmarks/stallion.py --search    # how SETTINGS were chosen, without a test row
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
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
RESULT = Path(__file__).with_name("stallion.json")
SEARCH = Path(__file__).with_name("stallion_search.jsonl")

FIRST: dict[str, Any] = dict(context_length=24, patch_length=6, scaling="standard", linear_path=False, blend=False)
# A small network, since there are 350 x 48 numbers to learn from.
COMMON: dict[str, Any] = dict(
    d_model=32,
    dim_feedforward=64,
    num_encoder_layers=1,
    max_steps_per_epoch=250,
    max_epochs=10,
    patience=5,
    freq="MS",
    verbose=False,
)

# Covariates: plans and days known half a year ahead, the market, known when it is past, and what a series is.
PRICES = ["price_regular", "discount_in_percent"]
DAYS = ["easter_day", "good_friday", "new_year", "christmas", "labor_day", "independence_day", "beer_capital"]
MARKET = ["industry_volume", "soda_volume", "avg_max_temp"]
KINDS = ["agency", "sku"]
PLACE = ["avg_population_2017", "avg_yearly_household_income_2017"]
ROLES = ("known", "observed", "static")

YEARS: dict[str, Any] = dict(scaling="robust", patch_length=12)  # the best without covariates

# The best of the search.
SETTINGS: dict[str, Any] = FIRST | YEARS | dict(known=DAYS, observed=MARKET, blend=True)

# What the search changes of FIRST. ``weigh``: each series weighs what its mean volume is.
CANDIDATES: list[dict[str, Any]] = [
    dict(),
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
    dict(scaling="robust", target_transform="log1p"),
    dict(scaling="robust", timestamp_encoding="calendar"),
    dict(scaling="robust", context_length=36, patch_length=12),
    dict(scaling="robust", context_length=12),
    dict(scaling="robust", context_length=36),
    dict(scaling="robust", weigh=True),
    dict(scaling="robust", patch_length=12),
    dict(target_transform="log1p", timestamp_encoding="calendar"),
    dict(target_transform="log1p", patch_length=12),
    dict(scaling="last_value", context_length=12),
    dict(scaling="robust", target_transform="yeo_johnson"),
    dict(scaling="robust", d_model=16, dim_feedforward=32),
    dict(scaling="robust", learning_rate=3e-4),
    dict(scaling="robust", patch_length=12, timestamp_encoding="calendar"),
    dict(scaling="robust", patch_length=12, target_transform="log1p"),
    dict(scaling="robust", patch_length=12, d_model=64, dim_feedforward=128),
    dict(YEARS, static=KINDS),
    dict(YEARS, static=["sku"]),
    dict(YEARS, static=KINDS + PLACE),
    dict(YEARS, known=PRICES),
    dict(YEARS, known=["discount_in_percent"]),
    dict(YEARS, known=PRICES + DAYS),
    dict(YEARS, known=PRICES, static=["sku"]),
    dict(YEARS, known=PRICES, static=KINDS),
    dict(YEARS, known=PRICES, observed=MARKET, static=KINDS + PLACE),
    dict(YEARS, observed=MARKET),
    dict(YEARS, known=PRICES, weigh=True),
    dict(YEARS, known=PRICES, target_transform="log1p"),
    dict(known=PRICES),
    dict(scaling="robust", known=PRICES),
    dict(YEARS, known=DAYS),
    dict(YEARS, known=DAYS, observed=MARKET),
    dict(YEARS, observed=MARKET, static=KINDS + PLACE),
    dict(observed=MARKET),
    dict(YEARS, blend=True),
    dict(YEARS, known=DAYS, observed=MARKET, blend=True),
]


def read(settings: dict[str, Any]) -> Panel:
    """All rows with the covariates of the settings; the weight of a series is the mean of its first three years."""
    frame = load_dataset("stallion")
    early = frame["y"].where(frame.groupby("unique_id").cumcount() < 36)
    weight = early.groupby(frame["unique_id"]).transform("mean") + 1.0
    roles = {role: settings.get(role) for role in ROLES}
    return to_panel(frame.assign(weight=weight), target_cols="y", weight_col="weight", freq="MS", **roles)


def train(panel: Panel, cutoff: int, settings: dict[str, Any], seed: int) -> TransformerForecaster:
    """A forecaster that has seen the rows before the cut-off, the last half year of them to choose the epoch."""
    given, seen = COMMON | settings, panel.rows(0, cutoff)
    if not given.pop("weigh", False):
        seen = replace(seen, weight=None)
    return TransformerForecaster(HORIZON, random_state=seed, validation_size=HORIZON, **given).fit_panel(seen)


def baselines(panel: Panel, cutoff: int) -> dict[str, Any]:
    """The controls, fitted on the rows before the cut-off."""
    seen = replace(panel.rows(0, cutoff), weight=None)
    models = (
        RepeatLast(HORIZON),
        SeasonalNaive(HORIZON),
        RidgeForecaster(HORIZON, context_length=24, validation_size=HORIZON),
    )
    return {type(model).__name__: model.fit_panel(seen) for model in models}


def mae(model: Any, panel: Panel, cutoff: int) -> float:
    """Mean absolute error of the half year after the cut-off, over all series and steps, in units of the volume."""
    window = np.arange(panel.n_series), np.full(panel.n_series, cutoff)
    error = model.forecast_windows(panel, *window, HORIZON) - rows_at(panel, *window, HORIZON)
    return float(np.abs(error).mean())


def search() -> None:
    """Score the candidates on the two half years before the test, as the test will be scored, and log them."""
    panel = read(FIRST).rows(0, TEST_BEGIN)
    cutoffs = (TEST_BEGIN - 2 * HORIZON, TEST_BEGIN - HORIZON)
    errors: dict[str, list[float]] = {}
    for cutoff in cutoffs:
        for name, model in baselines(panel, cutoff).items():
            errors.setdefault(name, []).append(mae(model, panel, cutoff))
    with SEARCH.open("w", encoding="utf-8") as log:
        for name, of_name in errors.items():
            _log(log, name, of_name)
        for changes in CANDIDATES:
            settings = FIRST | changes
            panel = read(settings).rows(0, TEST_BEGIN)
            _log(log, settings, [mae(train(panel, cutoff, settings, seed=0), panel, cutoff) for cutoff in cutoffs])


def _log(file: Any, settings: Any, errors: list[float]) -> None:
    row = {"settings": settings, "mae": round(float(np.mean(errors)), 2), "by_cutoff": [round(e, 2) for e in errors]}
    for stream in (file, sys.stdout):
        print(json.dumps(row), file=stream, flush=True)


def test() -> None:
    """Score the settings and the baselines on the last half year, and write the result."""
    panel = read(SETTINGS)
    errors = {name: mae(model, panel, TEST_BEGIN) for name, model in baselines(panel, TEST_BEGIN).items()}
    began = time.process_time()
    by_seed = {seed: mae(train(panel, TEST_BEGIN, SETTINGS, seed), panel, TEST_BEGIN) for seed in SEEDS}
    seconds = (time.process_time() - began) / len(SEEDS)
    errors["TransformerForecaster"] = float(np.mean(list(by_seed.values())))
    for name, error in sorted(errors.items(), key=lambda item: item[1]):
        print(f"{name:<24}{error:8.1f}")
    print("seeds: " + ", ".join(f"{seed}: {error:.1f}" for seed, error in by_seed.items()))
    result = {
        "mae": {name: round(error, 2) for name, error in errors.items()},
        "seeds": {str(seed): round(error, 2) for seed, error in by_seed.items()},
        "settings": COMMON | SETTINGS,
        "core_seconds_per_training": round(seconds, 1),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    search() if "--search" in sys.argv[1:] else test()
