from __future__ import annotations

import pytest
import torch

from tsformer import losses


def test_pinball_of_the_median_is_the_absolute_error():
    target = torch.tensor([0.0, 1.0, 5.0])
    forecast = torch.tensor([[1.0], [1.0], [2.0]])
    assert losses.pinball(forecast, target, torch.tensor([0.5])).tolist() == [1.0, 0.0, 3.0]


def test_pinball_by_hand():
    # Too low by 2 at level .9 costs .9 x 2, too high by 1 at level .1 costs .9 x 1; doubled, and the mean of both.
    value = losses.pinball(torch.tensor([[4.0, 1.0]]), torch.tensor([3.0]), torch.tensor([0.1, 0.9]))
    assert value.item() == pytest.approx(2 * (0.9 * 1 + 0.9 * 2) / 2)


def test_masked_mean_skips_and_never_divides_by_zero():
    errors = torch.tensor([1.0, float("nan"), 3.0])
    assert losses.masked_mean(errors, torch.tensor([True, False, True])).item() == 2.0
    assert losses.masked_mean(errors, torch.zeros(3, dtype=torch.bool)).item() == 0.0


@pytest.mark.parametrize(("name", "expected"), [("mae", 3.0), ("mse", 9.0), ("huber", 2.5)])
def test_point_losses(name, expected):
    assert losses.elementwise_loss(name)(torch.tensor([3.0]), torch.tensor([0.0])).item() == expected


def test_a_loss_of_the_users_own_must_not_average():
    loss = losses.elementwise_loss(lambda f, t: (f - t).abs().mean())
    with pytest.raises(ValueError, match="one error for each element"):
        loss(torch.zeros(2, 3), torch.zeros(2, 3))
