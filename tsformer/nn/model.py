"""The encoder-decoder Transformer on continuous values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from tsformer.batch import Batch
from tsformer.config import ModelConfig
from tsformer.nn.attention import KeysValues, KVCache
from tsformer.nn.covariates import Covariates
from tsformer.nn.decoder import Decoder
from tsformer.nn.dropout import Dropout
from tsformer.nn.embedding import PatchEmbedding, Patching
from tsformer.nn.encoder import Encoder
from tsformer.nn.heads import build_head
from tsformer.nn.linear_path import LinearPath
from tsformer.nn.positions import CalendarEmbedding, PositionalEncoding, Positions
from tsformer.nn.scaling import InstanceScaler, Scale, series_unit

# Deviation of the first outputs: that of a sum of d_model products of U(-1, 1) / sqrt(d_model) and features of size 1.
INITIAL_OUTPUT = 3**-0.5


class Memory(NamedTuple):
    """All that the decoder needs to know about the context; computed once a window."""

    keys_values: list[KeysValues]
    """For each decoder layer, keys and values of the encoder's output, (R, heads, N, features)."""
    key_mask: torch.Tensor | None
    """(R, N) bool: encoder tokens that hold at least one observed value, and the last; None: all do."""
    start: torch.Tensor
    """(R, 1, W): the last observed patch, scaled: the decoder's first token."""
    start_missing: torch.Tensor
    """(R, 1, W): 1 where that patch has a missing value."""
    positions: Positions
    """Positions (and calendar) of the decoder's tokens."""
    scale: Scale
    """Of the target: location (B, 1, C), or (B, H, C) with known covariates, and scale (B, 1, C)."""
    unit: torch.Tensor
    """(R, 1, W): that scale for each element of a patch, target units."""
    window: torch.Tensor | None
    """(R, C, 1, L): what the linear path sees before the first patch; None without one."""


