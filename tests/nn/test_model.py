from __future__ import annotations

import pytest
import torch

from tsformer.config import ModelConfig
from tsformer.nn.decoding import forecast, training_outputs
from tsformer.nn.heads import QuantileHead
from tsformer.nn.model import INITIAL_OUTPUT, ForecastTransformer


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("channel_mixing", ["independent", "joint"])
def test_scale_of_the_first_outputs(make_batch, norm_first, channel_mixing):
    torch.manual_seed(0)
    config = ModelConfig(
        context_length=40,
        patch_length=8,
        season_length=8,
        max_decoder_length=24,
        norm_first=norm_first,
        channel_mixing=channel_mixing,
        n_channels=3 if channel_mixing == "joint" else 1,
    )
    outputs = ForecastTransformer(config).eval()(make_batch(windows=64))
    assert 0.7 * INITIAL_OUTPUT < outputs.std() < 1.4 * INITIAL_OUTPUT


def test_order_matters(make_model, make_batch, position):
    """Each encoding but "none" tells the second patch of the context from the third."""
    model, batch = make_model(positional_encoding=position, linear_path=False).double(), make_batch(missing=0)
    x = batch.context.clone()
    x[:, 8:16], x[:, 16:24] = batch.context[:, 16:24], batch.context[:, 8:16]
    same = torch.allclose(forecast(model, batch, 8), forecast(model, batch._replace(context=x), 8))
    assert same == (position == "none")


def test_values_behind_the_mask_do_not_matter(make_model, make_batch):
    model, batch = make_model(), make_batch(missing=0.3)
    rubbish = torch.where(batch.context_mask, batch.context, torch.full_like(batch.context, 1e6))
    torch.testing.assert_close(
        forecast(model, batch, 24), forecast(model, batch._replace(context=rubbish), 24), atol=0, rtol=0
    )


def test_a_missing_value_is_no_zero(make_model, make_batch):
    model, batch = make_model().double(), make_batch(missing=0)
    mask = batch.context_mask.clone()
    mask[:, -3] = False
    zero = torch.where(mask, batch.context, 0.0)
    missing = forecast(model, batch._replace(context=zero, context_mask=mask), 24)
    assert not torch.allclose(missing, forecast(model, batch._replace(context=zero), 24))


@pytest.mark.parametrize("kind", ["rotary", "none"])
def test_a_padded_context_is_a_shorter_context(make_model, make_batch, kind):
    """Under relative positions, steps before the beginning of the series are as good as not there."""
    model, batch = make_model(positional_encoding=kind).double(), make_batch(missing=0)
    mask = batch.context_mask.clone()
    mask[:, :16] = False
    padded = batch._replace(context=torch.where(mask, batch.context, 0.0), context_mask=mask)
    short = batch._replace(context=batch.context[:, 16:], context_mask=batch.context_mask[:, 16:])
    torch.testing.assert_close(forecast(model, padded, 24), forecast(model, short, 24))


def test_a_context_that_is_no_whole_number_of_patches(make_model, make_batch):
    model = make_model(context_length=37).double()
    assert model.config.n_context_patches == 5
    batch = make_batch(context=37)
    padded = batch._replace(
        context=torch.nn.functional.pad(batch.context, (0, 0, 3, 0)),
        context_mask=torch.nn.functional.pad(batch.context_mask, (0, 0, 3, 0)),
    )
    torch.testing.assert_close(forecast(model, batch, 20), forecast(model, padded, 20))


@pytest.mark.parametrize("scaling", ["standard", "last_season", "last_value"])
@pytest.mark.parametrize(("a", "b"), [(3.0, 7.0), (1e9, 0.0), (1e-6, -5.0)])
def test_scale_equivariance(make_model, make_batch, scaling, a, b):
    model, batch = make_model(scaling=scaling).double(), make_batch(missing=0.2)
    moved = batch._replace(
        context=torch.where(batch.context_mask, a * batch.context + b, 0.0),
        series_mean=a * batch.series_mean + b,
        series_deviation=a * batch.series_deviation,
    )
    expected = a * forecast(model, batch, 24) + b
    torch.testing.assert_close(forecast(model, moved, 24), expected, rtol=1e-6, atol=1e-6 * a)


def test_all_missing_context_is_forecast_from_the_training_scale(make_model, make_batch):
    model, batch = make_model(), make_batch()
    nothing = batch._replace(context=torch.zeros_like(batch.context), context_mask=torch.zeros_like(batch.context_mask))
    values = forecast(model, nothing, 24)
    assert values.isfinite().all()
    distance = (values - batch.series_mean.unsqueeze(1)).abs() / batch.series_deviation.unsqueeze(1)
    assert distance.max() < 20


def test_quantiles_never_cross(make_model, make_batch):
    levels = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)
    model = make_model(quantiles=levels)
    values = forecast(model, make_batch(windows=50), 24)
    assert values.shape == (50, 24, 3, 7)
    assert (values.diff(dim=-1) >= 0).all()
    assert isinstance(model.head, QuantileHead) and model.head.point(values).equal(values[..., 3])


@pytest.mark.parametrize(
    ("loss", "teacher_forcing"), [("mse", 0.0), ("mse", 1.0), ("mae", 0.0), ("huber", 0.0), ("quantile", 0.0)]
)
def test_overfits_one_batch(make_batch, loss, teacher_forcing):
    torch.manual_seed(0)
    quantiles = (0.4, 0.5, 0.6) if loss == "quantile" else ()
    config = ModelConfig(
        context_length=16, patch_length=4, season_length=4, max_decoder_length=8, dropout=0.0, quantiles=quantiles
    )
    model = ForecastTransformer(config, loss if loss != "quantile" else "mae")
    batch = make_batch(context=16, horizon=8, windows=4, missing=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(80):
        outputs, memory = training_outputs(model, batch, teacher_forcing=teacher_forcing, detach=True)
        truth, _ = model.target_patches(batch, memory.scale)
        value = model.head.loss(outputs, truth, torch.ones(())).mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses[-1] < 0.25 * losses[0]


def test_every_weight_learns(make_model, make_batch):
    model = make_model(positional_encoding="learned", calendar_sizes=(24,)).train()
    outputs, _ = training_outputs(model, make_batch(calendar=True), teacher_forcing=0.0, detach=True)
    outputs.square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not silent


def test_the_calendar_changes_the_forecast(make_model, make_batch):
    model, batch = make_model(calendar_sizes=(24,)).double(), make_batch(calendar=True)
    shifted = batch._replace(calendar=(batch.calendar + 5) % 24)
    assert not torch.allclose(forecast(model, batch, 24), forecast(model, shifted, 24))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(d_model=10, nhead=4), "multiple of nhead"),
        (dict(d_model=12, nhead=4), "even"),
        (dict(d_model=15, nhead=5, positional_encoding="sinusoidal"), "even d_model"),
        (dict(patch_length=64), "longer than context_length=40"),
        (dict(scaling="minmax"), "'standard', 'last_season'"),
        (dict(dropout=1.0), "dropout"),
        (dict(num_encoder_layers=0), "at least 1"),
    ],
)
def test_impossible_architectures_are_refused(changes, message):
    lengths = dict(context_length=40, patch_length=8, season_length=8, max_decoder_length=24)
    with pytest.raises(ValueError, match=message):
        ModelConfig(**(lengths | changes))


def test_a_whole_number_is_asked_for():
    with pytest.raises(TypeError, match="context_length must be a whole number"):
        ModelConfig(context_length=40.5, patch_length=8, season_length=8, max_decoder_length=24)  # type: ignore[arg-type]
