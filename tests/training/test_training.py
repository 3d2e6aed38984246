from __future__ import annotations

import math

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from tsformer import TransformerForecaster
from tsformer.config import ModelConfig, TrainingConfig
from tsformer.nn.model import ForecastTransformer
from tsformer.training.lightning_module import ForecastModule
from tsformer.training.optim import build_optimizer, schedule_factor


def wave(n=300, period=20, seed=0):
    noise = np.random.default_rng(seed).normal(0, 0.1, n)
    return np.sin(2 * np.pi * np.arange(n) / period) + noise


def small(**changes) -> TransformerForecaster:
    chosen = dict(
        prediction_length=20, context_length=40, patch_length=10, d_model=16, nhead=2, dim_feedforward=32, max_steps=6
    )
    return TransformerForecaster(**(chosen | changes))


def weights(forecaster):
    return torch.cat([p.detach().flatten() for p in forecaster.model_.parameters()])


def model() -> ForecastTransformer:
    lengths = dict(context_length=40, patch_length=8, season_length=8, max_decoder_length=24)
    return ForecastTransformer(ModelConfig(**lengths, positional_encoding="learned", calendar_sizes=(24,)))


# ------------------------------------------------------------------ optimiser and schedule


def test_only_matrices_are_decayed():
    network = model()
    decayed, others, path = groups = build_optimizer(network, TrainingConfig(weight_decay=0.3)).param_groups
    assert (decayed["weight_decay"], others["weight_decay"], path["weight_decay"]) == (0.3, 0.0, 0.0)
    assert sum(p.numel() for g in groups for p in g["params"]) == sum(p.numel() for p in network.parameters())
    names = {id(p): name for name, p in network.named_parameters()}
    assert all(names[id(p)].endswith("weight") and "norm" not in names[id(p)] for p in decayed["params"])
    kept = {names[id(p)] for p in others["params"]}
    assert {"positions.table", "calendar.tables.0.weight", "encoder.norm.weight", "head.projection.bias"} <= kept


def test_adam_of_the_paper():
    optimizer = build_optimizer(model(), TrainingConfig(optimizer="adam"))
    assert type(optimizer) is torch.optim.Adam
    assert optimizer.defaults["betas"] == (0.9, 0.98) and optimizer.defaults["eps"] == 1e-9


