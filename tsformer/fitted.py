"""A trained network with all that a forecast needs beside it: arrays in, arrays out, and one file."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tsformer.config import ModelConfig
from tsformer.data.panel import Panel, Schema
from tsformer.data.windows import SeriesStatistics, Windows
from tsformer.nn.decoding import forecast
from tsformer.nn.model import ForecastTransformer
from tsformer.nn.sampling import BLOCK, SUMMARY_PATHS, sample, summarise
from tsformer.persistence import read_model, write_model

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
    bytes_of_block = BLOCK * rows * (width + cached) * 4
    bytes_of_paths = 2 * n_paths * horizon * n_channels * 8
    return max(1, min(batch_limit(config, n_channels), BATCH_BYTES // (bytes_of_block + bytes_of_paths)))


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
        Mean and deviation of their training rows.
    calendar_fields
        Calendar fields that the network reads.
    tail
        The last ``context_length`` rows of each series, to go on from; None: not kept.
    """

    network: ForecastTransformer
    schema: Schema
    ids: np.ndarray
    statistics: SeriesStatistics
    calendar_fields: tuple[str, ...] = ()
    tail: Panel | None = None

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
            return self.summarise(panel, series, cutoffs, horizon, (), batch_size=batch_size, device=device)
        windows = self._windows(panel, series, cutoffs, horizon)
        size = batch_size or batch_limit(self.network.config, panel.n_channels)
        network = self.network.to(device)
        out = np.empty((len(series), horizon, panel.n_channels, len(self.levels)))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            values = forecast(network, windows.batch(index).to(device), horizon)
            out[index] = (values if values.ndim == 4 else values.unsqueeze(-1)).cpu().numpy()
        return out

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
    ) -> np.ndarray:
        """Forecast windows with a distribution: as `forecast`, (B, H, C, 1 + Q), the mean and quantiles at ``levels``.

        The paths behind later patches are seeded by id and cut-off: a window has the same forecast in every call.
        """
        config = self.network.config
        windows, seeds = self._windows(panel, series, cutoffs, horizon), _seeds(panel, series, cutoffs, 0)
        n_paths = SUMMARY_PATHS if horizon > config.patch_length else 1
        size = batch_size or paths_limit(config, panel.n_channels, horizon, n_paths)
        network = self.network.to(device)
        out = np.empty((len(series), horizon, panel.n_channels, 1 + len(levels)))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            out[index] = summarise(network, windows.batch(index).to(device), horizon, levels, seeds[index]).cpu()
        return out

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
    ) -> np.ndarray:
        """Draw joint sample paths of windows of a panel from the rows before their cut-offs.

        Parameters
        ----------
        panel, series, cutoffs, horizon, batch_size
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
        size = paths_limit(self.network.config, panel.n_channels, horizon, n)
        size = min(batch_size or size, size)
        network = self.network.to(device)
        out = np.empty((len(series), horizon, panel.n_channels, n)).transpose(0, 3, 1, 2)
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            batch = windows.batch(index).to(device)
            out[begin : begin + size] = sample(
                network, batch, horizon, n, seeds[index], temperature=temperature, top_p=top_p
            ).cpu()
        return out

    def _windows(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> Windows:
        """Return windows to forecast, or say that learned positions do not reach that far."""
        config = self.network.config
        if config.positional_encoding == "learned" and horizon > config.max_decoder_length:
            raise ValueError(
                f"horizon={horizon} is beyond the {config.max_decoder_length} steps that "
                f"positional_encoding='learned' has positions for: train with positional_encoding='rotary' "
                f"(any horizon), or with a longer prediction_length"
            )
        return Windows(
            panel,
            series,
            cutoffs,
            context_length=config.context_length,
            horizon=horizon if self.calendar_fields else 0,  # the calendar alone looks ahead
            statistics=self.statistics_of(panel),
            calendar_fields=self.calendar_fields,
        )

    def statistics_of(self, panel: Panel) -> SeriesStatistics:
        """Scales of the series of a panel, by id.

        A series unseen in training is scaled by its context alone; where that is all missing, it takes the mean of
        the training series.
        """
        place = pd.Index(self.ids).get_indexer(pd.Index(panel.ids))
        mean, deviation = self.statistics.mean[place], self.statistics.deviation[place]
        unseen = place < 0
        if unseen.any():
            mean[unseen], deviation[unseen] = self.statistics.mean.mean(0), 0.0
        return SeriesStatistics(mean, deviation)

    def write(self, path: str | os.PathLike[str], about: dict[str, Any], *, include_history: bool) -> Path:
        """Write to one file; ``about`` is what the caller wants back from ``read``, as JSON."""
        config = self.network.config
        tensors = {f"model.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors["statistics.mean"] = torch.from_numpy(self.statistics.mean)
        tensors["statistics.deviation"] = torch.from_numpy(self.statistics.deviation)
        metadata: dict[str, Any] = {
            "about": about,
            "config": {field.name: getattr(config, field.name) for field in fields(config)},
            "schema": self.schema.to_dict(),
            "ids": self.ids.tolist(),
            "ids_dtype": str(self.ids.dtype),
            "calendar_fields": self.calendar_fields,
        }
        if include_history and self.tail is not None:
            tensors["history.values"] = torch.from_numpy(self.tail.values)
            tensors["history.indptr"] = torch.from_numpy(self.tail.indptr)
            tensors["history.start"] = torch.from_numpy(self.tail.start.astype(np.int64))
            metadata["start_dtype"] = str(self.tail.start.dtype)
        return write_model(path, tensors, metadata)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> tuple[FittedModel, dict[str, Any]]:
        """Return the model of a file, and what was written about it."""
        tensors, metadata = read_model(path)
        lost = {"about", "config", "schema", "ids", "ids_dtype", "calendar_fields"} - metadata.keys()
        if lost:
            raise ValueError(f"{path} was written by another version of tsformer: it lacks {', '.join(sorted(lost))}")
        chosen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in metadata["config"].items()}
        config = ModelConfig(**chosen)
        weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        network = ForecastTransformer(config).to(next(iter(weights.values())).dtype)
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(f"{path} is damaged: its weights do not fit its architecture ({error})") from None
        schema = Schema.from_dict(metadata["schema"])
        ids = pd.Index(metadata["ids"], dtype=metadata["ids_dtype"]).to_numpy()
        tail = None
        if "history.values" in tensors:
            start = tensors["history.start"].numpy().astype(metadata["start_dtype"])
            tail = Panel(tensors["history.values"].numpy(), tensors["history.indptr"].numpy(), start, ids, schema)
        statistics = SeriesStatistics(tensors["statistics.mean"].numpy(), tensors["statistics.deviation"].numpy())
        fitted = cls(network.eval(), schema, ids, statistics, tuple(metadata["calendar_fields"]), tail)
        return fitted, metadata["about"]


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
