"""The contract between the data road and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Batch(NamedTuple):
    """Windows of one or more series, as tensors on one device.

    Letters: B windows, L context steps, H target steps (0 at prediction), C channels (targets), F calendar fields,
    K known, O observed and S static covariates. Values are in target units and float64, so that levels of 1e12 keep
    their digits; a missing value is 0 with its mask False.
    """

    context: torch.Tensor
    """(B, L, C) float64, target units: the steps before the forecast origin, oldest first."""
    context_mask: torch.Tensor
    """(B, L, C) bool: True where observed; False for missing values and for steps before the series began."""
    target: torch.Tensor
    """(B, H, C) float64, target units: the steps from the forecast origin on."""
    target_mask: torch.Tensor
    """(B, H, C) bool: True where observed, and of a weight above 0."""
    series_mean: torch.Tensor
    """(B, C) float64, target units: mean of the series' training rows."""
    series_deviation: torch.Tensor
    """(B, C) float64, target units: population standard deviation of the series' training rows."""
    calendar: torch.Tensor | None = None
    """(B, L + H, F) int64: calendar fields of every step, None without a timestamp encoding."""
    known: torch.Tensor | None = None
    """(B, L + H, K) float32: covariates known in the future, numbers in units of their training deviation around their
    training mean, categories as numbers of levels from 0 on; NaN where missing, of an unseen level, or outside the
    series. None when there are none."""
    observed: torch.Tensor | None = None
    """(B, L, O) float32: covariates of the past only, like `known`."""
    static: torch.Tensor | None = None
    """(B, S) float32: covariates of the series, like `known`."""
    weight: torch.Tensor | None = None
    """(B, H, 1) float32: what an error at each target step counts; None: all the same."""
    is_context_complete: bool = False
    """Whether ``context_mask`` is True all over, so that nothing is done about gaps. Known where the batch is cut:
    asking a GPU would stop it until the answer is there. False is right for any batch."""
    is_target_complete: bool = False
    """The same of ``target_mask``."""

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return Batch._make(
            field if field is None or isinstance(field, bool) else field.to(device, non_blocking=True) for field in self
        )
