"""Decoding: seconds for a whole horizon, and how they grow with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import references
import torch

from speed import ours, peers
from speed.measure import Table, alternate, exponent, timed
from tsformer import TransformerForecaster

BARE = "bare cached decoder"
# Windows, sample paths, horizon.
WORK = [(1, 1, 96), (1, 1, 336), (1, 1, 720), (32, 1, 96), (32, 1, 336), (1, 100, 96)]
# Positions that peers without a cache decode, H (H + 1) / 2 a path, before a quick run leaves them out.
QUICK_POSITIONS = 10_000


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return tables of decoding, of one ``predict``, and the exponents against the horizon."""
    peers.hush()
    tables = [decoding(*work, quick, names) for work in WORK]
    growth = {}
    for who in tables[0].samples:
        alone = [
            (h, t.samples[who]) for (b, s, h), t in zip(WORK, tables, strict=True) if b == s == 1 and who in t.samples
        ]
        if len(alone) > 1:
            slope = exponent([h for h, _ in alone], [float(np.median(samples)) for _, samples in alone])
            growth[f"exponent of time against horizon, one series, {alone[0][0]} to {alone[-1][0]} steps, {who}"] = (
                slope
            )
    return {
        "tables": [table.to_dict() for table in [*tables, one_series(quick, names)]],
        "facts": {what: round(value, 2) for what, value in growth.items()},
    }


def decoding(windows: int, paths: int, horizon: int, quick: bool, names: list[str]) -> Table:
    """Measure the forecast of ``windows`` x ``paths`` for ``horizon`` steps, encoder and all."""
    many = f"{paths} sample paths of one series" if paths > 1 else f"{windows} series" if windows > 1 else "one series"
    table = Table(f"decode {many}, {horizon} steps", "s", BARE)
    tasks: dict[str, Callable[[], object]] = {
        BARE: bare(windows, paths, horizon),
        "tsformer": tsformer(windows, paths, horizon),
    }
    if not quick or windows * paths * horizon**2 / 2 <= QUICK_POSITIONS:
        if "transformers" in names:
            tasks["Hugging Face, generate"] = hugging_face(windows, paths, horizon)
        # A point model has no paths, and its horizon has to be trained.
        if "darts" in names and paths == 1 and windows * horizon**2 <= 32 * 96**2:
            tasks["darts, predict"] = darts(windows, horizon)
    rounds, budget = (3, 2.0) if quick else (15, 20.0)
    measured = {who: lambda f=function: timed(f) for who, function in tasks.items()}
    table.samples = alternate(measured, rounds, budget=budget)
    return table


def bare(windows: int, paths: int, horizon: int) -> Callable[[], object]:
    """60 lines over nn.Transformer's weights: what there is to do, and nothing around it."""
    torch.manual_seed(0)
    model = references.BareTransformer(draws=paths > 1).eval()
    context = ours.batch(windows).context.float()
    return lambda: model.decode(context, horizon, paths)


def tsformer(windows: int, paths: int, horizon: int) -> Callable[[], object]:
    """Ours, from windows in target units to forecasts in target units."""
    chosen = dict(max_decoder_length=horizon)
    if paths > 1:
        return ours.draw(ours.network(distribution="normal", **chosen).eval(), ours.batch(windows, 0), horizon, paths)
    return ours.decode(ours.network(**chosen).eval(), ours.batch(windows, 0), horizon)


def hugging_face(windows: int, paths: int, horizon: int) -> Callable[[], object]:
    """``generate``: it decodes the whole prefix again at each step."""
    model = peers.hf_model(horizon, paths=paths).eval()
    inputs = peers.hf_batch(windows, horizon, future=False)
    return lambda: model.generate(**inputs)


def darts(windows: int, horizon: int) -> Callable[[], object]:
    """``predict`` of a model that was trained on this horizon; it decodes the whole prefix again at each step."""
    model = peers.darts_model(horizon)
    model.fit(peers.darts_series(ours.wide_frame(ours.LENGTH + horizon + 32)))
    series = [peers.darts_series(ours.wide_frame(ours.LENGTH)) for _ in range(windows)]
    return lambda: model.predict(horizon, series=series, verbose=False, show_warnings=False)


def one_series(quick: bool, names: list[str]) -> Table:
    """Measure ``predict`` of one series, frame in and frame out, each library with its own default network."""
    horizon, frame = 24, peers.as_long(ours.wide_frame(1000, channels=1))
    table = Table("predict one series from its frame, 24 steps, default networks", "ms", "tsformer, predict(frame)")
    model = TransformerForecaster(horizon, max_steps=2, random_state=0, verbose=False, accelerator="cpu").fit(frame)
    tasks: dict[str, Callable[[], object]] = {
        table.reference: lambda: model.predict(frame),
        "tsformer, predict()": lambda: model.predict(),
    }
    if "neuralforecast" in names:
        other = peers.neuralforecast_model(horizon, steps=2)
        other.fit(frame)
        tasks["neuralforecast, predict(frame)"] = lambda: other.predict(frame)
        tasks["neuralforecast, predict()"] = lambda: other.predict()
    if "darts" in names:
        wide = frame.set_index("ds")[["y"]]
        third = peers.darts_model(horizon)
        third.fit(peers.darts_series(wide))
        tasks["darts, predict(series)"] = lambda: third.predict(horizon, series=peers.darts_series(wide), verbose=False)
    measured = {who: lambda f=function: 1000 * timed(f) for who, function in tasks.items()}
    table.samples = alternate(measured, 5 if quick else 41)
    table.notes["darts, predict(series)"] = "its network at the sizes of the tables above; a TimeSeries from the frame"
    return table
