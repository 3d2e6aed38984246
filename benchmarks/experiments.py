"""Work of rows: one training or the controls, on a public benchmark or with nothing but the defaults."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from controls import data_split, scaled_mae
from crps import CONTEXT, LEVELS, evaluate_crps, with_error_quantiles
from rows import Result, Row

from tsformer import ForecastTransformer, RepeatLast, RidgeForecaster, TransformerForecaster
from tsformer.cli.compose import compose
from tsformer.cli.experiment import build
from tsformer.cli.split import Split, split_rows_of
from tsformer.data.panel import Panel
from tsformer.evaluation.benchmarks import (
    LongHorizonProtocol,
    M4Protocol,
    evaluate_long_horizon,
    evaluate_m4,
    fit_baselines,
)
from tsformer.nn.model import Memory

# What turns an experiment into one for CRPS.
QUANTILES = [
    f"context_length={CONTEXT}",
    "training.loss=quantile",
    f"training.quantiles={list(LEVELS)}",
    "training.mixup=0",  # for losses of a point
]


def seeded(place: str, work: Callable[..., Result], overrides: list[str], seeds: Sequence[int]) -> list[Row]:
    """Return a row for each seed of a training by the configuration."""
    used = functools.partial(setting, tuple(overrides))
    return [Row(f"{place}/seed-{seed}", work, {"overrides": overrides, "seed": seed}, used) for seed in seeds]


@functools.lru_cache
def setting(overrides: tuple[str, ...]) -> dict[str, Any]:
    """Return what a training by the configuration depends on."""
    config = compose("evaluate", overrides).config
    return {key: config[key] for key in ("prediction_length", "context_length", "freq", "model", "training")}


def train(overrides: Sequence[str], seed: int) -> Result:
    """Train on a public benchmark; ``{"scores", "train_seconds"}``, scores as in ``metrics.json``."""
    model, split, seconds = _train(overrides, seed)
    return {"scores": _scores({"model": model}, split)["model"], "train_seconds": seconds}


class DirectTransformer(ForecastTransformer):
    """The same layers, decoded directly: whatever was decoded before, each token is fed the last observed patch.

    Tokens differ by their positions alone, as the placeholders of Informer (Zhou et al. 2021) do.
    """

    def decode(self, patches: torch.Tensor, missing: torch.Tensor | None, memory: Memory, **where: Any) -> torch.Tensor:
        """States (R, T, D) of tokens that are not told ``patches``."""
        many = (-1, patches.shape[1], -1)
        return super().decode(memory.start.expand(many), memory.start_missing.expand(many), memory, **where)


def train_direct(overrides: Sequence[str], seed: int) -> Result:
    """Train on a public benchmark without autoregression; as `train`."""
    with mock.patch("tsformer.fitting.ForecastTransformer", DirectTransformer):
        return train(overrides, seed)


def validate(overrides: Sequence[str], seed: int) -> Result:
    """Train on a public benchmark without reading its test; ``{"validation", "best_epoch", "epochs", "seconds"}``.

    ``validation`` is what the protocol says of the model with the validation rows as its test: scores as in
    ``metrics.json``. ``best_epoch`` 0: the start was better than every epoch.
    """
    model, split, seconds = _train(overrides, seed)
    errors = model.history_["val_loss"]
    best_epoch = int(errors.argmin()) + 1 if model.best_step_ else 0
    return {
        "validation": _scores({"model": model}, _before_test(split))["model"],
        "best_epoch": best_epoch,
        "epochs": len(errors),
        "seconds": seconds,
    }


def train_quantiles(overrides: Sequence[str], seed: int) -> Result:
    """Train a quantile head on a public benchmark; ``{"scores", "train_seconds"}``, CRPS of each horizon."""
    model, split, seconds = _train(overrides, seed)

    def forecast(panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> np.ndarray:
        columns = model.forecast_columns(panel, series, cutoffs, horizon, quantiles=LEVELS)
        return np.stack([columns[suffix] for suffix in columns if suffix], axis=-1)  # increasing, as asked for

    return {"scores": evaluate_crps(forecast, split), "train_seconds": seconds}


def train_defaults(data: str, horizon: int, seed: int, **limits: float | None) -> Result:
    """Train with nothing set but the horizon; ``{"mae", "train_seconds"}``, scaled MAE on every test window."""
    split = data_split(data, horizon)
    model = TransformerForecaster(prediction_length=horizon, random_state=seed, verbose=False, **limits)
    began = time.perf_counter()
    model.fit_panel(split.seen)
    seconds = round(time.perf_counter() - began, 1)
    error = scaled_mae({"model": model}, split.panel, split, split.test_begin, horizon)
    return {"mae": error["model"], "train_seconds": seconds}


def baselines(experiment: str) -> Result:
    """Return the scores of the controls of a public benchmark, by name."""
    split = _split([f"experiment={experiment}"])
    protocol = split.protocol
    assert protocol is not None
    horizon = protocol.horizon if isinstance(protocol, M4Protocol) else protocol.horizons[0]
    return _scores(
        fit_baselines(
            split.seen,
            horizon,
            validation_size=split.validation_size,
            context_length=protocol.ridge_context,
            season_length=protocol.season_length,
        ),
        split,
    )


def quantile_baselines(experiment: str) -> Result:
    """Return the CRPS of ridge with its errors on the validation rows, and of repeat-last with all past errors."""
    split = _split([f"experiment={experiment}"])
    seen = split.seen
    ridge = RidgeForecaster(96, context_length=CONTEXT, validation_size=split.validation_size).fit_panel(seen)
    models = {
        "RidgeForecaster": with_error_quantiles(ridge, seen, int(split.train_end[0])),
        "RepeatLast": with_error_quantiles(RepeatLast(96).fit_panel(seen), seen, CONTEXT),
    }
    return {name: evaluate_crps(model, split) for name, model in models.items()}


def _split(overrides: Sequence[str]) -> Split:
    """Return data and rows of a configuration."""
    return split_rows_of(compose("evaluate", overrides).config)


def _train(overrides: Sequence[str], seed: int) -> tuple[TransformerForecaster, Split, float]:
    """Return the model of a configuration, the rows, and the seconds of the training."""
    config = compose("evaluate", overrides).config
    split = split_rows_of(config)
    model = build(config, random_state=seed, verbose=False, validation_size=split.validation_size)
    began = time.perf_counter()
    model.fit_panel(split.seen)
    return model, split, round(time.perf_counter() - began, 1)


def _before_test(split: Split) -> Split:
    """Return the split whose test are the validation rows."""
    protocol = split.protocol
    if isinstance(protocol, LongHorizonProtocol):
        protocol = replace(protocol, n_validation=0, n_test=protocol.n_validation)
    return replace(split, panel=split.seen, protocol=protocol)


def _scores(models: Mapping[str, Any], split: Split) -> Result:
    """Return the scores of a benchmark on all its test windows, by model."""
    if isinstance(split.protocol, M4Protocol):
        return dict(evaluate_m4(models, split.panel, split.protocol))
    assert split.protocol is not None
    return dict(evaluate_long_horizon(models, split.panel, split.protocol, progress=False))
