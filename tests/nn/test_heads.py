"""Each head's likelihood, quantile function and mean, against torch.distributions and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import distributions as known

from tsformer.config import ModelConfig, TrainingConfig
from tsformer.nn.distributions import HEADS
from tsformer.nn.heads import QuantileHead, build_head

NAMES = tuple(HEADS)
ONE = torch.ones((), dtype=torch.float64)


def head_and_output(name, n=2000, unit=10.0, seed=0):
    """A head, and parameters (n, W, K) well spread."""
    torch.manual_seed(seed)
    head = HEADS[name](8, 4).double()
    return head, head(
        3 * torch.randn(n, 8, dtype=torch.float64), torch.full((n, 4), unit, dtype=torch.float64)
    ).detach()


def reference(name, output):
    """The same distribution by torch; that of the count for the negative binomial."""
    a, b = output[..., 0], output[..., 1]
    if name == "normal":
        return known.Normal(a, b)
    if name == "student_t":
        return known.StudentT(output[..., 2], a, b)
    if name == "log_normal":
        return known.LogNormal(a, b)
    mean = a / output[..., 2]
    return known.NegativeBinomial(1 / b, logits=(mean * b).log())


def scipy_quantiles(name, output, level):
    a, b = output[..., 0].numpy(), output[..., 1].numpy()
    if name == "normal":
        return stats.norm.ppf(level, a, b)
    if name == "student_t":
        return stats.t.ppf(level, output[..., 2].numpy(), a, b)
    if name == "log_normal":
        return stats.lognorm.ppf(level, b, scale=np.exp(a))
    step = output[..., 2].numpy()
    return step * stats.nbinom.ppf(level, 1 / b, 1 / (1 + b * a / step))


@pytest.mark.parametrize("name", NAMES)
def test_likelihood_is_that_of_torch(name):
    head, output = head_and_output(name)
    torch.manual_seed(1)
    value = reference(name, output).sample()
    target = value * (output[..., 2] if head.counts else 1)
    torch.testing.assert_close(head.loss(output, target, ONE), -reference(name, output).log_prob(value))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.975, 1 - 1e-6])
def test_values_at_scores_are_quantiles(name, level):
    head, output = head_and_output(name)
    z = torch.full(output.shape[:-1], special.ndtri(level), dtype=torch.float64)
    np.testing.assert_allclose(head.sample(output, z), scipy_quantiles(name, output, level), rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_moments(name):
    head, output = head_and_output(name, n=1)
    if name == "student_t":
        output[..., 2] += 4  # or the variance has no variance
    if name == "log_normal":
        output[..., 1] = 0.5
    z = torch.randn(200_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values, truth = head.sample(output, z), reference(name, output)
    step = output[..., 2] if head.counts else 1
    torch.testing.assert_close(head.point(output), truth.mean * step)
    torch.testing.assert_close(
        values.mean(0), truth.mean[0] * step[0] if head.counts else truth.mean[0], rtol=0.05, atol=0.02
    )
    torch.testing.assert_close(values.std(0), (truth.stddev * step)[0], rtol=0.05, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_scores_undo_sampling(name):
    head, output = head_and_output(name)
    z = torch.randn(2000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = head.scores(output, head.sample(output, z), np.random.default_rng(0))
    if head.counts:  # somewhere between the neighbours, so that they are standard normal as a whole
        assert stats.kstest(scores.flatten().numpy(), "norm").pvalue > 0.01
    else:
        torch.testing.assert_close(scores, z, rtol=1e-6, atol=1e-6)


def test_scores_of_a_quantile_head_undo_sampling_and_hit_its_levels():
    torch.manual_seed(0)
    head = QuantileHead(8, 4, (0.1, 0.3, 0.5, 0.9)).double()
    output = head(torch.randn(500, 8, dtype=torch.float64))
    z = 2 * torch.randn(500, 4, dtype=torch.float64)
    torch.testing.assert_close(head.scores(output, head.sample(output, z), np.random.default_rng(0)), z)
    for i, level in enumerate(head.levels):
        at = torch.full((500, 4), special.ndtri(level), dtype=torch.float64)
        torch.testing.assert_close(head.sample(output, at), output[..., i], atol=1e-6, rtol=0)
    assert (head.sample(output, z + 0.1) > head.sample(output, z)).all()


def test_count_quantiles_of_large_means_and_extreme_levels():
    head = HEADS["negative_binomial"](8, 1).double()
    mean = torch.tensor([1e-3, 1.0, 70.0, 1e6], dtype=torch.float64)[:, None]
    for dispersion in (1e-4, 0.5, 3.0):
        output = torch.stack([mean, torch.full_like(mean, dispersion), torch.ones_like(mean)], -1)
        for z in (-20.0, -3.0, 0.0, 3.0, 6.0):
            values = head.sample(output, torch.full_like(mean, z))
            np.testing.assert_array_equal(
                values, scipy_quantiles("negative_binomial", output, special.ndtr(max(z, -8)))
            )
        assert head.sample(output, torch.full_like(mean, 50.0)).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_target_gives_no_nan_and_no_gradient_of_nan(name):
    head = HEADS[name](8, 4)
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    target, mask = torch.ones(5, 4), torch.ones(5, 4, dtype=torch.bool)
    target[0], mask[0] = 0.0, False
    errors = torch.where(mask, head.loss(head(x, torch.ones(5, 4)), target, torch.ones(())), 0.0)
    errors.sum().backward()
    assert errors.isfinite().all() and head.projection.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_states_give_full_precision_parameters(name):
    head = HEADS[name](8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head(torch.randn(3, 8), torch.ones(3, 4)).dtype == torch.float32


def test_student_t_has_a_variance():
    head, output = head_and_output("student_t")
    assert (output[..., 2] > 2).all()


def test_counts_know_the_scale_of_their_window():
    head = HEADS["negative_binomial"](8, 1)
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))[:1].expand(2, 8)
    output = head(x, torch.tensor([[1.0], [100.0]])).detach()
    assert output[0, 0, 0] == output[1, 0, 0] and output[1, 0, 2] == pytest.approx(0.01)
    assert head(x, torch.zeros(2, 1)).isfinite().all()


def test_configuration():
    lengths = dict(context_length=8, patch_length=2, season_length=2, max_decoder_length=4)
    assert ModelConfig(**lengths).scaling == ModelConfig(**lengths, distribution="normal").scaling == "last_season"
    for name in ("log_normal", "negative_binomial"):
        assert ModelConfig(**lengths, distribution=name).scaling == "mean_abs"
        assert ModelConfig(**lengths, distribution=name, scaling="none").scaling == "none"
        with pytest.raises(ValueError, match="scaling='standard' shifts.*'mean_abs', 'none'"):
            ModelConfig(**lengths, distribution=name, scaling="standard")
    with pytest.raises(ValueError, match="not both"):
        ModelConfig(**lengths, distribution="normal", quantiles=(0.5,))
    with pytest.raises(ValueError, match="distribution='cauchy' is not one of"):
        ModelConfig(**lengths, distribution="cauchy")
    for name in NAMES:
        assert isinstance(build_head(ModelConfig(**lengths, distribution=name), name), HEADS[name])
        assert TrainingConfig(loss=name).training_mode == "teacher_forcing"
        assert TrainingConfig(loss=name, training_mode="mixed").training_mode == "mixed"
    assert TrainingConfig().training_mode == TrainingConfig(loss="quantile").training_mode == "free_running"
