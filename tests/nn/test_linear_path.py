"""The linear path: what it sees before each patch, where it starts, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer import ModelConfig, TrainingConfig
from tsformer.nn.decoding import forecast, training_outputs
from tsformer.nn.linear_path import fill_gaps
from tsformer.training.optim import LINEAR_PATH_RATE, build_optimizer

HEADS = [dict(), dict(quantiles=(0.1, 0.5, 0.9)), dict(distribution="normal"), dict(distribution="student_t")]
JOINT = dict(channel_mixing="joint", n_channels=3)


def a_map(length: int = 40, patch: int = 8) -> np.ndarray:
    """From context to next patch, of columns that sum to 1."""
    weights = np.random.default_rng(0).normal(0, 0.02, (length, patch))
    weights[-1] += 1 - weights.sum(0)
    return weights


def rolled(context: torch.Tensor, weights: np.ndarray, horizon: int) -> torch.Tensor:
    """(B, L, C) continued by a map, patch by patch."""
    length, patch = weights.shape
    path = context.numpy()
    while path.shape[1] < length + horizon:
        path = np.concatenate([path, np.einsum("blc,lp->bpc", path[:, -length:], weights)], 1)
    return torch.from_numpy(path[:, length : length + horizon])


@pytest.mark.parametrize("mixing", [dict(), JOINT], ids=["independent", "joint"])
@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_a_network_starts_as_the_map_rolled_out(make_model, make_batch, changes, mixing):
    model, batch = make_model(**changes, **mixing).double(), make_batch(missing=0.0)
    model.start_from(a_map())
    values = forecast(model, batch, 20)
    point = values[..., 1] if changes.get("quantiles") else values
    torch.testing.assert_close(point, rolled(batch.context, a_map(), 20), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mixing", [dict(), JOINT], ids=["independent", "joint"])
def test_teacher_forcing_sees_the_true_past(make_model, make_batch, mixing):
    model, batch = make_model(**mixing).double(), make_batch(missing=0.0)
    model.start_from(a_map())
    with torch.no_grad():
        outputs, memory = training_outputs(model, batch, teacher_forcing=1.0, detach=True)
    found = memory.scale.restore(model.patching.join(outputs, 3))
    whole = torch.cat([batch.context, batch.target], 1)
    for begin in (0, 8, 16):
        expected = rolled(whole[:, begin : begin + 40], a_map(), 8)
        torch.testing.assert_close(found[:, begin : begin + 8], expected, rtol=1e-9, atol=1e-9)


def test_missing_values_are_the_last_before_them(make_model, make_batch):
    model, batch = make_model().double(), make_batch(missing=0.0)
    model.start_from(a_map())
    with torch.no_grad():
        model.linear_path.weight[:-3] = 0.0
    gaps, filled = batch.context_mask.clone(), batch.context.clone()
    gaps[:, -2:] = False
    filled[:, -2:] = filled[:, -3:-2]
    scale = model.scaler(batch._replace(context_mask=gaps))
    window = model.linear_path.window(scale.normalise(batch.context, gaps), gaps, 9)
    torch.testing.assert_close(window[:, 0, 0, -2], window[:, 0, 0, -3])
    # The same within patches that are fed.
    patches, missing = torch.randn(9, 2, 8, dtype=torch.float64), torch.zeros(9, 2, 8, dtype=torch.float64)
    missing[:, 0, 5:], missing[:, 1, :2] = 1.0, 1.0
    after = model.linear_path.after(window, patches, missing)
    assert after.shape == (9, 1, 2, 40)
    torch.testing.assert_close(after[:, 0, 1, -11:-6], patches[:, 0, 4:5].expand(-1, 5))


@pytest.mark.parametrize("length", [8, 12, 40])
def test_windows_one_by_one_are_those_of_all_at_once(make_model, length):
    path = make_model(context_length=length).double().linear_path
    rng = np.random.default_rng(0)
    window, patches = (torch.from_numpy(rng.normal(size=size)) for size in ((4, 1, 1, length), (4, 5, 8)))
    missing = torch.from_numpy(rng.integers(0, 2, (4, 5, 8)).astype(float))
    missing[:, 1, :3] = 1.0
    one, each = window, []
    for i in range(5):
        one = path.after(one, patches[:, i : i + 1], missing[:, i : i + 1])
        each.append(one)
    assert torch.equal(torch.cat(each, 2), path.after(window, patches, missing))


def test_an_unstable_map_does_not_run_away_and_a_trend_goes_on(make_model, make_batch):
    model = make_model().double()
    context = torch.arange(40.0, dtype=torch.float64)[None, :, None].expand(1, 40, 3)
    batch = make_batch(windows=1, missing=0.0)._replace(context=context)
    explosive, trend = np.zeros((40, 8)), np.zeros((40, 8))
    explosive[-1], explosive[-2] = 3.0, -2.0
    trend[-1], trend[-2] = 1 + np.arange(1, 9), -np.arange(1, 9)
    model.start_from(explosive)
    assert forecast(model, batch, 400).abs().max() < 20 * 40
    model.start_from(trend)
    expected = torch.arange(40.0, 240, dtype=torch.float64)[None, :, None].expand(1, 200, 3)
    torch.testing.assert_close(forecast(model, batch, 200), expected)


def test_its_learning_rate_is_lower_and_it_is_not_decayed(make_model):
    model = make_model()
    groups = build_optimizer(model, TrainingConfig(learning_rate=1e-2)).param_groups
    (group,) = [g for g in groups if any(p is model.linear_path.weight for p in g["params"])]
    assert group["lr"] == pytest.approx(LINEAR_PATH_RATE * 1e-2) and group["weight_decay"] == 0
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


@pytest.mark.parametrize(
    "changes",
    [dict(linear_path=False), dict(scaling="asinh"), dict(distribution="log_normal")],
    ids=str,
)
def test_there_is_none_where_it_is_off_or_has_no_meaning(make_model, make_batch, changes):
    model = make_model(**changes)
    assert model.linear_path is None
    assert torch.isfinite(forecast(model, make_batch(), 24)).all()
    with pytest.raises(TypeError, match="linear_path"):
        ModelConfig(40, 8, 8, 48, linear_path="yes")


def test_what_was_before_the_first_value_is_the_first_season():
    nan = torch.nan
    for values, season, expected in [
        ([nan, nan, nan, 1.0, 2.0, 3.0, 4.0], 3, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]),
        ([nan, nan, 1.0, 2.0, 3.0], 3, [2.0, 3.0, 1.0, 2.0, 3.0]),
        ([nan, nan, nan, 1.0, nan, 3.0, 4.0], 3, [1.0, 1.0, 3.0, 1.0, 1.0, 3.0, 4.0]),
        ([nan, nan, 5.0, 6.0], 3, [5.0, 5.0, 5.0, 6.0]),  # less than a season
        ([nan, 5.0, nan, 6.0], 1, [5.0, 5.0, 5.0, 6.0]),
        ([nan, nan], 2, [7.0, 7.0]),
        ([1.0, 2.0], 2, [1.0, 2.0]),
    ]:
        given = torch.tensor(values)
        filled = fill_gaps(given.nan_to_num(7.0), ~given.isnan(), season)
        assert filled.tolist() == expected


@pytest.mark.parametrize("scaling", ["none", "mean_abs", "last_season", "standard", "last_value", "robust"])
def test_a_history_that_begins_late_keeps_its_level(make_model, make_batch, scaling):
    model, batch = make_model(scaling=scaling).double(), make_batch(missing=0.0)
    model.start_from(a_map())
    late = batch._replace(context=torch.full_like(batch.context, 500.0), context_mask=batch.context_mask.clone())
    late.context_mask[:, :30] = False
    torch.testing.assert_close(forecast(model, late, 20), torch.full((3, 20, 3), 500.0, dtype=torch.float64))
