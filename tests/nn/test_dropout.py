"""Dropout by bytes: rate, scale, independence, seeds, gradient."""

import pytest
import torch

from tsformer.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_rate_and_scale(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(1000, 1000))
    kept = round(256 * (1 - p)) / 256
    assert kept == pytest.approx(1 - p, abs=1 / 512)
    assert y.mean().item() == pytest.approx(1, abs=6 * (p / (1 - p)) ** 0.5 / 1000)  # exact but for the draw
    assert y.unique().tolist() == pytest.approx([0, 1 / kept])


def test_elements_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (Dropout(0.3)(torch.ones(400_000)) == 0).double() - 0.3
    for lag in (1, 2, 7, 8, 9, 64):  # eight bytes come from one number
        covariance = (dropped[lag:] * dropped[:-lag]).mean() / (0.3 * 0.7)
        assert abs(covariance) < 5 / 400_000**0.5, lag
    rows = dropped.view(-1, 8).mean(0)
    assert rows.abs().max() < 0.012  # no byte of the eight is special


def test_a_seed_gives_the_same_mask_and_the_next_call_another():
    layer, x = Dropout(0.5), torch.ones(1001)
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first) and not torch.equal(first, second)


def test_evaluation_and_zero_leave_everything_as_it_is():
    x = torch.randn(10)
    assert torch.equal(Dropout(0.5).eval()(x), x) and torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.001)(x), x)  # the nearest multiple of 1/256
    assert torch.isfinite(Dropout(0.999)(x)).all()


def test_the_gradient_has_the_same_mask():
    torch.manual_seed(0)
    x = torch.randn(500, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.2)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())
