"""Distributions end to end: what they predict, and that their sample paths are right about sums."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import tsformer
from tsformer import TransformerForecaster
from tsformer.config import DISTRIBUTIONS
from tsformer.data.panel import to_panel

STEPS, FACTOR = 6, 0.8


def ar1(n: int, seed: int) -> np.ndarray:
    """y[t] = 0.8 y[t - 1] + e[t]: given the last value, everything about the future is known in closed form."""
    e = np.random.default_rng(seed).normal(size=n)
    y = np.empty(n)
    y[0] = e[0] / np.sqrt(1 - FACTOR**2)
    for t in range(1, n):
        y[t] = FACTOR * y[t - 1] + e[t]
    return y


def learn_ar1(**changes) -> TransformerForecaster:
    chosen = dict(
        loss="normal",
        context_length=6,
        patch_length=1,
        scaling="none",
        d_model=8,
        nhead=2,
        num_encoder_layers=1,
        dim_feedforward=32,
        dropout=0.0,
        rollout_length=STEPS,
        max_steps=120,
        max_steps_per_epoch=60,
        learning_rate=1e-2,
        verbose=False,
    )
    return TransformerForecaster(STEPS, **(chosen | changes)).fit(ar1(6000, seed=0))


class Origins:
    """Many origins in a long unseen series, their truth (B, H), and the analytic forecast."""

    def __init__(self) -> None:
        self.values = ar1(5000, seed=1)
        self.panel, self.cutoffs = to_panel(self.values), np.arange(20, 4990, 8)
        self.window = np.zeros_like(self.cutoffs), self.cutoffs
        self.truth = self.values[self.cutoffs[:, None] + np.arange(STEPS)]
        steps = np.arange(1, STEPS + 1)
        self.mean = self.values[self.cutoffs - 1][:, None] * FACTOR**steps
        self.deviation = np.sqrt((1 - FACTOR ** (2 * steps)) / (1 - FACTOR**2))

    def paths(self, forecaster, n=200) -> np.ndarray:
        return forecaster._fitted.sample(self.panel, *self.window, STEPS, n)[..., 0]  # (B, S, H)

    def covered_sums(self, paths) -> float:
        low, high = np.quantile(paths.sum(2), [0.1, 0.9], axis=1)
        total = self.truth.sum(1)
        return ((total >= low) & (total <= high)).mean()


@pytest.fixture(scope="module")
def origins() -> Origins:
    return Origins()


@pytest.fixture(scope="module")
def paths(origins) -> np.ndarray:
    """Of a normal head with one step in a token, (B, S, H)."""
    torch.set_num_threads(1)
    return origins.paths(learn_ar1())


def crps(paths: np.ndarray, truth: np.ndarray) -> float:
    """Mean CRPS of paths (B, S, ...), the fair estimate: E|X - y| - E|X - X'| / 2."""
    ordered, n = np.sort(paths, axis=1), paths.shape[1]
    weights = (2 * np.arange(1, n + 1) - n - 1).reshape(1, n, *(1,) * (paths.ndim - 2)) / (n * (n - 1))
    return (np.abs(paths - truth[:, None]).mean(1) - (ordered * weights).sum(1)).mean()


# ------------------------------------------------------------------ a process whose forecast is known


def test_paths_of_the_normal_head_are_as_good_as_the_truth_allows(paths, origins):
    z = (origins.truth - origins.mean) / origins.deviation
    analytic = origins.deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5)
    assert crps(paths, origins.truth) < 1.05 * analytic.mean()


def test_sums_come_from_paths_and_not_from_marginal_quantiles(paths, origins):
    assert origins.covered_sums(paths) == pytest.approx(0.8, abs=0.03)
    low, high = np.quantile(paths, [0.1, 0.9], axis=1)  # each step is right ...
    assert ((origins.truth >= low) & (origins.truth <= high)).mean() == pytest.approx(0.8, abs=0.03)
    total = origins.truth.sum(1)  # ... and their sum is not
    assert ((total >= low.sum(1)) & (total <= high.sum(1))).mean() > 0.86


def test_inside_a_patch_sums_need_the_copula(origins):
    forecaster = learn_ar1(patch_length=STEPS)
    assert origins.covered_sums(origins.paths(forecaster)) == pytest.approx(0.8, abs=0.03)
    forecaster.model_.head.copula.copy_(torch.eye(STEPS))
    assert origins.covered_sums(origins.paths(forecaster)) < 0.65


