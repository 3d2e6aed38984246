"""Scaling: our own cost against context, series, paths and horizon, with fitted exponents and a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from speed import ours, peers
from speed.measure import Table, alternate, exponent, timed
from tsformer import TransformerForecaster

SIZES = {
    "context": ("forecast one series, by steps of context", [96, 192, 384, 768, 1536, 3072, 8192]),
    "training context": ("train on one window, by steps of context", [96, 192, 384, 768, 1536, 3072, 8192]),
    "series": ("predict a frame, 24 steps, default network, by series", [1, 10, 100, 1_000, 10_000, 100_000]),
    "paths": ("draw paths of one series, 96 steps, by paths", [1, 10, 50, 100, 500, 1_000]),
    "horizon": ("decode one series, by steps", [96, 192, 336, 720, 1440]),
}


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return a table for each size, and the exponent over the upper half of it, where fixed costs no longer count."""
    peers.hush()
    prepare = {
        "context": _context,
        "training context": _training,
        "series": _series(),
        "paths": _paths,
        "horizon": _horizon,
    }
    rounds, budget = (1, 1.0) if quick else (5, 30.0)
    tables, facts = [], {}
    for name, (work, sizes) in SIZES.items():
        chosen = sizes[:3] if quick else sizes
        table = Table(work, "s", "")
        for size in chosen:  # one after the other: the largest do not fit beside each other
            call = prepare[name](size)
            table.samples[str(size)] = alternate({"": lambda c=call: timed(c)}, rounds, budget=budget)[""]
        medians = [float(np.median(samples)) for samples in table.samples.values()]
        half = len(chosen) // 2
        facts[f"exponent of the time to {work}"] = (
            f"{exponent(chosen[half:], medians[half:]):.2f} from {chosen[half]:,} to {chosen[-1]:,}, "
            f"{exponent(chosen, medians):.2f} from {chosen[0]:,}"
        )
        tables.append(table.to_dict())
    return {"tables": tables, "facts": facts, "figure": "scaling.png"}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the tables, time over size, both logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(
        1, len(result["tables"]), figsize=(3 * len(result["tables"]), 2.8), layout="constrained"
    )
    for axis, table in zip(axes, result["tables"], strict=True):
        sizes = [int(row["who"]) for row in table["rows"]]
        seconds = [row["median"] for row in table["rows"]]
        axis.loglog(sizes, seconds, "o-", color="C0")
        axis.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="0.7", label="linear")
        axis.set_title(table["work"].replace(", by", ",\nby"), fontsize=8)
        axis.tick_params(labelsize=7)
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel("seconds, one thread", fontsize=8)
    axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _context(length: int) -> Callable[[], object]:
    return ours.decode(ours.network(context_length=length).eval(), ours.batch(1, 0, length), ours.LENGTH)


def _training(length: int) -> Callable[[], object]:
    return ours.train_step(ours.network(context_length=length).train(), ours.batch(1, ours.LENGTH, length))


def _series() -> Callable[[int], Callable[[], object]]:
    frame = ours.long_frame(4, 500)
    model = TransformerForecaster(24, max_steps=2, random_state=0, verbose=False, accelerator="cpu").fit(frame)

    def prepare(n: int) -> Callable[[], object]:
        history = ours.long_frame(n, model.context_length_)
        return lambda: model.predict(history)

    return prepare


def _paths(n: int) -> Callable[[], object]:
    return ours.draw(ours.network(distribution="normal").eval(), ours.batch(1, 0), ours.LENGTH, n)


def _horizon(horizon: int) -> Callable[[], object]:
    return ours.decode(ours.network(max_decoder_length=horizon).eval(), ours.batch(1, 0), horizon)