class ForecastTransformer(nn.Module):
    """Encoder-decoder Transformer (Vaswani et al. 2017) whose tokens are patches of continuous values.

    The decoder's first token is the last observed patch; each next token is the patch just decoded. Outputs
    are scaled; ``memory.scale.restore`` gives target units.

    Parameters
    ----------
    config
        The architecture.
    loss
        Loss of a point head: ``"mae"``, ``"mse"``, ``"huber"`` or a callable. Ignored by the other heads.

    Examples
    --------
    >>> import torch
    >>> from tsformer import ForecastTransformer, ModelConfig
    >>> from tsformer.batch import Batch
    >>> config = ModelConfig(context_length=48, patch_length=12, season_length=12, max_decoder_length=24)
    >>> model = ForecastTransformer(config)
    >>> values, seen = torch.randn(2, 48, 3, dtype=torch.float64), torch.ones(2, 48, 3, dtype=torch.bool)
    >>> future = torch.randn(2, 24, 3, dtype=torch.float64), torch.ones(2, 24, 3, dtype=torch.bool)
    >>> batch = Batch(values, seen, *future, values.mean(1), values.std(1))
    >>> model(batch).shape  # teacher-forced: 2 windows x 3 channels, 2 patches of 12 steps
    torch.Size([6, 2, 12])
    """

    def __init__(self, config: ModelConfig, loss: str | Callable[..., Any] = "mae") -> None:
        super().__init__()
        self.config = config
        width = config.patch_length * config.n_channels
        self.scaler = InstanceScaler(config.scaling, config.season_length)
        self.patching = Patching(config.patch_length, config.channel_mixing)
        self.encoder_embedding = PatchEmbedding(width, config.d_model)
        self.decoder_embedding = PatchEmbedding(width, config.d_model)
        self.positions = PositionalEncoding(config)
        self.calendar = CalendarEmbedding(config.calendar_sizes, config.d_model) if config.calendar_sizes else None
        has_covariates = config.known_sizes or config.observed_sizes or config.static_sizes
        self.covariates = Covariates(config) if has_covariates else None
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.head = build_head(config, loss)
        self.linear_path = LinearPath(config) if config.has_linear_path else None
        self.apply(_initialise)
        if self.covariates is not None and self.covariates.path is not None:
            self.covariates.path.reset()

    def forward(self, batch: Batch) -> torch.Tensor:
        """Teacher-forced outputs of every patch of the target: (R, M, W), or (R, M, W, K), quantiles or parameters."""
        memory = self.encode(batch, -(-batch.target.shape[1] // self.config.patch_length))
        patches, missing = self.target_patches(batch, memory.scale)  # (R, M, W)
        inputs = torch.cat([memory.start, patches[:, :-1]], 1)  # (R, M, W)
        flags = torch.cat([memory.start_missing, missing[:, :-1]], 1)
        gaps = None if batch.is_target_complete else missing[:, :-1]
        windows = self.windows_after(memory.window, patches[:, :-1], gaps)
        return self.output(self.decode(inputs, flags, memory), memory, windows)

    def encode(self, batch: Batch, n_patches: int) -> Memory:
        """Read the context; ``n_patches`` is the number of patches that will be decoded."""
        channels = batch.context.shape[2]
        batch, effect = self.without_effect(batch)
        scale = self.scaler(batch)
        values = scale.normalise(batch.context, batch.context_mask).to(self.dtype)  # (B, L, C)
        patches = self.patching.split(values, pad_left=True)  # (R, N, W)
        observed = self.patching.split(batch.context_mask, pad_left=True)
        missing = (~observed).to(self.dtype)
        key_mask = None if batch.is_context_complete else _key_mask(observed)

        n = patches.shape[1]
        positions = self.positions(n - 1 + n_patches, patches)
        encoder_positions, decoder_positions = positions.tokens(0, n), positions.tokens(n - 1, n - 1 + n_patches)
        if self.calendar is not None:
            encoder_calendar, decoder_calendar = self._calendar(batch, n, n_patches)
            encoder_positions = _add(encoder_positions, self.patching.rows(encoder_calendar, channels))
            decoder_positions = _add(decoder_positions, self.patching.rows(decoder_calendar, channels))
        if self.covariates is not None:
            encoder_covariates = self.covariates.encoder_tokens(batch, n, self.dtype)
            decoder_covariates = self.covariates.decoder_tokens(batch, n_patches, self.dtype)
            if encoder_covariates is not None:
                encoder_positions = _add(encoder_positions, self.patching.rows(encoder_covariates, channels))
            if decoder_covariates is not None:
                decoder_positions = _add(decoder_positions, self.patching.rows(decoder_covariates, channels))

        x = self._embed(self.encoder_embedding, patches, missing, encoder_positions)  # (R, N, D)
        x = self.encoder(x, encoder_positions.rotation, key_mask)
        keys_values = self.decoder.project_memory(x, encoder_positions.rotation)
        unit = self.patching.split(scale.scale.expand(-1, self.config.patch_length, -1)).to(self.dtype)  # (R, 1, W)
        if effect is not None:
            scale = scale._replace(loc=scale.loc + effect)
        window = None
        if self.linear_path is not None:
            mask = None if batch.is_context_complete else batch.context_mask
            window = self.linear_path.window(values, mask, len(patches))
        return Memory(keys_values, key_mask, patches[:, -1:], missing[:, -1:], decoder_positions, scale, unit, window)

    def decode(
        self,
        patches: torch.Tensor,
        missing: torch.Tensor | None,
        memory: Memory,
        *,
        first: int = 0,
        caches: Sequence[KVCache] | None = None,
    ) -> torch.Tensor:
        """Return decoder states (R, T, D) of tokens first..first + T - 1, which hold ``patches`` (R, T, W).

        The state of token i is what the head makes patch i of the forecast from. With caches, the tokens before
        ``first`` are remembered and only these are computed. Of several sample paths a row (R x paths, 1, W), each
        with a cache of its own, all share the memory.
        """
        positions = memory.positions.tokens(first, first + patches.shape[1]).paths(len(patches))
        x = self._embed(self.decoder_embedding, patches, missing, positions)
        return self.decoder(x, memory.keys_values, positions.rotation, memory.key_mask, caches)

    @torch.no_grad()
    def start_from(self, weights: np.ndarray) -> None:
        """Let the forecast start as that of a linear map (L, P) from context to next patch, the decoder adding 0."""
        assert self.linear_path is not None
        self.linear_path.weight.copy_(torch.from_numpy(weights))
        self.head.reset()

    def output(
        self, states: torch.Tensor, memory: Memory, windows: torch.Tensor | None, *, first: int = 0
    ) -> torch.Tensor:
        """Return outputs of decoder states (R, M, D), from patch ``first`` on.

        ``windows`` (R, C, M, L) are what the linear path sees before each.
        """
        base = None
        if self.linear_path is not None and windows is not None:
            base = self.linear_path(windows, memory.window, first)
        return self.head(states, memory.unit, base)

    def windows_after(
        self, window: torch.Tensor | None, patches: torch.Tensor, missing: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Return the linear path's windows (R, C, M + 1, L): of the first patch, and after each of M ``patches``."""
        if self.linear_path is None or window is None:
            return None
        return torch.cat([window, self.linear_path.after(window, patches, missing)], 2) if patches.shape[1] else window

    def target_patches(self, batch: Batch, scale: Scale) -> tuple[torch.Tensor, torch.Tensor]:
        """Scaled target and flags of its missing values as patches, each (R, M, W)."""
        values = scale.normalise(batch.target, batch.target_mask).to(self.dtype)
        observed = self.patching.split(batch.target_mask)  # padding behind the horizon counts as missing
        return self.patching.split(values), (~observed).to(self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that the network computes in."""
        return self.encoder_embedding.values.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder_embedding.values.weight.device

    def _embed(
        self, embedding: PatchEmbedding, patches: torch.Tensor, missing: torch.Tensor | None, positions: Positions
    ) -> torch.Tensor:
        x = embedding(patches, missing)
        return self.dropout(x if positions.added is None else x + positions.added)

    def without_effect(self, batch: Batch) -> tuple[Batch, torch.Tensor | None]:
        """Return the batch less the effect of known covariates on its context, and that on its target (B, H, C)."""
        effect = None if self.covariates is None else self.covariates.effect(batch, self.dtype)
        if effect is None:
            return batch, None
        unit = series_unit(batch)
        in_units = effect.to(unit.dtype) * unit  # (B, L + H, C) target units
        length = batch.context.shape[1]
        return batch._replace(context=batch.context - in_units[:, :length]), in_units[:, length:]

    def _calendar(self, batch: Batch, n: int, n_patches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Calendar embedding of each encoder token's patch, and of the patch each decoder token predicts."""
        assert self.calendar is not None and batch.calendar is not None
        length, p = batch.context.shape[1], self.config.patch_length
        steps = torch.arange(n + n_patches, device=batch.calendar.device) * p + length - n * p
        tokens = self.calendar(batch.calendar[:, steps.clamp(min=0)])  # (B, N + M, D): the first step of each patch
        return tokens[:, :n], tokens[:, n:]


def device_of(accelerator: str) -> torch.device:
    """Return where forecasts are made."""
    wants_cuda = accelerator in ("auto", "gpu", "cuda")
    return torch.device("cuda" if wants_cuda and torch.cuda.is_available() else "cpu")


def _key_mask(observed: torch.Tensor) -> torch.Tensor | None:
    """Tokens that hold something, (R, N); the last always counts, so that no row of attention is empty.

    None where all do, as attention without a mask is a little faster; asking stops a GPU, and parts a compiled step.
    """
    mask = observed.any(-1)
    mask[:, -1] = True
    may_ask = mask.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if may_ask and bool(mask.all()) else mask


def _add(positions: Positions, term: torch.Tensor) -> Positions:
    added = term if positions.added is None else positions.added + term
    return positions._replace(added=added)


def _initialise(module: nn.Module) -> None:
    """Draw weights and biases of a map of n features from U(-1/sqrt(n), 1/sqrt(n)).

    A state after a norm has features of size 1, so that the first outputs of the head have a deviation of about
    ``INITIAL_OUTPUT`` in scaled units, well inside the spread of the data.
    """
    if isinstance(module, nn.Linear):
        bound = module.in_features**-0.5
        nn.init.uniform_(module.weight, -bound, bound)
        if module.bias is not None:
            nn.init.uniform_(module.bias, -bound, bound)