def test_rolled_out_quantiles_agree_with_sampling_and_with_the_truth(paths, origins):
    """The quantile head learns on its own median path, and so what each step is worth from the origin."""
    levels = {"-lo-80": 0.1, "-median": 0.5, "-hi-80": 0.9}
    rolled = learn_ar1(loss="quantile", quantiles=list(levels.values()), max_steps=240, blend=False)
    assert rolled.training_mode_ == "free_running"
    columns = rolled.forecast_columns(origins.panel, *origins.window, STEPS, quantiles=list(levels.values()))
    for suffix, level in levels.items():
        analytic = origins.mean + norm.ppf(level) * origins.deviation
        sampled = np.quantile(paths, level, axis=1)  # of 200 paths: 0.1 deviations of noise on average
        for other in (analytic, sampled):
            error = (columns[suffix][..., 0] - other) / origins.deviation
            assert np.abs(error).mean() < 0.25 and abs(error.mean()) < 0.2, suffix


# ------------------------------------------------------------------ counts


def test_counts_are_better_off_with_their_own_distribution():
    """Intermittent demand: most weeks nothing, then a few."""
    g = np.random.default_rng(0)
    rate = np.exp(g.uniform(np.log(0.1), np.log(3), 120))[:, None]
    demand = g.negative_binomial(0.7, 0.7 / (0.7 + rate), (120, 60)).astype(float)
    frame = pd.DataFrame(
        {"unique_id": np.repeat(np.arange(120), 60), "ds": np.tile(np.arange(60), 120), "y": demand.ravel()}
    )
    history, future = frame[frame["ds"] < 54], demand[:, 54:]
    settings = dict(context_length=24, patch_length=6, d_model=16, nhead=2, num_encoder_layers=1, learning_rate=3e-3)
    scores = {}
    for loss in ("normal", "negative_binomial"):
        forecaster = TransformerForecaster(6, loss=loss, **settings, max_steps=60, dropout=0.0, verbose=False)
        paths = forecaster.fit(history).sample(200)
        drawn = paths.iloc[:, 2:].to_numpy().reshape(120, 6, 200).transpose(0, 2, 1)
        scores[loss] = crps(drawn, future)
    assert scores["negative_binomial"] < 0.95 * scores["normal"]
    assert forecaster.scaling_ == "mean_abs"
    assert (drawn >= 0).all() and (drawn == drawn.round()).all() and (drawn == 0).mean() > 0.3
    bands = forecaster.predict(level=[80], quantiles=[0.5]).iloc[:, 3:]
    assert (bands >= 0).all(axis=None) and (bands == bands.round()).all(axis=None)
    far = forecaster.predict(horizon=20, level=[80]).iloc[:, 3:]
    assert (far == far.round()).all(axis=None)


@pytest.mark.parametrize(
    ("loss", "value", "said"),
    [
        ("log_normal", 0.0, "not positive"),
        ("log_normal", -3.0, "not positive"),
        ("negative_binomial", -1.0, "no counts"),
        ("negative_binomial", 2.5, "no counts"),
    ],
)
def test_values_that_a_distribution_rules_out_are_named(small, make_panel, loss, value, said):
    frame = make_panel({"a": 100.0, "b": 50.0}).round({"y": 0})
    frame.loc[150, "y"] = value
    with pytest.raises(ValueError, match=f"1 values are {said}.*: {value:g} in column 'y', id 'b', 2024-01-31.*train"):
        small(loss=loss).fit(frame)


# ------------------------------------------------------------------ the estimator


@pytest.fixture(scope="module")
def fitted() -> dict[str, TransformerForecaster]:
    """Each distribution on two series of counts, two of their days missing."""
    torch.set_num_threads(1)
    g = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(["a", "b"], 120),
            "ds": np.tile(pd.date_range("2024-01-01", periods=120), 2),
            "y": np.concatenate([g.poisson(5, 120), g.poisson(200, 120)]) + 1.0,
        }
    )
    frame.loc[[30, 119], "y"] = np.nan
    settings = dict(context_length=28, patch_length=7, d_model=16, nhead=2, dim_feedforward=32, max_steps=10)
    return {loss: TransformerForecaster(7, loss=loss, verbose=False, **settings).fit(frame) for loss in DISTRIBUTIONS}


