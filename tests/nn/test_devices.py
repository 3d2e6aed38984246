"""What a GPU asks of the network, on a CPU: tensors on one device, no waiting for values, and half precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tsformer.batch import Batch
from tsformer.config import ModelConfig
from tsformer.nn.decoding import forecast, training_outputs
from tsformer.nn.model import ForecastTransformer
from tsformer.nn.sampling import sample
from tsformer.training.augmentation import mixed
from tsformer.training.lightning_module import batch_loss, step_errors


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_leaves_the_device_or_waits_for_it(monkeypatch):
    monkeypatch.setattr(torch, "_sample_dirichlet", torch.clone)  # the draw of mixup's shares, which has no fake
    b, length, horizon, c = 2, 10, 8, 2
    sizes = dict(context_length=12, patch_length=4, season_length=4, max_decoder_length=8, d_model=8, nhead=2)
    layers = dict(num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=8, quantiles=(0.1, 0.5, 0.9))
    parts = dict(calendar_sizes=(24,), known_sizes=(0, 3), observed_sizes=(0,), static_sizes=(3,), n_targets=c)
    # Fake tensors have a device and no values: operations on two devices, and questions about values, are errors.
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("meta"):
            network = ForecastTransformer(ModelConfig(**sizes, **layers, **parts))
            context, target = (torch.zeros(b, n, c, dtype=torch.float64) for n in (length, horizon))
            masks = context > 0, target > 0
            mean = torch.zeros(b, c, dtype=torch.float64)
            calendar = torch.zeros(b, length + horizon, 1, dtype=torch.int64)
            covariates = torch.zeros(b, length + horizon, 2), torch.zeros(b, length, 1), torch.zeros(b, 1)
        batch = Batch(context, masks[0], target, masks[1], mean, mean, calendar, *covariates)
        batch_loss(network, mixed(batch, 0.5, by_channel=True), 0.5, True).backward()
        assert {p.grad.device.type for p in network.parameters() if p.grad is not None} == {"meta"}
        network.eval()
        assert forecast(network, batch, horizon, target).device.type == "meta"
        assert sample(network, batch, horizon, 2, np.zeros((b, 1), dtype=np.uint64)).device.type == "meta"


def test_rollouts_without_a_graph_leave_gradients_under_autocast(make_model, make_batch):
    network = make_model(dropout=0.0).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        batch_loss(network, make_batch(), 0.0, True).backward()
    assert all(p.grad is not None and p.grad.any() for p in network.parameters())


def test_errors_of_half_precision_outputs_are_in_full_precision(make_model, make_batch):
    network, batch = make_model(linear_path=False), make_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, memory = training_outputs(network, batch, teacher_forcing=1.0, detach=True)
        errors = step_errors(network, outputs, batch, memory)
    assert outputs.dtype == torch.bfloat16
    assert torch.equal(errors, step_errors(network, outputs.float(), batch, memory))
