"""Covariates in the network: where they are seen, and where not."""

import pytest
import torch

from tsformer.nn.covariates import CovariateFeatures
from tsformer.nn.decoding import forecast, training_outputs

SIZES = dict(known_sizes=(0, 3), observed_sizes=(0,), static_sizes=(2,), n_targets=3)


@pytest.fixture
def batch(make_batch):
    batch = make_batch(windows=3, context=40, horizon=24, channels=3)
    g = torch.Generator().manual_seed(1)
    numbers = torch.randn(3, 64, 1, generator=g)
    levels = torch.randint(0, 3, (3, 64, 1), generator=g).float()
    return batch._replace(
        known=torch.cat([numbers, levels], -1),
        observed=torch.randn(3, 40, 1, generator=g),
        static=torch.tensor([[0.0], [1.0], [torch.nan]]),
    )


def test_a_missing_covariate_is_the_mean_with_a_flag_and_an_untrained_level_is_as_good_as_missing():
    features = CovariateFeatures((0, 4))
    x = torch.tensor([[0.0, torch.nan], [torch.nan, 2.0]])
    out = features(x, torch.float32)
    assert out[:, :2].tolist() == [[0, 0], [0, 1]]  # the number, and whether it is missing
    assert torch.equal(out[0, 2:], out[1, 2:])


def test_a_new_path_has_no_effect(make_batch, batch):
    from tsformer.config import ModelConfig
    from tsformer.nn.model import ForecastTransformer

    config = ModelConfig(context_length=40, patch_length=8, season_length=8, max_decoder_length=48, **SIZES)
    effect = ForecastTransformer(config).covariates.effect(batch, torch.float32)
    assert effect.shape == (3, 64, 3) and not effect.any()


@pytest.mark.parametrize("mixing", ["independent", "joint"])
def test_every_kind_changes_the_forecast(make_model, batch, mixing):
    model = make_model(channel_mixing=mixing, n_channels=3 if mixing == "joint" else 1, **SIZES)
    base = forecast(model, batch, 24)
    assert base.shape == (3, 24, 3) and base.isfinite().all()
    for name in ("known", "observed", "static"):
        other = batch._replace(**{name: torch.full_like(getattr(batch, name), 1.0)})
        assert (forecast(model, other, 24) != base).any(), name


def test_known_covariates_work_in_their_own_patch_and_those_behind_it(make_model, batch):
    model = make_model(**SIZES)
    known = batch.known.clone()
    known[:, 40 + 8 : 40 + 16, 0] += 1  # the second patch to forecast
    base, other = forecast(model, batch, 24), forecast(model, batch._replace(known=known), 24)
    assert torch.equal(base[:, :8], other[:, :8])
    assert (base[:, 8:16] != other[:, 8:16]).all()


def test_the_cached_forecast_is_the_parallel_one(make_model, batch):
    model = make_model(**SIZES)
    free = forecast(model, batch, 24)
    fed = batch._replace(target=free, target_mask=torch.ones_like(batch.target_mask))
    outputs, memory = training_outputs(model, fed, teacher_forcing=1.0, detach=True)
    parallel = memory.scale.restore(model.patching.join(outputs, 3))
    torch.testing.assert_close(parallel, free, rtol=1e-4, atol=1e-4)


def test_scale_and_shift_of_the_data_pass_through(make_model, batch):
    model = make_model(**SIZES)

    def forecast_of(a, b):
        moved = batch._replace(
            context=torch.where(batch.context_mask, a * batch.context + b, 0.0),
            series_mean=a * batch.series_mean + b,
            series_deviation=a * batch.series_deviation,
        )
        return forecast(model, moved, 24)

    torch.testing.assert_close(forecast_of(3.0, 50.0), 3 * forecast_of(1.0, 0.0) + 50, rtol=1e-5, atol=1e-4)


def test_the_gradient_is_finite_where_nothing_varies(make_model, batch):
    flat = batch._replace(
        context=torch.ones_like(batch.context),
        target=torch.ones_like(batch.target),
        series_deviation=torch.zeros_like(batch.series_deviation),
    )
    model = make_model(**SIZES).train()
    outputs, memory = training_outputs(model, flat, teacher_forcing=0.0, detach=True)
    memory.scale.restore(model.patching.join(outputs, 3)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