@pytest.mark.parametrize("loss", DISTRIBUTIONS)
def test_predict_of_each_distribution(fitted, loss):
    forecaster = fitted[loss]
    frame = forecaster.predict(horizon=20, level=[80, 99.9], quantiles=[0.5])
    name = "TransformerForecaster"
    order = [frame[f"{name}{s}"] for s in ("-lo-99.9", "-lo-80", "-median", "-hi-80", "-hi-99.9")]
    assert all((low <= high).all() for low, high in zip(order, order[1:], strict=False))
    assert np.isfinite(frame.iloc[:, 2:]).all(axis=None)
    pd.testing.assert_frame_equal(frame, forecaster.predict(horizon=20, level=[80, 99.9], quantiles=[0.5]))
    short = forecaster.predict(horizon=9, level=[80])  # the beginning of the longer one
    begin = frame.groupby("unique_id", as_index=False).head(9).reset_index(drop=True)
    pd.testing.assert_frame_equal(short, begin[list(short)])
    window = forecaster._fitted.tail, np.arange(2), forecaster._fitted.tail.lengths
    np.testing.assert_array_equal(forecaster.forecast_windows(*window, 20).ravel(), frame[name])
    assert np.isfinite(forecaster.history_["val_loss"]).all()


@pytest.mark.parametrize("loss", DISTRIBUTIONS)
def test_a_saved_model_draws_the_same_paths(fitted, loss, tmp_path):
    again = tsformer.load(fitted[loss].save(tmp_path / "model"))
    pd.testing.assert_frame_equal(again.sample(20, horizon=20), fitted[loss].sample(20, horizon=20))
    pd.testing.assert_frame_equal(again.predict(horizon=20), fitted[loss].predict(horizon=20))
    assert again.training_mode_ == "teacher_forcing" and again.scaling_ == fitted[loss].scaling_
    copula = again.model_.head.copula
    assert not torch.equal(copula, torch.eye(7)) and torch.equal(copula, fitted[loss].model_.head.copula)


def test_paths_of_a_long_frame(fitted):
    forecaster = fitted["normal"]
    paths = forecaster.sample(100, horizon=9)
    assert list(paths) == ["unique_id", "ds", *(f"TransformerForecaster-sample-{i}" for i in range(1, 101))]
    pd.testing.assert_frame_equal(paths.iloc[:, :2], forecaster.predict(horizon=9).iloc[:, :2])
    sums = paths.drop(columns="ds").groupby("unique_id").sum()  # paths of the sums
    assert sums.shape == (2, 100) and sums.loc["b"].mean() > 10 * sums.loc["a"].mean()
    pd.testing.assert_frame_equal(
        forecaster.sample(30, horizon=4)["ds"].to_frame(),
        paths.groupby("unique_id").head(4)[["ds"]].reset_index(drop=True),
    )


def test_paths_do_not_depend_on_batches_company_or_where_the_history_begins(fitted, make_panel):
    forecaster = fitted["student_t"]
    history = make_panel({"b": 200.0, "c": 20.0}, n=150)
    paths = forecaster.sample(60, history, horizon=9, seed=3)
    one_by_one = forecaster.sample(60, history, horizon=9, seed=3, batch_size=1)
    pd.testing.assert_frame_equal(paths, one_by_one, atol=1e-3)  # float32, of 200
    alone = history[(history["unique_id"] == "c") & (history["ds"] > "2024-03-01")]
    pd.testing.assert_frame_equal(
        forecaster.sample(60, alone, horizon=9, seed=3),
        paths[paths["unique_id"] == "c"].reset_index(drop=True),
        atol=1e-4,  # float32, of 20
    )
    fewer = forecaster.sample(7, history, horizon=9, seed=3)
    pd.testing.assert_frame_equal(fewer, paths[list(fewer)])
    assert not forecaster.sample(60, history, horizon=9, seed=4).equals(paths)
    by_id = [part.iloc[:, 2:].to_numpy() for _, part in paths.groupby("unique_id")]
    noise = [(p - p.mean(1, keepdims=True)).ravel() for p in by_id]
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.2  # series have noise of their own


