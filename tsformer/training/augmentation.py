"""Training windows changed, context and target together, so that a small data set shows more."""

from __future__ import annotations

import torch

from tsformer.batch import Batch


def mixed(batch: Batch, concentration: float, *, by_channel: bool) -> Batch:
    """Mix each window with another of the batch (mixup, Zhang et al. 2018; of series Ansari et al. 2024).

    Parameters
    ----------
    batch
        Without covariates, which would no longer fit.
    concentration
        Of the beta distribution that the share of the window itself is drawn from.
    by_channel
        A share for each channel, as series of their own; False: one for all, so that they go on belonging together.

    Returns
    -------
    Batch
        Around the series' means, in units of their deviations. A channel stays as it is where the other window lacks
        a value that it has, or either is constant; so what is missing stays the same.
    """
    other = torch.randperm(len(batch.context), device=batch.context.device)
    level, unit = batch.series_mean.unsqueeze(1), batch.series_deviation.unsqueeze(1)  # (B, 1, C)
    can_mix = (unit > 0) & (unit[other] > 0)
    for mask in (batch.context_mask, batch.target_mask):
        can_mix &= (mask[other] | ~mask).all(1, keepdim=True)
    shape = level.shape if by_channel else level[..., :1].shape
    parameter = level.new_full((), concentration)
    share = torch.distributions.Beta(parameter, parameter, validate_args=False).sample(shape)
    ratio = torch.where(can_mix, unit / unit[other], 0.0)

    def mix(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        around = values - level
        together = level + share * around + (1 - share) * ratio * around[other]
        return torch.where(can_mix & mask, together, values)

    return batch._replace(context=mix(batch.context, batch.context_mask), target=mix(batch.target, batch.target_mask))
