"""A compiled training step: the same results, nothing left behind, and a word where there is no compiler."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from sklearn.base import clone

from tsformer import TransformerForecaster, load
from tsformer.training import compiling, lightning_module

X = np.sin(np.arange(200) / 3) + np.random.default_rng(0).normal(0, 0.1, 200)


def fit(x=X, **changes) -> TransformerForecaster:
    chosen = dict(context_length=40, patch_length=10, d_model=8, nhead=2, num_encoder_layers=1, dim_feedforward=16)
    chosen |= dict(dropout=0.0, max_steps=4, batch_size=8, validation_size=0, patience=None, verbose=False)
    return TransformerForecaster(20, **(chosen | changes)).fit(x)


def weights(model: TransformerForecaster) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.model_.parameters()])


@pytest.fixture
def steps(monkeypatch) -> Iterator[list[torch.fx.GraphModule]]:
    """Steps that were compiled, by a backend that runs them as they are: no compiler, seconds each."""
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        if len(graph.graph.nodes) > 10:  # not what is compiled to see whether there is a compiler
            graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    monkeypatch.setattr(compiling, "BACKEND", backend)
    yield graphs
    torch.compiler.reset()


def test_a_compiled_step_is_one_graph_and_leaves_nothing_behind(steps, tmp_path):
    gaps = X.copy()
    gaps[[50, 120]] = np.nan
    plain = fit(gaps)
    assert not steps
    compiled = fit(gaps, compile=True)
    assert len(steps) == 1
    torch.testing.assert_close(weights(compiled), weights(plain))
    assert list(compiled.model_.state_dict()) == list(plain.model_.state_dict())
    expected = compiled.predict()
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), load(compiled.save(tmp_path / "m"))):
        assert other.predict().equals(expected) and other.compile is True
    assert clone(compiled).compile is True


def test_a_later_fit_of_the_same_sizes_finds_the_step_compiled(steps, capsys):
    teacher = dict(training_mode="teacher_forcing", verbose=True)
    fit(compile=True, **teacher)
    assert len(steps) == 1 and "fit: compiled, the first step took " in capsys.readouterr().err
    fit(2 * X, compile=True, **teacher)
    assert len(steps) == 1
    capsys.readouterr()
    fit(**teacher)
    assert "compiled" not in capsys.readouterr().err


def test_smaller_batches_and_long_rollouts_are_left_as_they_are(steps, monkeypatch, capsys):
    monkeypatch.setattr("tsformer.data.loaders.MIN_STEPS_PER_EPOCH", 1)
    fit(compile=True, batch_size=100, max_steps=3, training_mode="teacher_forcing")  # 141 windows
    assert len(steps) == 1
    monkeypatch.setattr(lightning_module, "MAX_UNROLLED", 1)
    mixed = dict(training_mode="mixed", teacher_forcing_share=0.0)
    fit(compile=True, max_steps=1, verbose=True, **mixed)
    assert len(steps) == 1 and "compiled" not in capsys.readouterr().err
    with pytest.raises(
        ValueError, match="rollouts of up to 16 patches, and rollout_length=40 has 20 of patch_length=2"
    ):
        fit(compile=True, patch_length=2, rollout_length=40)


def test_without_a_compiler_training_does_not_begin(monkeypatch):
    class Begun(Callback):
        def on_train_start(self, *args):
            raise AssertionError

    def backend(graph, inputs):
        raise RuntimeError("No working C++ compiler found\nadvice")

    torch.compiler.reset()
    monkeypatch.setattr(compiling, "BACKEND", backend)
    words = "compile=True: torch cannot compile for 'cpu' .*No working C\\+\\+ compiler found\\). .* compile=False"
    with pytest.raises(ValueError, match=words):
        fit(compile=True, callbacks=[Begun()], accelerator="cpu")
    with pytest.raises(TypeError, match="compile must be True or False"):
        fit(compile="yes")


@pytest.mark.slow
def test_compiled_code_gives_the_results_of_plain_code():
    plain, compiled = (fit(compile=c, accelerator="cpu") for c in (False, True))
    torch.testing.assert_close(weights(compiled), weights(plain), atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(compiled.history_["train_loss"], plain.history_["train_loss"], rtol=1e-4)


@pytest.mark.slow
def test_dropout_of_compiled_code_depends_on_the_seed_alone():
    settings = dict(compile=True, training_mode="teacher_forcing", dropout=0.2, accelerator="cpu")
    one, two, other = (weights(fit(random_state=seed, **settings)) for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.allclose(one, other)


@pytest.mark.slow
def test_a_training_of_two_kinds_of_steps(steps):
    mixed = dict(training_mode="mixed", teacher_forcing_ratio=0.5)
    plain, compiled = (fit(compile=c, **mixed) for c in (False, True))
    torch.testing.assert_close(weights(compiled), weights(plain))
    assert len(steps) == 2


@pytest.mark.slow
def test_a_loss_of_the_wrong_shape_is_named(steps):
    with pytest.raises(ValueError, match="one error for each element"):
        fit(compile=True, loss=lambda forecast, target: (forecast - target).abs().mean())
