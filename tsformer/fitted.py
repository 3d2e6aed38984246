"""A trained network with all that a forecast needs beside it: arrays in, arrays out, and one file."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tsformer.calibration import ConformalCalibration
from tsformer.config import ModelConfig
from tsformer.data.panel import Panel, Schema
from tsformer.data.windows import SeriesStatistics, Windows
from tsformer.metrics import divide
from tsformer.nn.decoding import forecast
from tsformer.nn.model import ForecastTransformer
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
    calibration
        What gives intervals their coverage; None: not calibrated.
    """

    network: ForecastTransformer
    schema: Schema
    ids: np.ndarray
    statistics: SeriesStatistics
    calendar_fields: tuple[str, ...] = ()
    tail: Panel | None = None
    calibration: ConformalCalibration | None = None

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
            (B, H, C, Q) float64, target units; Q follows ``levels``.

        Raises
        ------
        ValueError
            When learned positions do not reach that far.
        """
        config = self.network.config
        if config.positional_encoding == "learned" and horizon > config.max_decoder_length:
            raise ValueError(
                f"horizon={horizon} is beyond the {config.max_decoder_length} steps that "
                f"positional_encoding='learned' has positions for: train with positional_encoding='rotary' "
                f"(any horizon), or with a longer prediction_length"
            )
        windows = Windows(
            panel,
            series,
            cutoffs,
            context_length=config.context_length,
            horizon=horizon if self.calendar_fields else 0,  # the calendar alone looks ahead
            statistics=self.statistics_of(panel),
            calendar_fields=self.calendar_fields,
        )
        size = batch_size or batch_limit(config, panel.n_channels)
        network = self.network.to(device)
        out = np.empty((len(series), horizon, panel.n_channels, len(self.levels)))
        for begin in range(0, len(series), size):
            index = np.arange(begin, min(begin + size, len(series)))
            known = None if given is None else torch.from_numpy(given[index]).to(device)
            values = forecast(network, windows.batch(index).to(device), horizon, known)
            out[index] = (values if values.ndim == 4 else values.unsqueeze(-1)).cpu().numpy()
        return out

    def window_scales(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
        """Return the scale of windows as the network sees them, (B, 1, C) float64, target units."""
        config = self.network.config
        windows = Windows(
            panel,
            series,
            cutoffs,
            context_length=config.context_length,
            horizon=0,
            statistics=self.statistics_of(panel),
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
        if self.calibration is not None:
            arrays = self.calibration.to_arrays()
            tensors |= {f"calibration.{name}": torch.from_numpy(array) for name, array in arrays.items()}
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
        arrays = {
            name.removeprefix("calibration."): t.numpy()
            for name, t in tensors.items()
            if name.startswith("calibration.")
        }
        calibration = ConformalCalibration.from_arrays(arrays) if arrays else None
        fields_ = tuple(metadata["calendar_fields"])
        fitted = cls(network.eval(), schema, ids, statistics, fields_, tail, calibration)
        return fitted, metadata["about"]
