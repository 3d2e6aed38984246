"""Sample paths through the cache: what they depend on, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special

from tsformer.nn.sampling import SUMMARY_PATHS, fit_copula, sample, summarise

HEADS = [
    dict(distribution="normal"),
    dict(distribution="student_t"),
    dict(distribution="log_normal"),
    dict(distribution="negative_binomial"),
    dict(quantiles=(0.1, 0.3, 0.5, 0.7, 0.9)),
]
CASES = [
    *HEADS,
    dict(distribution="normal", channel_mixing="joint", n_channels=3),
    dict(distribution="normal", norm_first=False, activation="relu"),
    dict(distribution="normal", calendar_sizes=(24,)),
    dict(distribution="normal", patch_length=1, context_length=12, max_decoder_length=24),
]


def seeds(batch, seed=0):
    return np.array([[seed, i] for i in range(len(batch.context))])


def dependent(model):
    """Give the head a dependence inside the patch."""
    width = len(model.head.copula)
    correlation = 0.8 ** (torch.arange(width)[:, None] - torch.arange(width)).abs().double()
    model.head.copula.copy_(torch.linalg.cholesky(correlation))
    return model


@pytest.fixture
def case(request, make_model, make_batch):
    def make(changes, **settings):
        model = dependent(make_model(**(changes | settings))).double()
        batch = make_batch(context=model.config.context_length, calendar=bool(model.config.calendar_sizes))
        return model, batch

    return make


def recompute(model, batch, horizon, n_paths, seed_rows):
    """Without a cache and one path at a time: decode the whole prefix again for every patch."""
    config, channels = model.config, batch.context.shape[2]
    n_patches, width = -(-horizon // config.patch_length), len(model.head.copula)
    generators = [np.random.default_rng([*row, 0]) for row in seed_rows]
    rows = channels if config.channel_mixing == "independent" else 1
    memory, drawn = model.encode(batch, n_patches), []
    for _ in range(n_patches):
        eps = np.stack([g.standard_normal((rows, 50, width), dtype=np.float32) for g in generators])
        drawn.append(torch.from_numpy(eps).flatten(0, 1).double() @ model.head.copula.T)
    paths = []
    for s in range(n_paths):
        patches, flags = memory.start, memory.start_missing
        for z in drawn:
            windows = model.windows_after(memory.window, patches[:, 1:], None)
            output = model.output(model.decode(patches, flags, memory), memory, windows)[:, -1:]
            patches = torch.cat([patches, model.head.sample(output, z[:, s : s + 1])], 1)
            flags = torch.cat([flags, torch.zeros_like(flags[:, :1])], 1)
        scaled = model.patching.join(patches[:, 1:], channels)[:, :horizon]
        paths.append(memory.scale.restore(scaled))
    paths = torch.stack(paths, 1)
    return paths.round() if model.head.counts else paths


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_cached_is_full_recomputation(case, changes):
    model, batch = case(changes)
    with torch.no_grad():
        expected = recompute(model, batch, 22, 3, seeds(batch))
    torch.testing.assert_close(sample(model, batch, 22, 3, seeds(batch)), expected, rtol=1e-8, atol=1e-8)


def test_every_position_encoding(case, position):
    model, batch = case(dict(distribution="normal"), positional_encoding=position)
    with torch.no_grad():
        expected = recompute(model, batch, 24, 2, seeds(batch))
    torch.testing.assert_close(sample(model, batch, 24, 2, seeds(batch)), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_a_window_has_the_same_paths_alone_and_in_a_batch(case, changes):
    model, batch = case(changes)
    together = sample(model, batch, 20, 60, seeds(batch))
    assert together.shape == (3, 60, 20, 3) and together.isfinite().all()
    for i in range(3):
        alone = type(batch)(*(f[i : i + 1] if isinstance(f, torch.Tensor) else f for f in batch))
        torch.testing.assert_close(sample(model, alone, 20, 60, seeds(batch)[i : i + 1]), together[i : i + 1])


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_fewer_paths_and_steps_are_the_beginning_of_more(case, changes):
    model, batch = case(changes)
    many = sample(model, batch, 40, 120, seeds(batch))
    torch.testing.assert_close(sample(model, batch, 13, 55, seeds(batch)), many[:, :55, :13])
    torch.testing.assert_close(sample(model, batch, 3, 1, seeds(batch)), many[:, :1, :3])
    assert not torch.equal(many[:, :50], many[:, 50:100])


def test_seeds(case):
    model, batch = case(dict(distribution="normal"))
    one = sample(model, batch, 8, 20, seeds(batch, 1))
    assert torch.equal(one, sample(model, batch, 8, 20, seeds(batch, 1)))
    assert not torch.equal(one, sample(model, batch, 8, 20, seeds(batch, 2)))


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_temperature_zero_is_the_path_of_medians(case, changes):
    model, batch = case(changes)
    still = sample(model, batch, 24, 3, seeds(batch), temperature=0.0)
    assert torch.equal(still[:, :1].expand_as(still), still)
    assert torch.equal(still, sample(model, batch, 24, 3, seeds(batch, 9), temperature=0.0))
    if "quantiles" in changes:
        from tsformer.nn.decoding import forecast

        torch.testing.assert_close(still[:, 0], forecast(model, batch, 24)[..., 2], atol=1e-5, rtol=1e-5)


def test_temperature_is_a_factor_of_the_spread(case):
    model, batch = case(dict(distribution="normal"))
    wide, plain = (sample(model, batch, 8, 50, seeds(batch), temperature=t).std(1) for t in (2.0, 1.0))
    torch.testing.assert_close(wide, 2 * plain)


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_top_p_keeps_the_middle(case, changes):
    model, batch = case(changes)
    paths = sample(model, batch, 8, 400, seeds(batch), top_p=0.6)
    with torch.no_grad():
        memory = model.encode(batch, 1)
        output = model.output(model.decode(memory.start, memory.start_missing, memory), memory, memory.window)
        ends = [
            memory.scale.restore(model.patching.join(model.head.sample(output, z.expand(output.shape[:-1])), 3))
            for z in torch.tensor([special.ndtri(0.2), special.ndtri(0.8)], dtype=torch.float64)
        ]
    low, high = (end[:, None] for end in ends)
    assert (paths >= low - 1e-6).all() and (paths <= high + 1e-6).all()
    if not model.head.counts:
        assert ((paths - low) < 0.1 * (high - low)).any() and ((high - paths) < 0.1 * (high - low)).any()


@pytest.mark.parametrize("changes", HEADS[:4], ids=str)
def test_the_first_patch_of_the_paths_is_the_heads_own(case, changes):
    model, batch = case(changes)
    levels = (0.1, 0.5, 0.9)
    exact = summarise(model, batch, 8, levels, seeds(batch))  # (B, 8, C, 4)
    paths = sample(model, batch, 8, 4000, seeds(batch))
    for i, level in enumerate(levels):
        at_most = (paths <= exact[:, None, ..., 1 + i]).double().mean(1)
        below = (paths < exact[:, None, ..., 1 + i]).double().mean(1)
        assert (at_most > level - 0.03).all() and (below < level + 0.03).all()


@pytest.mark.parametrize("changes", HEADS[:4], ids=str)
def test_summaries_do_not_depend_on_the_horizon_and_follow_the_paths(case, changes):
    model, batch = case(changes)
    levels = (0.1, 0.5, 0.9)
    long = summarise(model, batch, 40, levels, seeds(batch))
    for horizon in (5, 8, 20):
        torch.testing.assert_close(summarise(model, batch, horizon, levels, seeds(batch)), long[:, :horizon])
    paths = sample(model, batch, 40, SUMMARY_PATHS, seeds(batch))[:, :, 8:]
    torch.testing.assert_close(long[:, 8:, ..., 0], paths.mean(1), rtol=1e-6, atol=1e-6)
    share = (paths <= long[:, None, 8:, :, 3]).double().mean(1)
    assert (share >= 0.89).all() and (model.head.counts or (share <= 0.91).all())
    if model.head.counts:
        assert torch.equal(long[..., 1:], long[..., 1:].round()) and not torch.equal(long, long.round())


def test_the_encoder_reads_once_for_all_paths(case, monkeypatch):
    model, batch = case(dict(distribution="normal"))
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append("encoder"))
    model.decoder.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    sample(model, batch, 16, 260, seeds(batch))
    assert calls == ["encoder", 9, 9 * 200, 9 * 60]  # 9 rows: one token for all paths, then one a path


@pytest.mark.parametrize("changes", HEADS, ids=str)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_copula_is_found_again(case, make_batch, changes, missing):
    """Of data drawn from the model with a dependence inside the patch."""
    model, batch = case(changes, patch_length=4)
    batch = make_batch(windows=1000, context=40, horizon=4, channels=1, seed=1)
    truth = model.head.copula.clone()
    drawn = sample(model, batch, 4, 1, seeds(batch))[:, 0]
    mask = torch.rand(drawn.shape, generator=torch.Generator().manual_seed(0)) >= missing
    batch = batch._replace(target=torch.where(mask, drawn, 0.0), target_mask=mask)
    fit_copula(model, [batch])
    found = model.head.copula @ model.head.copula.T
    atol = 0.2 if model.head.counts else 0.1  # of few counts little of it is to be seen
    torch.testing.assert_close(found, truth @ truth.T, atol=atol, rtol=0)
    assert torch.allclose(found.diagonal(), torch.ones(4, dtype=torch.float64))


def test_few_windows_give_hardly_any_dependence(case, make_batch):
    model, _ = case(dict(distribution="normal"))
    fit_copula(model, [make_batch(windows=1, horizon=8, channels=1)])
    found = model.head.copula @ model.head.copula.T
    assert (found - torch.eye(8)).abs().max() <= 1 / 9 + 1e-6
