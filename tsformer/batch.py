"""The contract between the data road and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Batch(NamedTuple):
    """Windows of one or more series, as tensors on one device.

    Letters: B windows, L context steps, H target steps (0 at prediction), C channels (targets),
    F calendar fields. Values are in target units and float64, so that levels of 1e12 keep their digits;
    a missing value is 0 with its mask False.
    """

    context: torch.Tensor
    """(B, L, C) float64, target units: the steps before the forecast origin, oldest first."""
    context_mask: torch.Tensor
    """(B, L, C) bool: True where observed; False for missing values and for steps before the series began."""
    target: torch.Tensor
    """(B, H, C) float64, target units: the steps from the forecast origin on."""
    target_mask: torch.Tensor
    """(B, H, C) bool: True where observed."""
    series_mean: torch.Tensor
    """(B, C) float64, target units: mean of the series' training rows."""
    series_deviation: torch.Tensor
    """(B, C) float64, target units: population standard deviation of the series' training rows."""
    calendar: torch.Tensor | None = None
    """(B, L + H, F) int64: calendar fields of every step, None without a timestamp encoding."""

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return Batch(
            self.context.to(device, non_blocking=True),
            self.context_mask.to(device, non_blocking=True),
            self.target.to(device, non_blocking=True),
            self.target_mask.to(device, non_blocking=True),
            self.series_mean.to(device, non_blocking=True),
            self.series_deviation.to(device, non_blocking=True),
            None if self.calendar is None else self.calendar.to(device, non_blocking=True),
        )
