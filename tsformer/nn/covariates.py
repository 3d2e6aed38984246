"""Covariates in the network: a part of each token, and a path of their own to the forecast."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tsformer.batch import Batch
from tsformer.config import POSITIVE_DISTRIBUTIONS, ModelConfig

# Features of one category at most; fewer levels have fewer.
MAX_CATEGORY_FEATURES = 16


class CovariateFeatures(nn.Module):
    """Covariates of one role as features: numbers with a note of what is missing, categories as learned vectors.

    A missing number counts as the mean of training. Vectors start at zero, so that a level that training never saw
    says as little as a missing one.

    Parameters
    ----------
    sizes
        (K,) levels of each covariate, 0 for numbers.
    """

    numbers: torch.Tensor

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        numbers = [i for i, size in enumerate(sizes) if not size]
        # On the device: a list of places would be copied there, and waited for, at each call.
        self.register_buffer("numbers", torch.tensor(numbers, dtype=torch.int64), persistent=False)
        self.categories = [i for i, size in enumerate(sizes) if size]
        widths = [min(MAX_CATEGORY_FEATURES, 1 + sizes[i] // 2) for i in self.categories]
        self.tables = nn.ModuleList(
            nn.Embedding(sizes[i] + 1, width) for i, width in zip(self.categories, widths, strict=True)
        )
        for weight in self.parameters():
            nn.init.zeros_(weight)
        self.width = 2 * len(numbers) + sum(widths)

    def forward(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """(..., K) covariates as in `Batch` to (..., width)."""
        numbers = x.index_select(-1, self.numbers)
        parts = [numbers.nan_to_num(0.0).to(dtype), numbers.isnan().to(dtype)]
        for table, i in zip(self.tables, self.categories, strict=True):
            parts.append(table((x[..., i] + 1).nan_to_num(0.0).long()))  # row 0: missing
        return torch.cat(parts, -1)


class Path(nn.Module):
    """A linear effect of features, which goes on beyond the values of training, and what bends it; both zero at first.

    (..., F) to (..., C).
    """

    def __init__(self, n_features: int, d_model: int, n_targets: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_targets, bias=False)
        self.hidden = nn.Linear(n_features, d_model)
        self.bend = nn.Linear(d_model, n_targets, bias=False)

    def reset(self) -> None:
        """Start without an effect."""
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.bend.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., F) to (..., C)."""
        rate = self.hidden.out_features**0.5  # Adam moves weights at one speed: so that both parts learn at the same
        return self.linear(x) * rate + self.bend(torch.tanh(self.hidden(x))) / rate


class Covariates(nn.Module):
    """What the covariates of a window say to its tokens, and to each step by themselves.

    An encoder token gets the known and observed covariates of its steps, a decoder token the known ones of the steps
    that it predicts, both the static ones.

    Known covariates also have a path around the Transformer, from each step to that step (`effect`): the network
    forecasts what it leaves, as regression with time series errors does. So a price never seen moves the forecast
    even where the context is flat.

    Parameters
    ----------
    config
        The architecture.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        p, d = config.patch_length, config.d_model
        self.patch_length = p
        self.known = CovariateFeatures(config.known_sizes)
        self.observed = CovariateFeatures(config.observed_sizes)
        self.static = CovariateFeatures(config.static_sizes)
        steps = self.known.width + self.observed.width
        self.to_encoder = nn.Linear(p * steps, d, bias=False) if steps else None
        self.to_decoder = nn.Linear(p * self.known.width, d, bias=False) if self.known.width else None
        self.to_both = nn.Linear(self.static.width, d, bias=False) if self.static.width else None
        # A sum has no place where values are positive.
        has_path = self.known.width > 0 and config.distribution not in POSITIVE_DISTRIBUTIONS
        self.path = Path(self.known.width + self.static.width, d, config.n_targets) if has_path else None

    def encoder_tokens(self, batch: Batch, n: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Return what to add to the n encoder tokens, (B, n, D)."""
        past = []
        if batch.known is not None:
            past.append(self.known(self._whole(batch.known[:, : batch.context.shape[1]], n), dtype))
        if batch.observed is not None:
            past.append(self.observed(self._whole(batch.observed, n), dtype))
        static = self._static_tokens(batch, n, dtype)
        return _sum(static, self.to_encoder, past, n)

    def decoder_tokens(self, batch: Batch, n: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Return what to add to the n decoder tokens, (B, n, D)."""
        ahead = []
        if batch.known is not None:
            known = batch.known[:, batch.context.shape[1] :]
            known = F.pad(known, (0, 0, 0, n * self.patch_length - known.shape[1]), value=torch.nan)
            ahead.append(self.known(known, dtype))
        return _sum(self._static_tokens(batch, n, dtype), self.to_decoder, ahead, n)

    def effect(self, batch: Batch, dtype: torch.dtype) -> torch.Tensor | None:
        """Return the effect of the known covariates of each step, (B, L + H, C) in units of the series' deviation."""
        if self.path is None:
            return None
        assert batch.known is not None
        features = self.known(batch.known, dtype)  # (B, L + H, F)
        if self.to_both is not None:
            static = self._static(batch, dtype).unsqueeze(1).expand(-1, features.shape[1], -1)
            features = torch.cat([features, static], -1)
        return self.path(features)

    def _static(self, batch: Batch, dtype: torch.dtype) -> torch.Tensor:
        assert batch.static is not None
        return self.static(batch.static, dtype)

    def _static_tokens(self, batch: Batch, n: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Return the same for each of n tokens, (B, n, D)."""
        if self.to_both is None:
            return None
        return self.to_both(self._static(batch, dtype)).unsqueeze(1).expand(-1, n, -1)

    def _whole(self, x: torch.Tensor, n: int) -> torch.Tensor:
        """(B, L, K) with missing steps before, so that they fill n patches."""
        return F.pad(x, (0, 0, n * self.patch_length - x.shape[1], 0), value=torch.nan)


def _sum(
    tokens: torch.Tensor | None, projection: nn.Linear | None, features: list[torch.Tensor], n: int
) -> torch.Tensor | None:
    """Add the projected features (B, n patch_length, F) of n patches to tokens (B, n, D), where there are any."""
    if projection is None:
        return tokens
    of_steps = torch.cat(features, -1)
    projected = projection(of_steps.reshape(of_steps.shape[0], n, -1))
    return projected if tokens is None else tokens + projected
