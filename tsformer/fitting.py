"""Fitting: a panel and the estimator's parameters in, a trained network with all that its forecasts need out.

`fit_model` is the road, the functions below are its stages, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch.utils.data import DataLoader

from tsformer.batch import Batch
from tsformer.blend_fit import fit_blend, fit_experts
from tsformer.data.loaders import check_weighted, evaluation_loader, split_rows, training_loader
from tsformer.data.panel import Panel
from tsformer.data.transforms import TargetTransform
from tsformer.data.windows import (
    CovariateScales,
    SeriesStatistics,
    Windows,
    covariate_scales,
    series_statistics,
    training_runs,
    validation_cutoffs,
)
from tsformer.evaluation.arrays import rows_at
from tsformer.experts import Experts
from tsformer.fitted import FittedModel, batch_limit, can_sample
from tsformer.nn.model import ForecastTransformer, device_of
from tsformer.nn.sampling import fit_copula
from tsformer.plan import Plan, make_plan, seed_of
from tsformer.smearing import past_errors

if TYPE_CHECKING:
    from tsformer.training.trainer import Training

# Validation windows beyond this many change the error by less than an epoch does.
MAX_VALIDATION_WINDOWS = 1000
# Forecast values that calibration holds at a time, half a gigabyte: very wide data are calibrated on fewer windows.
CALIBRATION_NUMBERS = 2**26
# Values of windows that the blend is weighed on.
BLEND_NUMBERS = 2**22


class Data(NamedTuple):
    """The rows in the units of the network, split by time; every scale comes from the training rows alone."""

    seen: Panel
    """All of them."""
    train_end: np.ndarray
    """(N,) how many of each series are for training."""
    training: Windows
    """Their panel holds the training rows alone."""
    validation: Windows | None
    """With targets behind the training rows; None: there are no such."""
    transform: TargetTransform
    """From target units to those of the network."""
    statistics: SeriesStatistics
    """Target units."""
    transformed: SeriesStatistics | None
    """In the units of the network; None: they are the same."""
    scales: CovariateScales


class Beginning(NamedTuple):
    """A network before its training."""

    network: ForecastTransformer
    experts: Experts | None
    """Closed forms that it is blended with later on."""
    start: np.ndarray | None
    """(L, P) what its linear path begins as; None: as zeros."""


class Fit(NamedTuple):
    """What a fit leaves behind."""

    model: FittedModel
    plan: Plan
    training: Training
    start: np.ndarray | None
    """(L, P) what the linear path began as."""


def fit_model(
    panel: Panel,
    params: Mapping[str, Any],
    start: np.ndarray | None = None,
    transform: TargetTransform | None = None,
) -> Fit:
    """Train a network on a panel.

    Parameters
    ----------
    panel
        N series of C channels.
    params
        The parameters of `TransformerForecaster`, by name.
    start
        (L, P) the linear map that the linear path starts from where no validation rows choose one.
    transform
        Of the targets; None: it is fitted on the training rows.

    Raises
    ------
    ValueError, TypeError
        Before any training, for parameters or data that cannot work; during it when the loss becomes NaN.
    """
    from tsformer.training.trainer import seeded, train  # Lightning is loaded to train only

    plan = make_plan(panel, params)
    data = prepare(panel, plan, transform)
    if plan.training.calibrate:  # refused now, and cut again when it is used: it may be large
        calibration_windows(panel, data.train_end, plan)
    seed = seed_of(params["random_state"])
    with seeded(seed):  # before the first weight is drawn
        network, experts, start = begin(plan, data, start)
        training = train(
            network,
            *loaders(plan, data, seed),
            plan.training,
            verbose=params["verbose"],
            callbacks=params["callbacks"],
            logger=params["logger"],
            trainer_kwargs=params["trainer_kwargs"],
        )
    model = finish(panel, plan, data, network, experts)
    if plan.training.calibrate:
        device = device_of(plan.training.accelerator)
        model = model.calibrated(panel, *calibration_windows(panel, data.train_end, plan), device=device)
    return Fit(model, plan, training, start)


def prepare(panel: Panel, plan: Plan, transform: TargetTransform | None = None) -> Data:
    """Split the rows by time, bring them to the units of the network, and cut them into windows."""
    config, training, horizon = plan.model, plan.training, plan.rollout_length
    train_end = split_rows(panel.lengths, training.validation_size)
    check_weighted(panel, train_end)
    training_rows = panel.rows(0, train_end)
    statistics, scales = series_statistics(training_rows), covariate_scales(training_rows)
    transform = transform or TargetTransform.fit(config.target_transform, panel, train_end, statistics.mean)
    seen, transformed = transform.apply(panel), None  # from here on, data are in the units of the network
    if seen is not panel:
        training_rows = seen.rows(0, train_end)
        transformed = series_statistics(training_rows)
    runs = training_runs(train_end, config.context_length, horizon)
    if not len(runs[0]):
        raise ValueError(
            f"nothing to train on: the longest series has {int(train_end.max())} training rows and a window needs "
            f"at least 2 (one before the forecast, one after it). Give more rows or lower validation_size"
        )
    windows = Windows(
        training_rows,
        *runs,
        context_length=config.context_length,
        horizon=horizon,
        statistics=transformed or statistics,
        calendar_fields=plan.calendar_fields,
        scales=scales,
    )
    held_out = validation_cutoffs(panel.lengths, train_end, horizon, MAX_VALIDATION_WINDOWS)
    has_validation = training.validation_size and len(held_out[0])
    validation = _windows_like(windows, seen, held_out, horizon) if has_validation else None
    return Data(seen, train_end, windows, validation, transform, statistics, transformed, scales)


def calibration_windows(panel: Panel, train_end: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return series, cut-offs (B,) and truth (B, H, C) of windows on the validation rows, evenly spaced."""
    horizon, training = plan.prediction_length, plan.training
    numbers = horizon * panel.n_channels * (len(training.quantiles) if training.loss == "quantile" else 1)
    limit = min(MAX_VALIDATION_WINDOWS, max(1, CALIBRATION_NUMBERS // numbers))
    # Up to the last row: the first steps of a window that the data do not hold whole count as well.
    series, cutoffs = validation_cutoffs(panel.lengths, train_end, 1, limit)
    if panel.weight is not None:
        panel = replace(panel, values=np.where(panel.weight[:, None] > 0, panel.values, np.nan))
    truth = rows_at(panel, series, cutoffs, horizon)
    varies = series_statistics(panel).deviation > 0  # (N, C): errors on constants have no unit
    if not (np.isfinite(truth) & varies[series, None]).any():
        raise ValueError(
            "calibrate=True measures errors on the validation rows, the last ones of each series, and none of "
            "them has an observed value of a target that varies: raise validation_size, or set calibrate=False"
        )
    return series, cutoffs, truth


def begin(plan: Plan, data: Data, start: np.ndarray | None) -> Beginning:
    """Draw the weights of a network, and start its linear path from the closed form where there is one."""
    config, training = plan.model, plan.training
    network = ForecastTransformer(config, "mae" if config.quantiles else training.loss)
    experts = None
    is_blended = training.blend and not can_sample(network, training.training_mode)
    if data.validation is not None and (config.has_linear_path or is_blended):
        experts = closed_forms(network, plan, data)
    if experts is not None and experts.rolled:
        start = np.mean(experts.rolled, axis=0)
    if start is not None and config.has_linear_path:
        network.start_from(start)
    return Beginning(network, experts, start)


def closed_forms(network: ForecastTransformer, plan: Plan, data: Data) -> Experts | None:
    """Return the closed forms that a network starts from and is blended with."""

    def of_training(horizon: int) -> Windows:
        runs = training_runs(data.train_end, plan.model.context_length, horizon)
        return _windows_like(data.training, data.training.panel, runs, horizon)

    return fit_experts(
        network,
        of_training(plan.model.patch_length),
        of_training(plan.prediction_length),
        blend_windows(plan, data),
        usual_season=plan.model.season_length,
        is_squared=plan.training.loss == "mse",
        batch_size=_batch_limit(plan),
    )


def blend_windows(plan: Plan, data: Data) -> Windows:
    """Return the windows behind the training rows that closed forms are chosen and weighed on."""
    horizon = plan.prediction_length
    limit = max(1, BLEND_NUMBERS // ((plan.model.context_length + horizon) * data.seen.n_channels))
    # Up to the last row: the first steps of a window that the data do not hold whole count as well.
    held_out = validation_cutoffs(data.seen.lengths, data.train_end, 1, min(MAX_VALIDATION_WINDOWS, limit))
    return _windows_like(data.training, data.seen, held_out, horizon)


def loaders(plan: Plan, data: Data, seed: int) -> tuple[DataLoader[Batch], DataLoader[Batch] | None]:
    """Return the loaders of training and validation batches."""
    training = training_loader(
        data.training,
        batch_size=plan.training.batch_size,
        max_steps_per_epoch=plan.training.max_steps_per_epoch,
        seed=seed,
        num_workers=plan.training.num_workers,
    )
    return training, None if data.validation is None else evaluation_loader(data.validation, _batch_limit(plan))


def finish(panel: Panel, plan: Plan, data: Data, network: ForecastTransformer, experts: Experts | None) -> FittedModel:
    """Return a trained network with what its forecasts need: dependence inside patches, blend, past errors."""
    config, training, limit = plan.model, plan.training, _batch_limit(plan)
    draws_paths = can_sample(network, training.training_mode)
    blend = errors = None
    if draws_paths:
        fit_copula(network, evaluation_loader(data.validation or _some_of(data.training), limit))
    elif training.blend and experts is not None:
        if config.known_sizes:  # their effect is known now
            experts = closed_forms(network, plan, data) or experts
        is_squared = training.loss == "mse"
        blend = fit_blend(network, experts, blend_windows(plan, data), is_squared=is_squared, batch_size=limit)
    if training.loss == "mse" and (data.transformed is not None or config.scaling == "asinh"):
        errors = past_errors(network, data.validation or data.training, limit, blend)
    return FittedModel(
        network,
        panel.schema,
        panel.ids,
        data.statistics,
        data.scales,
        plan.calendar_fields,
        panel.tail(config.context_length),
        transform=data.transform,
        transformed=data.transformed,
        errors=errors,
        blend=blend,
    )


def _batch_limit(plan: Plan) -> int:
    """Return how many windows are forecast at a time."""
    return batch_limit(plan.model, plan.model.n_targets)


def _some_of(windows: Windows) -> Windows:
    """Return at most as many windows as there are of validation, evenly spaced."""
    chosen = np.linspace(0, len(windows) - 1, min(len(windows), MAX_VALIDATION_WINDOWS)).astype(np.int64)
    return _windows_like(windows, windows.panel, windows.locate(chosen), windows.horizon)


def _windows_like(windows: Windows, panel: Panel, cutoffs: tuple[np.ndarray, ...], horizon: int) -> Windows:
    """Return other windows with the context length, scales and calendar of some."""
    return Windows(
        panel,
        *cutoffs,
        context_length=windows.context_length,
        horizon=horizon,
        statistics=windows.statistics,
        calendar_fields=windows.calendar_fields,
        scales=windows.scales,
    )