def test_cosine_after_warm_up():
    config = TrainingConfig(schedule="cosine", warmup=0.1)
    factors = [schedule_factor(step, config, 100, 64) for step in range(100)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == 1.0
    assert factors[54] == pytest.approx(0.5) and factors[99] == pytest.approx(0.0)


def test_noam_is_equation_3_of_the_paper():
    config = TrainingConfig(schedule="noam", warmup=4000)
    for step in (1, 100, 4000, 50_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert schedule_factor(step - 1, config, 10, 512) == pytest.approx(expected)


def test_constant_after_warm_up():
    config = TrainingConfig(schedule="constant", warmup=4)
    assert [schedule_factor(s, config, 100, 64) for s in (0, 1, 3, 50)] == [0.25, 0.5, 1.0, 1.0]


# ------------------------------------------------------------------ modes


def test_mixed_training_begins_with_the_truth_and_goes_on_with_its_ratio():
    config = TrainingConfig(training_mode="mixed", teacher_forcing_share=0.5, teacher_forcing_ratio=0.3)

    class At(ForecastModule):
        step = 0
        global_step = property(lambda self: self.step)  # type: ignore[assignment]

    module, seen = At(model(), config), []
    module.total_steps = 10
    for module.step in range(10):
        seen.append(module.teacher_forcing())
    assert seen == [1.0] * 5 + [0.3] * 5


@pytest.mark.parametrize(
    "changes",
    [
        dict(training_mode="teacher_forcing"),
        dict(training_mode="mixed"),
        dict(detach_rollout=False),
        dict(rollout_length=30),
        dict(mixup=0.5),
        dict(loss="huber"),
        dict(loss=lambda forecast, target: (forecast - target).abs() ** 1.5),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_way_of_training_is_its_own(changes):
    # With a linear path the start, which they share, can be the best.
    plain, other = (small(linear_path=False, **each).fit(wave()) for each in ({}, changes))
    assert np.isfinite(other.predict()).all(axis=None)
    assert not torch.allclose(weights(plain), weights(other))


def test_rollouts_in_training_do_not_bound_the_horizon():
    forecaster = small(rollout_length=10).fit(wave())
    assert forecaster.rollout_length_ == 10
    assert len(forecaster.predict(horizon=500)) == 500


# ------------------------------------------------------------------ extent, stopping, best weights


def test_history_has_a_row_an_epoch():
    forecaster = small(max_steps=None, max_epochs=3, batch_size=64).fit(wave())
    history = forecaster.history_
    assert list(history["epoch"]) == [0, 1, 2]
    assert {"train_loss", "val_loss", "learning_rate", "seconds", "step"} <= set(history)
    assert np.isfinite(history).all(axis=None)


def test_max_steps_takes_the_place_of_max_epochs():
    forecaster = small(max_steps=17, max_epochs=1, batch_size=32).fit(wave())
    assert forecaster.history_["step"].iloc[-1] == 17


def test_an_epoch_is_capped():
    forecaster = small(max_steps=None, max_epochs=2, batch_size=8, max_steps_per_epoch=3).fit(wave())
    assert list(forecaster.history_["step"]) == [3, 6]


def test_accumulation_takes_one_step_for_several_batches():
    forecaster = small(max_steps=None, max_epochs=1, batch_size=8, max_steps_per_epoch=8, accumulate_grad_batches=4)
    assert forecaster.fit(wave()).history_["step"].iloc[-1] == 2


def test_max_time_ends_the_training():
    forecaster = small(max_steps=100_000, max_time=0.5).fit(wave())
    assert forecaster.history_["step"].iloc[-1] < 100_000


def test_early_stopping_and_the_best_weights():
    # A learning rate that ruins the weights after the first epoch: they must come back.
    seen = []

    class Ruin(Callback):
        def on_validation_end(self, trainer, pl_module):
            seen.append(weights_of(pl_module))
            with torch.no_grad():
                for p in pl_module.parameters():
                    p.add_(torch.randn_like(p))

    def weights_of(module):
        return torch.cat([p.detach().flatten().clone() for p in module.model.parameters()])

    settings = dict(max_steps=None, max_epochs=20, patience=2, max_steps_per_epoch=2)
    forecaster = small(**settings, callbacks=[Ruin()]).fit(wave())
    losses = forecaster.history_["val_loss"]
    assert losses.idxmin() == 0 and len(losses) == 3  # two epochs without a better one
    torch.testing.assert_close(weights(forecaster), seen[0])


def test_the_start_is_kept_where_no_epoch_is_better(monkeypatch):
    ruined = small(max_steps=20, max_steps_per_epoch=5, learning_rate=10.0).fit(wave())
    assert ruined.best_step_ == 0 and len(ruined.history_) > 1
    assert not ruined.model_.state_dict()["head.projection.weight"].any()
    np.testing.assert_array_equal(ruined.model_.linear_path.weight.detach(), ruined._start.astype(np.float32))

    monkeypatch.setattr("tsformer.fitting.batch_limit", lambda *_: 1)
    part = small(learning_rate=10.0, trainer_kwargs={"num_sanity_val_steps": 1}).fit(wave())
    assert part.best_step_ == 6  # an error of one window is not to be compared with that of all


def test_best_step_is_that_of_the_weights_in_use():
    falling = small(max_steps=12, max_steps_per_epoch=4, linear_path=False).fit(wave())
    best = falling.history_.loc[falling.history_["val_loss"].idxmin()]
    assert falling.best_step_ == best["step"] > 0
    assert small(validation_size=0, patience=None).fit(wave()).best_step_ == 6


def test_validation_is_free_running():
    """The validation error is what a forecast scores, so it does not depend on teacher forcing."""
    forecaster = small(
        training_mode="teacher_forcing",
        max_steps=1,
        validation_size=40,
        scaling="standard",
        blend=False,
        linear_path=False,
    )
    assert forecaster.fit(wave()).best_step_ == 1  # of whose weights the forecasts are
    x = wave()
    deviation = x[:260].std()
    errors = []
    for cutoff in range(260, 281):
        predicted = forecaster.predict(x[:cutoff]).to_numpy()[:, 0]
        errors.append(np.abs(predicted - x[cutoff : cutoff + 20]).mean() / deviation)
    assert forecaster.history_["val_loss"].iloc[-1] == pytest.approx(np.mean(errors), rel=1e-4)


def test_without_validation_the_last_weights_stay():
    forecaster = small(validation_size=0, patience=None).fit(wave())
    assert "val_loss" not in forecaster.history_
    assert np.isfinite(forecaster.predict()).all(axis=None)


def test_early_stopping_without_validation_rows_is_refused_before_training():
    with pytest.raises(ValueError, match="set validation_size.*patience=None"):
        small(validation_size=0, patience=3).fit(wave())


# ------------------------------------------------------------------ seeds and failure


def test_same_seed_same_weights_and_the_global_state_is_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two = small(random_state=1).fit(wave()), small(random_state=1).fit(wave())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(small(random_state=2).fit(wave())))


def test_random_state_none_is_another_seed_each_time():
    assert not torch.equal(weights(small(random_state=None).fit(wave())), weights(small(random_state=None).fit(wave())))


def test_workers_do_not_change_the_result():
    assert torch.equal(weights(small().fit(wave())), weights(small(num_workers=1).fit(wave())))


def test_a_loss_of_nan_stops_the_training():
    with pytest.raises(ValueError, match="loss became nan at step 0.*learning_rate"):
        small(loss=lambda f, t: (f - t) * float("nan")).fit(wave())


def test_a_loss_of_nan_that_was_not_looked_at_stops_the_training_with_the_epoch():
    class Overlooked(Callback):  # as on a GPU
        def on_train_batch_end(self, trainer, module, *_):
            module._train_losses[-1] = torch.tensor(math.nan)

    with pytest.raises(ValueError, match="loss became nan at step"):
        small(callbacks=[Overlooked()], validation_size=0, patience=None).fit(wave())


def test_auto_leaves_out_devices_without_float64(monkeypatch):
    for room in ("fabric", "pytorch"):
        monkeypatch.setattr(f"lightning.{room}.accelerators.mps.MPSAccelerator.is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    where = []

    class Look(Callback):
        def on_fit_start(self, trainer, module):
            where.append(trainer.strategy.root_device.type)

    small(accelerator="auto", max_steps=1, callbacks=[Look()]).fit(wave())
    assert where == ["cpu"]


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16"])
def test_half_precision_trains(precision):
    forecaster = small(precision=precision).fit(wave())
    assert weights(forecaster).dtype == torch.float32
    assert np.isfinite(forecaster.predict()).all(axis=None)
    small(trainer_kwargs={"precision": precision}).fit(wave())
    with pytest.raises(ValueError, match="take 'bf16-mixed'"):
        small(precision="bf16-true").fit(wave())


def test_lightning_gets_its_arguments_and_they_are_not_changed():
    class Counter(Callback):
        steps = 0

        def on_train_batch_end(self, *args):
            Counter.steps += 1

    callbacks, kwargs = [Counter()], {"limit_train_batches": 2, "callbacks": [Counter()]}
    small(max_steps=None, max_epochs=1, callbacks=callbacks, trainer_kwargs=kwargs).fit(wave())
    assert Counter.steps == 4
    assert len(callbacks) == 1 and list(kwargs) == ["limit_train_batches", "callbacks"]
    assert len(kwargs["callbacks"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        dict(accelerator="banana"),
        dict(accelerator="tpu"),
        dict(precision="8"),
        dict(precision="transformer-engine"),
        dict(devices="x"),
        dict(trainer_kwargs={"banana": 1}),
        dict(trainer_kwargs={"max_time": 3.0}),
        dict(trainer_kwargs={"max_time": {"seconds": 1e20}}),
    ],
)
def test_what_lightning_refuses_is_said_before_training(wrong):
    with pytest.raises(ValueError, match="Lightning's Trainer refuses accelerator="):
        small(**wrong).fit(wave())


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda forecast, target: (forecast - target).abs().detach(), "has no gradient"),
        (lambda forecast, target: torch.from_numpy(np.abs(forecast.numpy() - target.numpy())), "fails on .*numpy"),
        (lambda forecast, target, third: forecast, "fails on .*missing 1 required positional argument"),
    ],
)
def test_losses_that_cannot_be_learned(loss, words):
    with pytest.raises(ValueError, match=f"the loss .* {words}"):
        small(loss=loss).fit(wave())


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (dict(callbacks=[3]), TypeError, "callbacks are those of Lightning, got 3"),
        (dict(callbacks=3), TypeError, "callbacks must be a list of Lightning's callbacks, got 3"),
        (dict(callbacks=[Callback]), TypeError, "call the class"),
        (dict(trainer_kwargs={"callbacks": [3]}), TypeError, r"trainer_kwargs\['callbacks'\] are those of Lightning"),
        (dict(trainer_kwargs=3), TypeError, "trainer_kwargs must be a dict"),
        (dict(logger=3), TypeError, "logger must be one of Lightning, or a list of them, got 3"),
        (dict(logger=[3]), TypeError, "logger must be one of Lightning"),
        (dict(devices=10_000, accelerator="cpu"), ValueError, "devices=10000 on a CPU are as many processes, and this"),
        (dict(max_time=1e20), ValueError, "max_time must be below 1e"),
        (dict(max_time=10**400), ValueError, "max_time must be finite, got a whole number beyond all floats"),
    ],
)
def test_arguments_of_lightning_that_are_none(wrong, error, words):
    with pytest.raises(error, match=words):
        small(**wrong).fit(wave())


