"""What the defaults are measured against: ridge and a seasonal naive, each with the best setting on validation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from families import FAMILIES

from tsformer import RidgeForecaster, SeasonalNaive
from tsformer.cli.compose import compose
from tsformer.cli.split import Split, split_rows_of
from tsformer.data.panel import Panel, to_panel
from tsformer.evaluation.benchmarks import evaluate_windows, split_70_10_20

CONTEXTS = (12, 24, 48, 96, 168, 336, 720)
# 1: repeat-last. 132 months: the cycle of the sun.
SEASONS = (1, 7, 12, 24, 52, 96, 132, 168, 336, 365)
# A season counts when the training rows hold this many: fewer say little about the next.
MIN_CYCLES = 10


def data_split(data: str, horizon: int) -> Split:
    """Return a data set or family, and its rows for training, validation and test.

    70/10/20 by time; M4 has its official test, and the last horizon before it for validation.
    """
    if data in FAMILIES:
        frame = FAMILIES[data].frame()
        panel = to_panel(frame, freq=FAMILIES[data].freq)
        train_end, test_begin = split_70_10_20(panel.lengths)
        return Split(frame, panel, train_end, test_begin, int(test_begin[0] - train_end[0]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*missing from the regular.*", category=UserWarning)
        split = split_rows_of(compose("evaluate", [f"data={data}", f"prediction_length={horizon}"]).config)
    if (split.train_end == split.test_begin).all():
        return replace(split, train_end=split.test_begin - horizon, validation_size=horizon)
    return split


def scaled_mae(forecasters: Mapping[str, Any], panel: Panel, split: Split, begin: np.ndarray, horizon: int) -> dict:
    """Return the MAE of each forecaster on every window from ``begin`` on, in units of the training deviation."""
    scores = evaluate_windows(
        forecasters, panel, begin, horizon, train_end=split.train_end, season_length=1, progress=False
    )
    return {name: score["mean"]["mae"] for name, score in scores.items()}


def controls(data: str, horizon: int) -> dict[str, dict[str, Any]]:
    """Return the test score of the ridge and of the seasonal naive that are best on the validation rows.

    Returns
    -------
    dict
        ``{"ridge": {"context", "mae"}, "seasonal_naive": {"season", "mae"}}``, scaled MAE.
    """
    split = data_split(data, horizon)
    training, seen, n_train = split.panel.rows(0, split.train_end), split.seen, int(np.median(split.train_end))
    contexts = [c for c in CONTEXTS if c + horizon <= n_train // 2] or [CONTEXTS[0]]
    seasons = [s for s in SEASONS if s == 1 or s * MIN_CYCLES <= n_train]
    ridges = {
        c: RidgeForecaster(horizon, context_length=c, validation_size=split.validation_size).fit_panel(seen)
        for c in contexts
    }
    naives = {s: SeasonalNaive(horizon, season_length=s).fit_panel(training) for s in seasons}
    context, season = (
        min(errors, key=errors.__getitem__)
        for errors in (scaled_mae(models, seen, split, split.train_end, horizon) for models in (ridges, naives))
    )
    best = {"ridge": ridges[context], "seasonal_naive": naives[season]}
    test = scaled_mae(best, split.panel, split, split.test_begin, horizon)
    return {
        "ridge": {"context": context, "mae": test["ridge"]},
        "seasonal_naive": {"season": season, "mae": test["seasonal_naive"]},
    }
