"""Continuous values to tokens: patches of one or more steps, each with a note of what is missing."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tsformer.config import ChannelMixing


class Patching(nn.Module):
    """Cut (B, T, C) into patches (R, P, W) and put them together again.

    ``"independent"``: each channel is a series of its own, R = B C rows of patches of W = patch_length values.
    ``"joint"``: channels are features of one token, R = B and W = patch_length x C.
    """

    def __init__(self, patch_length: int, channel_mixing: ChannelMixing) -> None:
        super().__init__()
        self.patch_length = patch_length
        self.joint = channel_mixing == "joint"

    def split(self, x: torch.Tensor, *, pad_left: bool = False) -> torch.Tensor:
        """(B, T, C) to (R, P, W); a T that is no whole number of patches is padded with zeros."""
        steps = -x.shape[1] % self.patch_length
        if steps:
            x = F.pad(x, (0, 0, steps, 0) if pad_left else (0, 0, 0, steps))
        batch, length, channels = x.shape
        if self.joint:
            return x.reshape(batch, length // self.patch_length, self.patch_length * channels)
        return x.transpose(1, 2).reshape(batch * channels, length // self.patch_length, self.patch_length)

    def join(self, patches: torch.Tensor, channels: int) -> torch.Tensor:
        """(R, P, W) to (B, T, C); further axes behind W, such as quantiles, stay behind C."""
        rows, length, _, *rest = patches.shape
        if self.joint:
            return patches.reshape(rows, length * self.patch_length, channels, *rest)
        series = patches.reshape(rows // channels, channels, length * self.patch_length, *rest)
        return series.transpose(1, 2)

    def rows(self, x: torch.Tensor, channels: int) -> torch.Tensor:
        """Repeat what belongs to a window, (B, ...), for each of its rows: (R, ...)."""
        return x if self.joint else x.repeat_interleave(channels, 0)


class PatchEmbedding(nn.Module):
    """One linear map of a patch's values and of the flags of its missing ones."""

    def __init__(self, width: int, d_model: int) -> None:
        super().__init__()
        self.values = nn.Linear(width, d_model)
        self.missing = nn.Linear(width, d_model, bias=False)

    def forward(self, patches: torch.Tensor, missing: torch.Tensor | None) -> torch.Tensor:
        """(R, P, W) scaled values and flags (None: all observed) to (R, P, D)."""
        x = self.values(patches)
        return x if missing is None else x + self.missing(missing)
