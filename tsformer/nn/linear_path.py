"""A linear path from context to forecast, which the decoder corrects."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tsformer.config import ModelConfig


class LinearPath(nn.Module):
    """A linear map from the last L steps of a channel to its next patch (Zeng et al. 2023), fed back patch by patch.

    Letters: R rows, C channels of a row, L context steps, M patches of W = P x C values.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.context_length, config.patch_length))
        # Under these the scaled value 0 is no level of the window.
        self.has_level = config.scaling not in ("none", "mean_abs")

    def forward(self, windows: torch.Tensor, start: torch.Tensor, first: int = 0) -> torch.Tensor:
        """Return the patches that follow windows.

        Parameters
        ----------
        windows
            (R, C, M, L) scaled steps before each of M patches, the first of them patch ``first`` of the forecast.
        start
            (R, C, 1, L) window of the first patch of all.

        Returns
        -------
        torch.Tensor
            (R, M, W). No further from the last value of ``start`` than its spread, as much again every L steps, and
            whatever is in the window: enough for any trend, too little for an unstable map to run away.
        """
        length, step = self.weight.shape
        last, spread = start[..., -1:], start.amax(-1, keepdim=True) - start.amin(-1, keepdim=True)  # (R, C, 1, 1)
        n_patches = windows.shape[2]
        steps = torch.arange(1, n_patches * step + 1, device=windows.device).view(n_patches, step) + first * step
        reach = spread * (1 + steps / length)  # (R, C, M, P)
        reach = torch.maximum(reach, (windows - last).abs().amax(-1, keepdim=True))
        ahead = torch.minimum(torch.maximum(windows @ self.weight, last - reach), last + reach)
        return ahead.permute(0, 2, 3, 1).flatten(2)

    def window(self, values: torch.Tensor, mask: torch.Tensor, rows: int) -> torch.Tensor:
        """Scaled context (B, T, C) as the window of the first patch, (R, C, 1, L).

        A missing value is the last before it; before the first it is the location of the window, or without one the
        first. What a shorter context lacks is missing.
        """
        length = self.weight.shape[0]
        lacks = (length - values.shape[1], 0)
        values, mask = F.pad(values.transpose(1, 2), lacks), F.pad(mask.transpose(1, 2), lacks)  # (B, C, L)
        if not self.has_level:
            first = mask.to(torch.uint8).argmax(-1, keepdim=True)
            is_before = torch.arange(length, device=mask.device) < first
            values = torch.where(is_before, values.gather(-1, first), values)
        return _forward_fill(values, mask).reshape(rows, -1, 1, length)

    def after(self, window: torch.Tensor, patches: torch.Tensor, missing: torch.Tensor | None) -> torch.Tensor:
        """Window of the first patch and those that follow it (R, M, W), to the windows of what follows each.

        Returns
        -------
        torch.Tensor
            (R, C, M, L).
        """
        length, step = self.weight.shape
        steps = torch.cat([window[..., 0, :], self._steps(patches)], -1)
        if missing is not None and bool(missing.any()):
            seen = torch.ones_like(window[..., 0, :], dtype=torch.bool)
            steps = _forward_fill(steps, torch.cat([seen, self._steps(missing) == 0], -1))
        return steps[..., step:].unfold(-1, length, step)

    def _steps(self, patches: torch.Tensor) -> torch.Tensor:
        """(R, M, W) as steps of channels, (R, C, M P)."""
        rows, n, width = patches.shape
        return patches.reshape(rows, n * self.weight.shape[1], -1).transpose(1, 2)


def _forward_fill(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Values (..., T) with what is missing replaced by the last before it; as they are before the first."""
    if bool(mask.all()):
        return values
    steps = torch.arange(values.shape[-1], device=values.device)
    last = torch.where(mask, steps, -1).cummax(-1).values
    return torch.where(last >= 0, values.gather(-1, last.clamp(min=0)), values)
