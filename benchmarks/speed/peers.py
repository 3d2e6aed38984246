"""Peers at our sizes: Hugging Face TimeSeriesTransformer, darts TransformerModel, neuralforecast VanillaTransformer.

Each is imported where it is called, so that a missing one costs only its own rows.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch

from speed.measure import clock
from speed.ours import CHANNELS, D_MODEL, DIM_FEEDFORWARD, LAYERS, LENGTH, NHEAD, WINDOWS, wide_frame

QUIET = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")


def hush() -> None:
    """Silence what the peers say about machines, loaders and tips."""
    warnings.filterwarnings("ignore")
    for name in (
        "pytorch_lightning",
        "lightning_fabric",
        "lightning.pytorch",
        "lightning.fabric",
        "darts",
        "transformers",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)


class Reached(Exception):
    """A training has reached its first batch, which is all that was asked of it."""


def stamps(base: type) -> Any:
    """Return a callback of either Lightning that notes the time when each batch begins."""

    times: list[float] = []  # not of the object, of which neuralforecast trains with a copy

    class Stamps(base):  # type: ignore[misc]
        def on_train_batch_start(self, *args: Any) -> None:
            times.append(clock())

        def mean(self) -> float:
            return float(np.diff(times).mean())

    return Stamps()


# ------------------------------------------------------------------ Hugging Face


def hf_model(horizon: int = LENGTH, dropout: float = 0.1, paths: int = 1) -> Any:
    """Return TimeSeriesTransformer, one lag, no layer left out at random."""
    from transformers import TimeSeriesTransformerConfig, TimeSeriesTransformerForPrediction

    torch.manual_seed(0)
    config = TimeSeriesTransformerConfig(
        prediction_length=horizon,
        context_length=LENGTH,
        input_size=CHANNELS,
        lags_sequence=[1],
        num_time_features=1,
        distribution_output="normal",
        scaling="std",
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=NHEAD,
        decoder_attention_heads=NHEAD,
        encoder_ffn_dim=DIM_FEEDFORWARD,
        decoder_ffn_dim=DIM_FEEDFORWARD,
        activation_function="relu",
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        num_parallel_samples=paths,
    )
    return TimeSeriesTransformerForPrediction(config)


def hf_batch(windows: int = WINDOWS, horizon: int = LENGTH, *, future: bool) -> dict[str, torch.Tensor]:
    """Return random walks as it wants them; with their future values for training."""
    past, generator = LENGTH + 1, torch.Generator().manual_seed(0)
    values = torch.randn(windows, past + horizon, CHANNELS, generator=generator).cumsum(1)
    age = torch.arange(past + horizon).float().expand(windows, -1).unsqueeze(-1) / 1000
    inputs = {
        "past_values": values[:, :past],
        "past_observed_mask": torch.ones(windows, past, CHANNELS),
        "past_time_features": age[:, :past],
        "future_time_features": age[:, past:],
    }
    return inputs | ({"future_values": values[:, past:]} if future else {})


# ------------------------------------------------------------------ darts


def darts_model(horizon: int = LENGTH, dropout: float = 0.1, steps: int = 1, callback: Any = None) -> Any:
    """Return TransformerModel, which is teacher-forced and autoregressive since 0.46."""
    from darts.models import TransformerModel

    hush()  # its import has set the levels
    callbacks = [] if callback is None else [callback]
    return TransformerModel(
        input_chunk_length=LENGTH,
        output_chunk_length=horizon,
        d_model=D_MODEL,
        nhead=NHEAD,
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        dim_feedforward=DIM_FEEDFORWARD,
        dropout=dropout,
        activation="relu",
        batch_size=WINDOWS,
        n_epochs=1,
        random_state=0,
        pl_trainer_kwargs=QUIET | dict(limit_train_batches=steps, callbacks=callbacks, enable_checkpointing=False),
    )


def darts_series(frame: pd.DataFrame | None = None) -> Any:
    """Return a wide frame as its own series, 32-bit."""
    from darts import TimeSeries

    return TimeSeries.from_dataframe(wide_frame() if frame is None else frame).astype(np.float32)


# ------------------------------------------------------------------ neuralforecast


def neuralforecast_model(horizon: int = LENGTH, steps: int = 1, callback: Any = None, **changes: Any) -> Any:
    """Return NeuralForecast with one VanillaTransformer, for hourly data; sizes as given or its own."""
    from neuralforecast import NeuralForecast
    from neuralforecast.models import VanillaTransformer

    hush()
    callbacks = [] if callback is None else [callback]
    settings = dict(
        input_size=LENGTH, max_steps=steps, windows_batch_size=WINDOWS, val_check_steps=10**6, callbacks=callbacks
    )
    return NeuralForecast([VanillaTransformer(h=horizon, **(settings | QUIET | changes))], freq="h")


def neuralforecast_sizes(dropout: float = 0.1) -> dict[str, Any]:
    """Return the sizes that everybody is measured at: one channel a window, since the model has no more."""
    return dict(
        hidden_size=D_MODEL,
        n_head=NHEAD,
        conv_hidden_size=DIM_FEEDFORWARD,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        dropout=dropout,
        activation="relu",
        batch_size=CHANNELS,
        scaler_type="standard",
    )


def as_long(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a wide frame as a long one, a series a column."""
    long = frame.reset_index(names="ds").melt("ds", var_name="unique_id", value_name="y")
    return long[["unique_id", "ds", "y"]]
