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
        self.season_length = config.season_length

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

    def window(self, values: torch.Tensor, mask: torch.Tensor | None, rows: int) -> torch.Tensor:
        """Scaled context (B, T, C) as the window of the first patch, (R, C, 1, L).

        Missing values are filled as in `fill_gaps` (``mask=None``: there are none); what a shorter context lacks is
        missing.
        """
        length = self.weight.shape[0]
        lacks = length - values.shape[1]
        if mask is None and lacks > 0:
            mask = torch.ones_like(values, dtype=torch.bool)
        values = F.pad(values.transpose(1, 2), (lacks, 0))  # (B, C, L)
        if mask is not None:
            values = fill_gaps(values, F.pad(mask.transpose(1, 2), (lacks, 0)), self.season_length)
        return values.reshape(rows, -1, 1, length)

    def after(self, window: torch.Tensor, patches: torch.Tensor, missing: torch.Tensor | None) -> torch.Tensor:
        """Window of the first patch and those that follow it (R, M, W), to the windows of what follows each.

        Parameters
        ----------
        missing
            (R, M, W): flags of missing values, which are filled from before; None: there are none.

        Returns
        -------
        torch.Tensor
            (R, C, M, L).
        """
        length, step = self.weight.shape
        steps = torch.cat([window[..., 0, :], self._steps(patches)], -1)
        if missing is not None:
            seen = torch.ones_like(window[..., 0, :], dtype=torch.bool)
            steps = fill_gaps(steps, torch.cat([seen, self._steps(missing) == 0], -1))
        return steps[..., step:].unfold(-1, length, step)

    def _steps(self, patches: torch.Tensor) -> torch.Tensor:
        """(R, M, W) as steps of channels, (R, C, M P)."""
        rows, n, width = patches.shape
        return patches.reshape(rows, n * self.weight.shape[1], -1).transpose(1, 2)


def fill_gaps(values: torch.Tensor, mask: torch.Tensor, season_length: int = 1) -> torch.Tensor:
    """Fill what is missing from what is there.

    Parameters
    ----------
    values, mask
        (..., T) and where they were observed.
    season_length
        Steps of a season.

    Returns
    -------
    torch.Tensor
        (..., T): a missing value is the last one before it. Before the first it is that of the same step in the first
        season, or the first value where less than a season was observed. Where nothing was, values are as they are.
    """
    length = values.shape[-1]
    steps = torch.arange(length, device=values.device)
    first = mask.to(torch.uint8).argmax(-1, keepdim=True)
    season = first + (steps - first) % season_length
    last = torch.where(mask, steps, -1).cummax(-1).values
    source = torch.where(steps >= first, last, torch.where(first + season_length <= length, season, first))
    filled = values.gather(-1, source.clamp(min=0))
    filled = torch.where(
        steps >= first, filled, filled.gather(-1, source.clamp(min=0))
    )  # the first season has gaps, too
    return torch.where(mask.any(-1, keepdim=True), filled, values)