def test_paths_of_other_layouts(small, wave):
    days = pd.date_range("2024-01-01", periods=120, name="day")
    wide = pd.DataFrame({"a": wave(120), "b": wave(120, level=5, seed=1)}, index=days)
    joint = small(loss="normal", channel_mixing="joint").fit(wide)
    paths = joint.sample(3)
    assert list(paths) == [f"{c}-sample-{i}" for c in "ab" for i in (1, 2, 3)]
    pd.testing.assert_index_equal(paths.index, joint.predict().index)
    assert joint.model_.head.copula.shape == (14, 14)  # steps x channels of a patch
    one = small(loss="normal").fit(wide["a"])
    assert list(one.sample(2)) == ["a-sample-1", "a-sample-2"]
    assert one.sample(2).index[0] == pd.Timestamp("2024-04-30")
    assert small(loss="normal").fit(wave(120)).sample().shape == (7, 100)


def test_seed_and_random_state(fitted):
    forecaster = fitted["normal"]
    pd.testing.assert_frame_equal(forecaster.sample(5), forecaster.sample(5, seed=0))  # random_state=0
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    forecaster.sample(5)
    assert torch.equal(state[0], torch.get_rng_state()) and np.array_equal(state[1], np.random.get_state()[1])


def test_what_sample_refuses(fitted, small, wave):
    forecaster = fitted["normal"]
    for wrong, message in [
        (dict(n=0), "n must be at least 1"),
        (dict(temperature=-1), "temperature must be at least 0"),
        (dict(top_p=0), "top_p must be above 0"),
        (dict(top_p=1.5), "top_p must be at most 1"),
        (dict(horizon=0), "horizon must be at least 1"),
        (dict(seed=-1), "seed must be at least 0"),
        (dict(batch_size=0), "batch_size must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            forecaster.sample(**wrong)
    with pytest.raises(ValueError, match="a point forecast has none: train with loss='normal' or"):
        small().fit(wave(100)).sample()
    with pytest.raises(ValueError, match="training_mode='teacher_forcing'.*'free_running'"):
        small(loss="quantile").fit(wave(100)).sample()
    with pytest.raises(ValueError, match="loss='quantile' or a distribution"):
        small().fit(wave(100)).predict(level=[80])
    with pytest.raises(ValueError, match="scaling='standard' shifts"):
        small(loss="log_normal", scaling="standard").fit(wave(100))


def test_quantiles_learned_on_the_truth_can_be_sampled(small, wave):
    forecaster = small(loss="quantile", quantiles=[0.1, 0.9], training_mode="teacher_forcing").fit(wave(150))
    paths = forecaster.sample(50, horizon=20)
    assert np.isfinite(paths).all(axis=None) and (paths.std(axis=1) > 0).all()
    assert not torch.equal(forecaster.model_.head.copula, torch.eye(7))


def test_without_validation_the_copula_comes_from_training_windows(small, wave):
    forecaster = small(loss="normal", validation_size=0, patience=None).fit(wave(150))
    assert not torch.equal(forecaster.model_.head.copula, torch.eye(7))


def test_a_constant_series_has_no_spread(small):
    forecaster = small(loss="normal").fit(np.full(100, 7.0))
    assert (forecaster.sample(5, horizon=20) == 7.0).all(axis=None)
    assert (small(loss="negative_binomial").fit(np.zeros(100)).sample(5, horizon=20) == 0.0).all(axis=None)


def test_histories_and_given_values_are_held_to_the_distribution(small):
    counts = np.random.default_rng(0).poisson(3, 80).astype(float)
    forecaster = small(7, loss="negative_binomial").fit(counts)
    with pytest.raises(ValueError, match="loss='negative_binomial': 29 values are no counts"):
        forecaster.predict(-np.arange(30.0))
    given = pd.DataFrame({"y": [-5.5]}, index=[80])
    with pytest.raises(ValueError, match="given has values that loss='negative_binomial' rules out, the first: -5.5"):
        forecaster.predict(given=given)


def test_odd_arguments_of_sample(small, wave):
    forecaster = small(7, loss="normal").fit(wave(80))
    with pytest.raises(ValueError, match="seed must be below"):
        forecaster.sample(3, seed=2**70)
    for n in (np.ones(30), pd.DataFrame({"y": [1.0]})):
        with pytest.raises(TypeError, match="n must be a whole number, got"):
            forecaster.sample(n)
    with pytest.raises(ValueError, match="is not a finite number"):
        small(7, loss="log_normal").fit(wave(80)).sample(3, temperature=1e6)
    with pytest.raises(ValueError, match="is not a finite number"):  # and no warning from numpy
        forecaster.sample(30, temperature=1e300)
