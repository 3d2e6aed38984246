"""Backtest: 500 cut-offs of ETTh1 with a fitted model, against neuralforecast's cross-validation."""

from __future__ import annotations

from typing import Any

import pandas as pd

from speed import ours, peers
from speed.measure import Table, alternate, timed
from tsformer import TransformerForecaster, backtest, load_dataset

CONTEXT = 336


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return the table; without ETTh1 in the folder that TSFORMER_DATA names, walks of its size are taken."""
    peers.hush()
    cutoffs, rounds = (20, 1) if quick else (500, 3)
    wide, source = etth1()
    frame = peers.as_long(wide)
    horizon = ours.LENGTH
    train = frame[frame["ds"] < wide.index[-(cutoffs + horizon)]]
    model = TransformerForecaster(
        horizon, context_length=CONTEXT, max_steps=2, random_state=0, verbose=False, accelerator="cpu"
    ).fit(train)
    reference = "tsformer, backtest"
    tasks = {reference: lambda: timed(lambda: backtest(model, frame, windows=cutoffs, step=1, progress=False))}
    if "neuralforecast" in names:
        # Its default of 1,024 windows at a time takes gigabytes at this length.
        other = peers.neuralforecast_model(horizon, steps=2, input_size=CONTEXT, inference_windows_batch_size=256)
        other.fit(train)
        tasks["neuralforecast, cross_validation"] = lambda: timed(
            lambda: other.cross_validation(frame, n_windows=cutoffs, step_size=1, use_fitted=True)
        )
    table = Table(f"{cutoffs} cut-offs of {source}, 7 channels, {CONTEXT} to {horizon} steps, no refit", "s", reference)
    table.samples = alternate(tasks, rounds)
    note = "default network, trained before; {:,} parameters"
    networks = {reference: model.model_}
    if "neuralforecast" in names:
        networks["neuralforecast, cross_validation"] = other.models[0]
    for who, network in networks.items():
        table.notes[who] = note.format(sum(p.numel() for p in network.parameters() if p.requires_grad))
    return {"tables": [table.to_dict()]}


def etth1() -> tuple[pd.DataFrame, str]:
    """Return ETTh1 as a wide frame, or walks of its size, and what they are."""
    try:
        frame = load_dataset("etth1")
    except (OSError, ValueError):
        return ours.wide_frame(17_420), "random walks of the size of ETTh1"
    return frame.set_index("ds"), "ETTh1"
