"""What to build and how to train it: every choice made, by the user or from the data, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from tsformer.config import DISTRIBUTIONS, ModelConfig, TrainingConfig, check_integer, check_quantiles, check_seed
from tsformer.data.frequency import season_length as usual_season_length
from tsformer.data.panel import Panel, check_support, check_trainable
from tsformer.data.time_features import calendar_fields, calendar_sizes
from tsformer.resolve import resolve_lengths
from tsformer.seasonality import some_series, strong_seasons
from tsformer.training.compiling import MAX_UNROLLED


class Plan(NamedTuple):
    """All that a fit depends on beside the data and the seed."""

    model: ModelConfig
    training: TrainingConfig
    prediction_length: int
    rollout_length: int
    calendar_fields: tuple[str, ...]


def make_plan(panel: Panel, params: Mapping[str, Any]) -> Plan:
    """Return what to build for a panel, and how to train it.

    Parameters
    ----------
    panel
        N series of C channels.
    params
        The parameters of `TransformerForecaster`, by name.

    Raises
    ------
    ValueError, TypeError
        For parameters or data that cannot work.
    """
    training = training_config(params)
    check_trainable(panel)
    check_support(panel, training.loss)
    schema, prediction_length = panel.schema, params["prediction_length"]
    covariates = [str(covariate.name) for covariate in schema.covariates]
    if training.mixup and (covariates or params["timestamp_encoding"] == "calendar"):
        cause = f"covariates ({', '.join(covariates)})" if covariates else "timestamp_encoding='calendar'"
        raise ValueError(
            f"mixup={training.mixup:g} changes the targets of windows, and {cause} would no longer fit: "
            f"set mixup=0, or do without them"
        )
    lengths = resolve_lengths(
        prediction_length=prediction_length,
        context_length=params["context_length"],
        patch_length=params["patch_length"],
        season_length=params["season_length"],
        rollout_length=training.rollout_length,
        usual_season=usual_season_length(schema.freq),
        n_rows=int(np.median(panel.lengths)),
        seasons=strong_seasons(some_series(panel)),
    )
    n_patches = -(-lengths.rollout_length // lengths.patch_length)
    if training.compile and training.training_mode == "free_running" and n_patches > MAX_UNROLLED:
        raise ValueError(
            f"compile=True compiles rollouts of up to {MAX_UNROLLED} patches, and rollout_length="
            f"{lengths.rollout_length} has {n_patches} of patch_length={lengths.patch_length}: lower rollout_length, "
            f"raise patch_length, train with training_mode='teacher_forcing', or leave compile=False"
        )
    calendar = calendar_fields(schema.freq, params["holidays"]) if params["timestamp_encoding"] == "calendar" else ()
    chosen: dict[str, Any] = {field.name: params[field.name] for field in fields(ModelConfig) if field.name in params}
    chosen |= dict(
        context_length=lengths.context_length,
        patch_length=lengths.patch_length,
        season_length=lengths.season_length,
        max_decoder_length=max(lengths.rollout_length, prediction_length),
        n_channels=len(schema.targets) if params["channel_mixing"] == "joint" else 1,
        n_targets=len(schema.targets),
        known_sizes=schema.levels_of("known"),
        observed_sizes=schema.levels_of("observed"),
        static_sizes=schema.levels_of("static"),
        calendar_sizes=calendar_sizes(calendar),
        quantiles=training.quantiles if training.loss == "quantile" else (),
        distribution=training.loss if isinstance(training.loss, str) and training.loss in DISTRIBUTIONS else None,
    )
    return Plan(ModelConfig(**chosen), training, prediction_length, lengths.rollout_length, calendar)


def training_config(params: Mapping[str, Any]) -> TrainingConfig:
    """Return the training parameters of `TransformerForecaster`, checked, and what can be checked without data."""
    check_integer("prediction_length", params["prediction_length"], minimum=1)
    verbose, holidays = params["verbose"], params["holidays"]
    if verbose not in (True, False, "auto"):
        raise ValueError(f"verbose must be True, False or 'auto', got {verbose!r}")
    if holidays is not None and params["timestamp_encoding"] != "calendar":
        raise ValueError(f"holidays={holidays!r} needs timestamp_encoding='calendar', which reads them")
    if params["loss"] is None:
        raise ValueError(
            "loss is None: a saved model does not hold a loss of your own, set it with set_params(loss=...)"
        )
    chosen = {field.name: params[field.name] for field in fields(TrainingConfig)}
    levels = check_quantiles("quantiles", chosen["quantiles"])
    chosen["quantiles"] = levels if 0.5 in levels else tuple(sorted((*levels, 0.5)))
    return TrainingConfig(**chosen)


def seed_of(random_state: Any) -> int:
    """Return the seed that a ``random_state`` stands for."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):  # scikit-learn's convention; a copy, so that it is not advanced
        return int(deepcopy(random_state).randint(2**31 - 1))
    return check_seed("random_state", random_state)
