from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer import TransformerForecaster
from tsformer.batch import Batch
from tsformer.training.augmentation import mixed


def batch(n=16, channels=2, seed=0) -> Batch:
    """Walks of levels and sizes far apart; 20 steps of context, 10 of target."""
    rng = np.random.default_rng(seed)
    level, size = 1e6 * rng.normal(size=(n, 1, channels)), 10.0 ** rng.integers(-3, 4, (n, 1, channels))
    x = torch.from_numpy(level + size * rng.normal(size=(n, 30, channels)).cumsum(1))
    everywhere = torch.ones_like(x, dtype=torch.bool)
    return Batch(x[:, :20], everywhere[:, :20], x[:, 20:], everywhere[:, 20:], torch.from_numpy(level[:, 0]), x.std(1))


def in_units(one: Batch) -> np.ndarray:
    """Context and target (B, T, C) around the series' means, in deviations."""
    values = torch.cat([one.context, one.target], 1) - one.series_mean.unsqueeze(1)
    return (values / one.series_deviation.unsqueeze(1)).numpy()


@pytest.mark.parametrize("by_channel", [True, False])
def test_a_mixed_window_is_a_mean_of_two_in_all_its_parts(by_channel):
    torch.manual_seed(0)
    one = batch()
    z, together = in_units(one), in_units(mixed(one, 0.5, by_channel=by_channel))
    if by_channel:  # each is a series of its own
        z, together = (x.transpose(0, 2, 1).reshape(-1, 30, 1) for x in (z, together))
    shares = []
    for mine, mix in zip(z, together, strict=True):
        best = (np.inf, 0.0)
        for other in z:
            apart = (mine - other).ravel()
            share = float((mix - other).ravel() @ apart / (apart @ apart)) if apart.any() else 1.0
            best = min(best, (np.abs(share * mine + (1 - share) * other - mix).max(), share))
        assert best[0] < 1e-6
        shares.append(best[1])
    assert 0 <= min(shares) < 0.2 and 0.8 < max(shares) <= 1 + 1e-6


def test_shares_follow_the_beta_distribution():
    torch.manual_seed(0)
    one = batch(n=4000, channels=1)
    constant = one._replace(context=one.context * 0 + one.series_mean.unsqueeze(1))
    constant.context[::2] += constant.series_deviation[::2].unsqueeze(1)  # at 1 deviation, the others at 0
    heights = in_units(mixed(constant, 2.0, by_channel=True))[:, 0, 0]
    between = heights[(heights > 1e-3) & (heights < 1 - 1e-3)]  # mixed with one of the other kind: half of them
    assert 0.45 < len(between) / 4000 < 0.55
    assert between.mean() == pytest.approx(0.5, abs=0.02) and between.var() == pytest.approx(1 / 20, rel=0.1)


def test_a_window_with_values_that_the_other_lacks_stays_as_it_is():
    torch.manual_seed(0)
    one = batch(n=64, channels=1)
    has_gap = torch.arange(64) % 2 == 0
    mask = one.context_mask.clone()
    mask[has_gap, :5] = False
    one = one._replace(context=torch.where(mask, one.context, 0.0), context_mask=mask)
    other = mixed(one, 1.0, by_channel=True)
    assert (other.context[~mask] == 0).all() and other.context_mask is one.context_mask
    is_same = (other.context == one.context).all((1, 2)) & (other.target == one.target).all((1, 2))
    assert is_same[~has_gap].float().mean() > 0.3  # those that met one with a gap
    assert is_same[has_gap].float().mean() < 0.1


def test_constant_series_do_not_take_part():
    torch.manual_seed(0)
    one = batch(n=2)
    one = one._replace(series_deviation=torch.zeros_like(one.series_deviation))
    other = mixed(one, 0.5, by_channel=True)
    assert torch.equal(other.context, one.context) and torch.equal(other.target, one.target)


def test_covariates_that_would_no_longer_fit_are_an_error():
    stamps = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame({"time": stamps, "y": np.arange(60) % 7 * 1.0, "price": np.arange(60) * 1.0})
    chosen = dict(time_col="time", target_cols=["y"], mixup=0.5)
    with pytest.raises(ValueError, match=r"mixup=0.5 .*covariates \(price\).*set mixup=0"):
        TransformerForecaster(7, observed=["price"], **chosen).fit(frame)
    with pytest.raises(ValueError, match=r"mixup=0.5 .*timestamp_encoding='calendar'"):
        TransformerForecaster(7, timestamp_encoding="calendar", **chosen).fit(frame[["time", "y"]])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (dict(mixup=-0.1), "mixup must be at least 0"),
        (dict(mixup=True), "mixup must be a number"),
        (dict(mixup=0.5, loss="quantile"), "mixup=0.5 is for losses of a point"),
        (dict(mixup=0.5, loss="normal"), "mixup=0.5 is for losses of a point"),
    ],
    ids=str,
)
def test_options_that_cannot_be(option, words):
    with pytest.raises((ValueError, TypeError), match=words):
        TransformerForecaster(7, **option).fit(np.arange(60) % 7 * 1.0)
