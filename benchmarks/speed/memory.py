"""Memory of a training: the peak over what the imports took, each in a process of its own."""

from __future__ import annotations

from typing import Any

from speed.measure import Table, alternate, in_child

WHO = {
    "bare": "nn.Transformer, bare loop",
    "tsformer": "tsformer, fit",
    "transformers": "Hugging Face, bare loop",
    "darts": "darts, fit",
    "neuralforecast": "neuralforecast, fit",
}


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return the table of peaks."""
    rounds, steps = (1, 3) if quick else (3, 12)
    table = Table(f"peak memory of training for {steps} steps, over that of the imports", "MiB", WHO["bare"])
    tasks = {WHO[key]: lambda k=key: in_child("memory", k, steps)["mib"] for key in ("bare", "tsformer", *names)}
    table.samples = alternate(tasks, rounds, warmup=False)
    return {"tables": [table.to_dict()]}
