from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tsformer.batch import Batch
from tsformer.config import ModelConfig
from tsformer.nn.model import ForecastTransformer

POSITIONS = ("rotary", "sinusoidal", "learned", "none")


@pytest.fixture(params=POSITIONS)
def position(request) -> str:
    return request.param


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    def make(windows=3, context=40, horizon=24, channels=3, missing=0.1, seed=0, calendar=False) -> Batch:
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(windows, context + horizon, channels, dtype=torch.float64, generator=g).cumsum(1)
        mask = torch.rand(x.shape, generator=g) >= missing
        x = torch.where(mask, x, 0.0)
        hours = (torch.arange(context + horizon)[None, :, None] + torch.arange(windows)[:, None, None]) % 24
        return Batch(
            x[:, :context],
            mask[:, :context],
            x[:, context:],
            mask[:, context:],
            x.mean(1),
            x.std(1),
            hours if calendar else None,
        )

    return make


@pytest.fixture
def make_model() -> Callable[..., ForecastTransformer]:
    def make(loss="mae", seed=0, **changes) -> ForecastTransformer:
        chosen = dict(
            context_length=40,
            patch_length=8,
            season_length=8,
            max_decoder_length=48,
            d_model=16,
            nhead=2,
            dim_feedforward=32,
            num_decoder_layers=2,
        )
        torch.manual_seed(seed)
        model = ForecastTransformer(ModelConfig(**(chosen | changes)), loss).eval()
        # Weights far from their start, so that a wrong position or mask cannot hide behind small outputs.
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.2 * torch.randn_like(p))
        return model

    return make