def test_a_single_callback_needs_no_list():
    class Counter(Callback):
        steps = 0

        def on_train_batch_end(self, *_):
            self.steps += 1

    first, second = Counter(), Counter()
    small(callbacks=first, trainer_kwargs={"callbacks": second}).fit(wave())
    assert first.steps == second.steps == 6


def test_progress_only_where_it_is_wanted(capsys):
    small(verbose=False).fit(wave())
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    small(verbose=True).fit(wave())
    assert capsys.readouterr().out == ""


def test_a_logger_is_used(tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    small(logger=logger).fit(wave())
    assert list(tmp_path.rglob("metrics.csv"))


def test_loss_weighs_series_by_their_own_deviation():
    """Two series that differ in scale alone train a model as one of them does twice."""
    import pandas as pd

    x = wave()
    ds = np.arange(300)
    frame = pd.DataFrame(
        {"unique_id": np.repeat(["a", "b"], 300), "ds": np.tile(ds, 2), "y": np.concatenate([x, 1000 * x - 7])}
    )
    twice = frame.assign(y=np.tile(x, 2))
    one, two = small().fit(frame), small().fit(twice)
    np.testing.assert_allclose(one.history_["train_loss"], two.history_["train_loss"], rtol=1e-4)
    assert math.isclose(one.history_["val_loss"].iloc[-1], two.history_["val_loss"].iloc[-1], rel_tol=1e-4)


def test_ctrl_c_comes_through_and_the_next_one_too():
    import signal

    class Interrupt(Callback):
        def on_train_batch_end(self, *args):
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        small(callbacks=[Interrupt()]).fit(wave())
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("size", [300, 5000])
def test_validation_that_leaves_no_training_rows(size):
    with pytest.raises(ValueError, match=f"validation_size={size} leaves nothing to train on: .* 300 rows"):
        small(validation_size=size).fit(wave())
