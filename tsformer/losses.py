"""Errors, element by element, and their mean over what was observed: pure functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

ElementwiseLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def mae(forecast: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Absolute error."""
    return (forecast - target).abs()


def mse(forecast: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Squared error."""
    return (forecast - target).square()


def huber(forecast: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Squared below an error of 1, linear above (Huber 1964)."""
    return F.huber_loss(forecast, target, reduction="none")


def pinball(forecast: torch.Tensor, target: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Quantile loss, the mean over the levels (Koenker and Bassett 1978).

    Parameters
    ----------
    forecast
        (..., Q): one forecast for each level.
    target
        (...): the truth.
    levels
        (Q,): quantile levels in (0, 1).

    Returns
    -------
    torch.Tensor
        (...): twice the pinball loss, so that the median alone gives the absolute error.
    """
    error = target.unsqueeze(-1) - forecast  # (..., Q)
    return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1)


def masked_sum(
    errors: torch.Tensor, mask: torch.Tensor, weight: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of ``errors`` where ``mask`` is True, each times its weight, and the sum of those weights."""
    # where, not a product: 0 * inf would be NaN.
    if weight is None:
        return torch.where(mask, errors, 0.0).sum(), mask.sum()
    weight = torch.where(mask, weight, 0.0)
    return torch.where(weight > 0, errors * weight, 0.0).sum(), weight.sum()


def masked_mean(errors: torch.Tensor, mask: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Weighted mean of ``errors`` where ``mask`` is True; 0 where nothing was observed or counts, never NaN."""
    total, count = masked_sum(errors, mask, weight)
    return total / torch.where(count > 0, count, 1)


def elementwise_loss(loss: str | Callable[..., Any]) -> ElementwiseLoss:
    """Return the point loss of that name, or the user's own held to the shape it must have."""
    if not callable(loss):
        return {"mae": mae, "mse": mse, "huber": huber}[loss]

    def checked(forecast: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        try:
            errors = loss(forecast, target)
        except Exception as error:
            raise ValueError(
                f"the loss {loss!r} fails on a forecast and a target of shape {tuple(target.shape)}: {error}"
            ) from error
        if not isinstance(errors, torch.Tensor) or errors.shape != target.shape:
            shape = tuple(errors.shape) if isinstance(errors, torch.Tensor) else type(errors).__name__
            raise ValueError(
                f"the loss must return one error for each element, a tensor of shape {tuple(target.shape)}, "
                f"got {shape}: leave out the mean (reduction='none')"
            )
        if forecast.requires_grad and not errors.requires_grad:
            raise ValueError(
                f"the loss {loss!r} has no gradient: it must be made of the forecast by functions of torch, without "
                f"detach() or numpy"
            )
        return errors

    return checked
