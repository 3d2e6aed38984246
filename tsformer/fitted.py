"""A trained network with all that a forecast needs beside it: arrays in, arrays out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from tsformer.blend import Blend
from tsformer.calibration import ConformalCalibration
from tsformer.config import ModelConfig
from tsformer.data.panel import Panel, Schema
from tsformer.data.transforms import TargetTransform
from tsformer.data.windows import CovariateScales, SeriesStatistics, Windows, last_observed
from tsformer.intervals import check_levels, interpolate
from tsformer.metrics import divide
from tsformer.nn.decoding import forecast
from tsformer.nn.heads import PointHead, QuantileHead
from tsformer.nn.model import ForecastTransformer
from tsformer.nn.sampling import SUMMARY_PATHS, TOGETHER, sample, summarise
from tsformer.smearing import smeared_mean

# Bytes of activations that one batch of a forecast may take.
BATCH_BYTES = 2**28


def batch_limit(config: ModelConfig, n_channels: int) -> int:
    """Windows whose widest activations stay within ``BATCH_BYTES``."""
    rows = 1 if config.channel_mixing == "joint" else n_channels
    width = max(3 * config.d_model, config.dim_feedforward)
    tokens = config.n_context_patches + 1
    copies, float_bytes = 4, 4
    return max(1, BATCH_BYTES // (rows * tokens * width * copies * float_bytes))


def paths_limit(config: ModelConfig, n_channels: int, horizon: int, n_paths: int) -> int:
    """Windows whose sample paths, drawn in blocks, stay within ``BATCH_BYTES``."""
    rows = 1 if config.channel_mixing == "joint" else n_channels
    width = 4 * max(3 * config.d_model, config.dim_feedforward) + config.nhead * config.n_context_patches
    n_patches = -(-horizon // config.patch_length)
    cached = 2 * config.num_decoder_layers * n_patches * config.d_model if n_patches > 1 else 0
    bytes_decoded = min(n_paths, TOGETHER) * rows * (width + cached) * 4
    bytes_of_paths = 2 * n_paths * horizon * n_channels * 8
    return max(1, min(batch_limit(config, n_channels), BATCH_BYTES // (bytes_decoded + bytes_of_paths)))


def check_reach(config: ModelConfig, horizon: int) -> None:
    """Raise a ValueError when learned positions do not reach as far as a horizon."""
    if config.positional_encoding == "learned" and horizon > config.max_decoder_length:
        raise ValueError(
            f"horizon={horizon} is beyond the {config.max_decoder_length} steps that "
            f"positional_encoding='learned' has positions for: train with positional_encoding='rotary' "
            f"(any horizon), or with a longer prediction_length"
        )


def can_sample(network: ForecastTransformer, training_mode: str | None) -> bool:
    """Whether paths can be drawn: a distribution; quantiles too where they are conditional on the true past."""
    if isinstance(network.head, QuantileHead):
        return len(network.head.levels) > 1 and training_mode == "teacher_forcing"
    return not isinstance(network.head, PointHead)


@dataclass(frozen=True)
class FittedModel:
    """What training leaves behind.

    Parameters
    ----------
    network
        In evaluation mode, on the CPU.
    schema
        Of the training data.
    ids
        (N,) ids of the training series.
    statistics
        Mean and deviation of their training rows, target units.
    scales
        Of the covariates, from the training rows.
    calendar_fields
        Calendar fields that the network reads.
    tail
        The last ``context_length`` rows of each series, target units, to go on from; None: not kept.
    calibration
        What gives intervals their coverage; None: not calibrated.
    transform
        From target units to those that the network works in.
    transformed
        Statistics in those; None: the units are the same.
    errors
        (K, H, C) past errors that means are smeared over (`smearing`); None: forecasts are quantiles.
    blend
        Closed-form forecasts and their weights beside the network; None: the network alone.
    """

    network: ForecastTransformer
    schema: Schema
    ids: np.ndarray
    statistics: SeriesStatistics
    scales: CovariateScales
    calendar_fields: tuple[str, ...] = ()
    tail: Panel | None = None
    calibration: ConformalCalibration | None = None
    transform: TargetTransform = TargetTransform()
    transformed: SeriesStatistics | None = None
    errors: np.ndarray | None = None
    blend: Blend | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave a GPU before being pickled: who reads it may have none."""
        self.network.to("cpu")
        return self.__dict__

    @property
    def levels(self) -> tuple[float, ...]:
        """Quantile levels of the forecast; of a point forecast the median alone."""
        return self.network.head.levels or (0.5,)

    def forecast(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        horizon: int,
        *,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecast windows of a panel from the rows before their cut-offs.

        Parameters
        ----------
        panel
            The data, with the training data's channels.
        series, cutoffs
            (B,) number of the series, and of its first row to forecast.
        horizon
            H, steps.
        batch_size
            Windows forecast at a time; None: by memory.
        given
            (B, H, C) target units: future values to go on from, NaN where the model decides; None: all its own.

        Returns
        -------
        np.ndarray
            (B, H, C, Q) float64, target units; Q follows ``levels``. Of a distribution the mean alone.

        Raises
        ------
        ValueError
            When learned positions do not reach that far.
        """
        if self.network.head.is_distribution:
            return self.summarise(
                panel, series, cutoffs, horizon, (), batch_size=batch_size, device=device, given=given
            )
        windows = self._windows(panel, series, cutoffs, horizon)
        size = batch_size or batch_limit(self.network.config, panel.n_channels)
        network = self._network_on(device)
        out = np.empty((len(series), horizon, panel.n_channels, len(self.levels)))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            batch = windows.batch(index).to(device)
            forced = self._forced(given, index, device)
            if self.blend is None:
                values = forecast(network, batch, horizon, forced)
            else:
                values = self.blend.forecast(network, batch, horizon, forced)
            if self.errors is not None:
                mean = smeared_mean(values, batch, network.scaler(batch), self.errors, self.transform.inverse)
                out[index] = mean[..., None]
            else:
                restored = self.transform.inverse(values.cpu().numpy())
                out[index] = restored if restored.ndim == 4 else restored[..., None]
        _check_numbers(out, panel, series)
        return _with_given(out, given)

    def summarise(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        horizon: int,
        levels: tuple[float, ...],
        *,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecast windows with a distribution: as `forecast`, (B, H, C, 1 + Q), the mean and quantiles at ``levels``.

        The paths behind later patches are seeded by id and cut-off: a window has the same forecast in every call.
        Where the network does not work in target units, up to a scale, the first patch comes from paths, too.
        """
        config = self.network.config
        is_linear = self.transform.name is None and config.scaling != "asinh"
        windows, seeds = self._windows(panel, series, cutoffs, horizon), _seeds(panel, series, cutoffs, 0)
        n_paths = 1 if is_linear and horizon <= config.patch_length else SUMMARY_PATHS
        size = batch_size or paths_limit(config, panel.n_channels, horizon, n_paths)
        network = self._network_on(device)
        out = np.empty((len(series), horizon, panel.n_channels, 1 + len(levels)))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            if is_linear:
                batch, forced = windows.batch(index).to(device), self._forced(given, index, device)
                out[index] = summarise(network, batch, horizon, levels, seeds[index], forced).cpu()
            else:
                paths = self._drawn(windows, index, horizon, SUMMARY_PATHS, seeds, given, device)  # (B, S, H, C)
                out[index, ..., 0] = paths.mean(1)
                out[index, ..., 1:] = np.moveaxis(np.quantile(paths, levels, axis=1, method="weibull"), 0, -1)
        _check_numbers(out, panel, series)
        return _with_given(out, given)

    def columns(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        horizon: int,
        wanted: dict[str, float],
        *,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
        given: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Forecast windows as `forecast` does, by the columns of a frame.

        Parameters
        ----------
        panel, series, cutoffs, horizon, batch_size, given
            As in `forecast`.
        wanted
            Suffixes and quantile levels, of `interval_columns`.

        Returns
        -------
        dict
            Suffix (``""`` of the forecast itself) to (B, H, C) float64, target units.

        Raises
        ------
        ValueError
            For levels that were not learned.
        """
        if self.network.head.is_distribution:
            levels = tuple(dict.fromkeys(wanted.values()))
            values = self.summarise(  # (B, H, C, 1 + Q)
                panel, series, cutoffs, horizon, levels, batch_size=batch_size, device=device, given=given
            )
            return {"": values[..., 0]} | {suffix: values[..., 1 + levels.index(q)] for suffix, q in wanted.items()}
        check_levels(wanted, self.network.head.levels, is_calibrated=self.calibration is not None)
        values = self.forecast(  # (B, H, C, Q)
            panel, series, cutoffs, horizon, batch_size=batch_size, device=device, given=given
        )
        point = values[..., self.levels.index(0.5)]
        if wanted and self.calibration is not None:
            scale = self.window_scales(panel, series, cutoffs)  # (B, 1, C)
            if given is not None:
                scale = np.where(np.isnan(given), scale, 0.0)  # what is given has no error
            clip = self.transform.clip
            if not self.network.head.levels:
                ends = {suffix: clip(self.calibration.quantile(point, scale, q)) for suffix, q in wanted.items()}
                return {"": point} | ends
            values = clip(self.calibration.adjust(values, self.levels, scale))
        return {"": point} | {suffix: interpolate(values, self.levels, q) for suffix, q in wanted.items()}

    def sample(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        horizon: int,
        n: int,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Draw joint sample paths of windows of a panel from the rows before their cut-offs.

        Parameters
        ----------
        panel, series, cutoffs, horizon, batch_size, given
            As in `forecast`.
        n
            S, paths.
        temperature, top_p
            As in `nn.sampling.sample`.
        seed
            With id and cut-off all that the paths of a window depend on, so that they are the same in any batch.

        Returns
        -------
        np.ndarray
            (B, S, H, C) float64, target units, stored with the paths of a step beside each other. Memory: that, and
            a few times ``BATCH_BYTES`` at work.
        """
        windows, seeds = self._windows(panel, series, cutoffs, horizon), _seeds(panel, series, cutoffs, seed)
        size = batch_size or paths_limit(self.network.config, panel.n_channels, horizon, n)
        out = np.empty((len(series), horizon, panel.n_channels, n)).transpose(0, 3, 1, 2)
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            out[begin : begin + size] = self._drawn(
                windows, index, horizon, n, seeds, given, device, temperature=temperature, top_p=top_p
            )
        _check_numbers(out, panel, series)
        if given is not None:
            known = given[:, None]
            np.copyto(out, np.broadcast_to(known, out.shape), where=~np.isnan(known))  # in place: it may be large
        return out

    def _drawn(
        self,
        windows: Windows,
        index: np.ndarray,
        horizon: int,
        n: int,
        seeds: np.ndarray,
        given: np.ndarray | None,
        device: torch.device | str,
        **options: float,
    ) -> np.ndarray:
        """Return sample paths of some windows, (B, S, H, C) target units."""
        batch, forced = windows.batch(index).to(device), self._forced(given, index, device)
        paths = sample(self._network_on(device), batch, horizon, n, seeds[index], forced, **options)
        return self.transform.inverse(paths.flatten(0, 1).cpu().numpy()).reshape(paths.shape)

    def _forced(self, given: np.ndarray | None, index: np.ndarray, device: torch.device | str) -> torch.Tensor | None:
        """Return the given values of windows in the units of the network."""
        return None if given is None else torch.from_numpy(self.transform.forward(given[index])).to(device)

    def _network_on(self, device: torch.device | str) -> ForecastTransformer:
        """Return the network, moved where it is not there yet: asking each weight costs a tenth of a small forecast."""
        here, there = self.network.device, torch.device(device)
        if here.type != there.type or there.index not in (None, here.index):  # "cuda" is any of them
            self.network.to(there)
        return self.network

    def _windows(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> Windows:
        """Return windows to forecast, or say that learned positions do not reach that far."""
        config = self.network.config
        check_reach(config, horizon)
        seen = self.transform.apply(panel.with_levels_of(self.schema))
        statistics, by_window = _of_windows(seen, series, cutoffs, self.ids, self.transformed or self.statistics)
        return Windows(
            seen,
            series,
            cutoffs,
            context_length=config.context_length,
            horizon=horizon if self.calendar_fields or config.known_sizes else 0,  # they alone look ahead
            statistics=statistics,
            by_window=by_window,
            calendar_fields=self.calendar_fields,
            scales=self.scales,
        )

    def window_scales(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
        """Return the scale of windows as the network sees them, (B, 1, C) float64, target units."""
        config = self.network.config
        statistics, by_window = _of_windows(panel, series, cutoffs, self.ids, self.statistics)
        windows = Windows(
            panel,
            series,
            cutoffs,
            context_length=config.context_length,
            horizon=0,
            statistics=statistics,
            by_window=by_window,
        )
        size = batch_limit(config, panel.n_channels)
        out = np.empty((len(series), 1, panel.n_channels))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            out[index] = self.network.scaler(windows.batch(index)).scale.numpy()
        return out

    def calibrated(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        truth: np.ndarray,
        *,
        device: torch.device | str = "cpu",
    ) -> FittedModel:
        """Return the model with intervals calibrated by its errors in windows that it was not trained on.

        Parameters
        ----------
        panel, series, cutoffs
            The windows, as in `forecast`.
        truth
            (B, H, C) target units, NaN where missing.

        Raises
        ------
        ValueError
            When no window has an observed truth and a scale above 0.
        """
        values = self.forecast(panel, series, cutoffs, truth.shape[1], device=device)  # (B, H, C, Q)
        scale = self.window_scales(panel, series, cutoffs)
        if self.network.head.levels:
            calibration = ConformalCalibration.fit_quantiles(truth, values, self.levels, scale)
        else:
            calibration = ConformalCalibration.fit(divide(truth - values[..., 0], scale))
        return replace(self, calibration=calibration)


def _check_numbers(values: np.ndarray, panel: Panel, series: np.ndarray) -> None:
    """Raise a ValueError that names the first series whose forecast (B, ...) is not a number, or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and inf do not add up to less
        is_wrong = ~np.isfinite(values.sum(axis=tuple(range(1, values.ndim))))  # (B,)
    if is_wrong.any():
        of_id = f" of id {panel.ids[series[is_wrong.argmax()]]!r}" if panel.schema.layout == "long" else ""
        raise ValueError(
            f"the forecast{of_id} is not a finite number: a known covariate, a given value or a temperature is far "
            f"beyond anything in training"
        )


def _with_given(values: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Return forecasts (B, H, C, Q) with the given values (B, H, C) in the place of theirs."""
    return values if given is None else np.where(np.isnan(given)[..., None], values, given[..., None])


def _of_windows(
    panel: Panel, series: np.ndarray, cutoffs: np.ndarray, ids: np.ndarray, statistics: SeriesStatistics
) -> tuple[SeriesStatistics, bool]:
    """Return the statistics of windows of a panel, from those of the series ``ids``, and whether they are by window.

    A window of an unseen series deviates by the share of its size that is usual in training. Its size is that of its
    last observed value, whatever other windows there are.
    """
    if np.array_equal(panel.ids, ids):  # as after a fit: no index has to be built
        return statistics, False
    place = pd.Index(ids).get_indexer(pd.Index(panel.ids))[series]  # (B,)
    mean, deviation = statistics.mean[place], statistics.deviation[place]
    unseen = place < 0
    if unseen.any():
        level = last_observed(panel, series[unseen], cutoffs[unseen])  # (U, C)
        size = np.hypot(statistics.mean, statistics.deviation)  # root mean square
        share = np.median(np.divide(statistics.deviation, size, out=np.zeros_like(size), where=size > 0), axis=0)
        mean[unseen] = statistics.mean.mean(0)
        deviation[unseen] = np.abs(np.where(np.isnan(level), mean[unseen], level)) * share
    return SeriesStatistics(mean, deviation), True


def _seeds(panel: Panel, series: np.ndarray, cutoffs: np.ndarray, seed: int) -> np.ndarray:
    """Return what the random numbers of each window start from, (B, 3): the seed, its id and its cut-off."""
    ids, place = np.unique(series, return_inverse=True)
    names = [hashlib.blake2b(str(panel.ids[i]).encode(), digest_size=8).digest() for i in ids]
    numbers = np.array([int.from_bytes(name, "big") for name in names], dtype=np.uint64)
    stamps = panel.stamps(series, cutoffs)
    if stamps.dtype.kind == "M":
        stamps = stamps.astype("datetime64[us]")
    stamps = stamps.astype(np.int64).astype(np.uint64)
    return np.stack([np.full_like(stamps, seed), numbers[place], stamps], axis=1)
