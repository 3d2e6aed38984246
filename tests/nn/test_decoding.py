from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tsformer.losses import masked_mean
from tsformer.nn.decoding import forecast, rollout, training_outputs

CASES = [
    dict(),
    dict(channel_mixing="joint", n_channels=3),
    dict(norm_first=False, activation="relu"),
    dict(quantiles=(0.1, 0.5, 0.9)),
    dict(calendar_sizes=(24,)),
    dict(patch_length=1, context_length=12),
]


def exact(dtype):
    return dict(atol=1e-10 if dtype == torch.float64 else 1e-5, rtol=0)


def recompute(model, memory, n_patches):
    """Free-running without a cache: decode the whole prefix again for every patch."""
    patches, flags = memory.start, memory.start_missing
    for _ in range(n_patches):
        windows = model.windows_after(memory.window, patches[:, 1:], flags[:, 1:])
        outputs = model.output(model.decode(patches, flags, memory), memory, windows)
        patches = torch.cat([patches, model.head.point(outputs[:, -1:])], 1)
        flags = torch.cat([flags, torch.zeros_like(flags[:, :1])], 1)
    return outputs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("changes", CASES, ids=str)
def test_cached_is_full_recomputation(make_model, make_batch, position, changes, dtype):
    model = make_model(positional_encoding=position, **changes).to(dtype)
    batch = make_batch(context=model.config.context_length, calendar=bool(model.config.calendar_sizes))
    n = 24 // model.config.patch_length
    with torch.no_grad():
        memory = model.encode(batch, n)
        torch.testing.assert_close(rollout(model, memory, n), recompute(model, memory, n), **exact(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("changes", CASES, ids=str)
def test_cached_is_teacher_forced_on_the_same_values(make_model, make_batch, position, changes, dtype):
    model = make_model(positional_encoding=position, **changes).to(dtype)
    batch = make_batch(context=model.config.context_length, calendar=bool(model.config.calendar_sizes))
    with torch.no_grad():
        memory = model.encode(batch, 24 // model.config.patch_length)
        truth = model.target_patches(batch, memory.scale)
        keep = torch.ones(*truth[0].shape[:2], 1, dtype=torch.bool)
        cached = rollout(model, memory, keep.shape[1], given=truth, keep=keep)
        torch.testing.assert_close(cached, model(batch), **exact(dtype))


def test_longer_horizon_leaves_the_first_steps_alone(make_model, make_batch, position):
    model, batch = make_model(positional_encoding=position).double(), make_batch()
    short, long = forecast(model, batch, 10), forecast(model, batch, 48)
    torch.testing.assert_close(short, long[:, :10], atol=1e-12, rtol=0)


def test_calls_do_not_see_each_others_cache(make_model, make_batch, position):
    model = make_model(positional_encoding=position).double()
    one, two = make_batch(seed=1), make_batch(seed=2)
    alone = forecast(model, one, 24)
    forecast(model, two, 24)
    torch.testing.assert_close(forecast(model, one, 24), alone, atol=0, rtol=0)


def test_a_window_is_the_same_alone_and_in_a_batch(make_model, make_batch, position):
    model, batch = make_model(positional_encoding=position).double(), make_batch(windows=4)
    together = forecast(model, batch, 24)
    for i in range(4):
        alone = type(batch)(*(f[i : i + 1] if isinstance(f, torch.Tensor) else f for f in batch))
        torch.testing.assert_close(forecast(model, alone, 24), together[i : i + 1])


def test_the_future_is_never_seen(make_model, make_batch, position):
    model, batch = make_model(positional_encoding=position), make_batch()
    other = batch._replace(target=batch.target + 100, target_mask=~batch.target_mask)
    torch.testing.assert_close(forecast(model, batch, 24), forecast(model, other, 24), atol=0, rtol=0)


def test_decoder_is_causal(make_model, make_batch, position):
    model, batch = make_model(positional_encoding=position).double(), make_batch(missing=0)
    changed = batch.target.clone()
    changed[:, 8:16] += 5  # the second patch of the target: an input of the third output and later
    with torch.no_grad():
        before, after = model(batch), model(batch._replace(target=changed))
    torch.testing.assert_close(before[:, :2], after[:, :2], atol=0, rtol=0)
    assert not torch.allclose(before[:, 2], after[:, 2])


def test_learned_positions_end(make_model, make_batch):
    model = make_model(positional_encoding="learned")
    assert forecast(model, make_batch(), 48).shape == (3, 48, 3)
    with pytest.raises(ValueError, match="rotary"):
        forecast(model, make_batch(), 49)


@pytest.mark.parametrize("kind", ["rotary", "sinusoidal", "none"])
def test_other_positions_do_not(make_model, make_batch, kind):
    assert forecast(make_model(positional_encoding=kind), make_batch(), 500).isfinite().all()


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_free_running_on_detached_patches_has_the_values_of_the_rollout(make_model, make_batch, changes):
    model = make_model(dropout=0.0, **changes).double()
    batch = make_batch(context=model.config.context_length, calendar=bool(model.config.calendar_sizes))
    detached, memory = training_outputs(model, batch, teacher_forcing=0.0, detach=True)
    through, _ = training_outputs(model, batch, teacher_forcing=0.0, detach=False)
    expected = rollout(model, memory, detached.shape[1])
    torch.testing.assert_close(detached, expected)
    torch.testing.assert_close(through, expected)


def test_the_gradient_stops_at_fed_patches_only_when_asked(make_model, make_batch):
    model, batch = make_model(dropout=0.0).double(), make_batch()
    gradients = []
    for detach in (True, False):
        model.zero_grad()
        outputs, _ = training_outputs(model, batch, teacher_forcing=0.0, detach=detach)
        # Without feedback of the gradient, the last patch reaches the head's weight through its own state alone:
        # one state a row. With it, the weight is reached through the patches fed as well.
        outputs[:, -1].sum().backward()
        gradients.append(model.head.projection.weight.grad.clone())
    assert not torch.allclose(*gradients)
    with torch.no_grad():
        memory = model.encode(batch, 3)
        inputs = torch.cat([memory.start, model.head.point(rollout(model, memory, 2))], 1)
        state = model.decode(inputs, torch.cat([memory.start_missing, torch.zeros_like(inputs[:, 1:])], 1), memory)
    torch.testing.assert_close(gradients[0], state[:, -1].sum(0).expand_as(gradients[0]))


def test_teacher_forcing_one_is_the_models_forward(make_model, make_batch):
    model, batch = make_model(dropout=0.0), make_batch()
    outputs, _ = training_outputs(model, batch, teacher_forcing=1.0, detach=True)
    torch.testing.assert_close(outputs, model(batch))


def test_scheduled_sampling_feeds_both(make_model, make_batch):
    model, batch = make_model(dropout=0.0).double(), make_batch(windows=20)
    torch.manual_seed(1)
    mixed, memory = training_outputs(model, batch, teacher_forcing=0.5, detach=True)
    forced, free = model(batch), rollout(model, memory, 3)
    same_as_forced = (mixed[:, 1] - forced[:, 1]).abs().amax(1) < 1e-9
    same_as_free = (mixed[:, 1] - free[:, 1]).abs().amax(1) < 1e-9
    assert (same_as_forced ^ same_as_free).all()
    assert 0.3 < same_as_forced.double().mean() < 0.7


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_given_values_are_fed_as_the_truth_is(make_model, make_batch, changes):
    model = make_model(**changes).double()
    batch = make_batch(context=model.config.context_length, calendar=bool(model.config.calendar_sizes), missing=0)
    with torch.no_grad():
        memory = model.encode(batch, 24 // model.config.patch_length)
        forced = memory.scale.restore(model.patching.join(model.head.point(model(batch)), 3))  # teacher-forced
    free = forecast(model, batch, 24)
    given = batch.target.clone()
    given[:, 16:] = torch.nan
    values = forecast(model, batch, 24, given)
    median = values if values.ndim == 3 else values[..., 1]
    torch.testing.assert_close(median[:, :16], batch.target[:, :16], atol=0, rtol=0)
    step = slice(16, 16 + min(8, model.config.patch_length))  # the first patch that follows from given ones alone
    torch.testing.assert_close(median[:, step], forced[:, step])
    torch.testing.assert_close(forecast(model, batch, 24, torch.full_like(given, torch.nan)), free)


# ------------------------------------------------------------------ gaps, and asking a device about them


class NoQuestions(TorchDispatchMode):
    """Raise where Python looks at a value of a tensor, for which a GPU would have to stop."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


MODES = [(1.0, True), (0.0, True), (0.5, True), (0.5, False)]


@pytest.mark.parametrize(("teacher_forcing", "detach"), MODES)
def test_a_batch_that_is_known_to_be_complete_gives_the_same_bits(make_model, make_batch, teacher_forcing, detach):
    model, batch = make_model().train(), make_batch(missing=0)
    results = []
    for known in (batch, batch._replace(is_context_complete=True, is_target_complete=True)):
        torch.manual_seed(1)
        outputs, _ = training_outputs(model, known, teacher_forcing=teacher_forcing, detach=detach)
        results.append([outputs, *torch.autograd.grad(outputs.sum(), list(model.parameters()), allow_unused=True)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True) if a is not None)


@pytest.mark.parametrize(("teacher_forcing", "detach"), MODES)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_training_step_asks_the_device_nothing(make_model, make_batch, monkeypatch, teacher_forcing, detach, missing):
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: True)  # where asking is no cheaper than on a GPU
    model = make_model(known_sizes=(0, 3), calendar_sizes=(24,)).train()
    batch = make_batch(missing=missing, calendar=True)
    batch = batch._replace(known=torch.ones(3, 64, 2), is_context_complete=not missing, is_target_complete=not missing)
    with NoQuestions():
        outputs, memory = training_outputs(model, batch, teacher_forcing=teacher_forcing, detach=detach)
        truth, flags = model.target_patches(batch, memory.scale)
        loss = masked_mean(model.head.loss(outputs, truth, torch.ones_like(truth)), flags == 0)
    with pytest.raises(AssertionError), NoQuestions():
        bool(loss > 0)


def test_a_forecast_asks_the_device_nothing(make_model, make_batch):
    model, batch = make_model(), make_batch(missing=0)._replace(is_context_complete=True)
    with NoQuestions():
        forecast(model, batch, 24)
        forecast(model, batch, 24, given=torch.full((3, 24, 3), torch.nan, dtype=torch.float64))
