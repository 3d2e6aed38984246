"""Our side, at the sizes that everybody is measured at, and the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from tsformer import TransformerForecaster
from tsformer.batch import Batch
from tsformer.config import ModelConfig, TrainingConfig
from tsformer.losses import masked_mean
from tsformer.nn.decoding import forecast, training_outputs
from tsformer.nn.model import ForecastTransformer
from tsformer.nn.sampling import sample
from tsformer.training.optim import build_optimizer

LENGTH = 96  # of the context, and of the horizon where nothing else is said
CHANNELS = 7
WINDOWS = 32
LAYERS = 2
D_MODEL, NHEAD, DIM_FEEDFORWARD = 128, 8, 512

ARCHITECTURE: dict[str, Any] = dict(
    context_length=LENGTH,
    patch_length=1,
    season_length=1,
    d_model=D_MODEL,
    nhead=NHEAD,
    num_encoder_layers=LAYERS,
    num_decoder_layers=LAYERS,
    dim_feedforward=DIM_FEEDFORWARD,
    activation="relu",
    norm_first=False,
    channel_mixing="joint",
    positional_encoding="sinusoidal",
    scaling="standard",
    linear_path=False,  # the same sizes as everybody's
)
TRAINING: dict[str, Any] = dict(
    training_mode="teacher_forcing",
    loss="mse",
    batch_size=WINDOWS,
    schedule="constant",
    warmup=0,
    gradient_clip_val=None,
    validation_size=0,
    patience=None,
    accelerator="cpu",
)


def long_frame(n_series: int, n_steps: int) -> pd.DataFrame:
    """Hourly series of random numbers in one long frame, sorted by id and time."""
    names = [f"s{i:06d}" for i in range(n_series)]
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.array(names, dtype=object), n_steps),
            "ds": np.tile(pd.date_range("2020-01-01", periods=n_steps, freq="h"), n_series),
            "y": np.random.default_rng(0).normal(size=n_series * n_steps),
        }
    )


def wide_frame(n_steps: int = 8640, channels: int = CHANNELS) -> pd.DataFrame:
    """Hourly walks, one column a channel: as many rows as the training part of ETTh1 has."""
    values = np.random.default_rng(0).normal(size=(n_steps, channels)).cumsum(0)
    index = pd.date_range("2016-07-01", periods=n_steps, freq="h", name="ds")
    return pd.DataFrame(values, index=index, columns=[f"c{i}" for i in range(channels)])


def forecaster(steps: int, dropout: float = 0.1, **changes: Any) -> TransformerForecaster:
    """Return an estimator of these sizes that trains for ``steps`` steps."""
    chosen = dict(prediction_length=LENGTH, dropout=dropout, max_steps=steps, random_state=0, verbose=False)
    return TransformerForecaster(**(ARCHITECTURE | TRAINING | chosen | changes))


def network(dropout: float = 0.1, **changes: Any) -> ForecastTransformer:
    """Return an untrained network of these sizes."""
    torch.manual_seed(0)
    chosen = ARCHITECTURE | dict(max_decoder_length=LENGTH, n_channels=CHANNELS, dropout=dropout) | changes
    return ForecastTransformer(ModelConfig(**chosen), "mse")


def batch(windows: int = WINDOWS, horizon: int = LENGTH, length: int = LENGTH, channels: int = CHANNELS) -> Batch:
    """Return random walks as windows."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(windows, length + horizon, channels, dtype=torch.float64, generator=generator).cumsum(1)
    seen = torch.ones_like(values, dtype=torch.bool)
    halves = values[:, :length], seen[:, :length], values[:, length:], seen[:, length:]
    known = dict(is_context_complete=True, is_target_complete=True)
    return Batch(*halves, values.mean(1), values.std(1), **known)


def train_step(model: ForecastTransformer, windows: Batch) -> Callable[[], None]:
    """Return the step of a bare loop: forward, loss, backward, optimiser."""
    optimizer = build_optimizer(model, TrainingConfig(**TRAINING))

    def step() -> None:
        outputs, memory = training_outputs(model, windows, teacher_forcing=1.0, detach=True)
        truth, missing = model.target_patches(windows, memory.scale)
        loss = masked_mean(model.head.loss(outputs, truth, torch.ones_like(truth)), missing == 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def decode(model: ForecastTransformer, windows: Batch, horizon: int) -> Callable[[], torch.Tensor]:
    """Return the call that forecasts the windows."""
    return lambda: forecast(model, windows, horizon)


def draw(model: ForecastTransformer, windows: Batch, horizon: int, paths: int) -> Callable[[], torch.Tensor]:
    """Return the call that draws sample paths of the windows."""
    seeds = np.zeros((len(windows.context), 3), dtype=np.uint64)
    return lambda: sample(model, windows, horizon, paths, seeds)
