from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

# Small tensors gain nothing from threads, which only get in each other's way. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def wave(n: int, *, level=100.0, amplitude=10.0, period=7, slope=0.0, noise=0.5, seed=0, start=0) -> np.ndarray:
    """Level, trend and season with a little noise, (n,)."""
    t = np.arange(start, start + n)
    season = level + slope * t + amplitude * np.sin(2 * np.pi * t / period)
    return season + np.random.default_rng(seed).normal(0, noise, n) if noise else season


@pytest.fixture(name="wave")
def _wave() -> Callable[..., np.ndarray]:
    return wave


@pytest.fixture
def make_panel() -> Callable[..., pd.DataFrame]:
    """Long daily frames: one wave for each id, at its own level."""

    def make(levels: dict[str, float], n: int = 120, begin: str = "2024-01-01", **shape: Any) -> pd.DataFrame:
        ds = pd.date_range(begin, periods=n)
        parts = [
            pd.DataFrame({"unique_id": name, "ds": ds, "y": wave(n, level=level, seed=i, **shape)})
            for i, (name, level) in enumerate(levels.items())
        ]
        return pd.concat(parts, ignore_index=True)

    return make


@pytest.fixture
def small() -> Callable[..., Any]:
    """Forecasters that are fitted in a fraction of a second."""

    def make(prediction_length: int = 7, **changes: Any):
        from tsformer import TransformerForecaster

        chosen: dict[str, Any] = dict(
            context_length=28,
            patch_length=7,
            d_model=16,
            nhead=2,
            dim_feedforward=32,
            dropout=0.0,
            max_steps=5,
            verbose=False,
        )
        return TransformerForecaster(prediction_length, **(chosen | changes))

    return make
