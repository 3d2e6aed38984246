"""Data: from a long frame in memory to the first training batch, each in a process of its own."""

from __future__ import annotations

from typing import Any

from speed.measure import Table, alternate, in_child

WHO = {
    "numpy": "numpy by hand",
    "tsformer": "tsformer, fit",
    "neuralforecast": "neuralforecast, fit",
    "darts": "darts, from_group_dataframe and fit",
}


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return tables of time, memory and one more batch."""
    rounds = 1 if quick else 5
    size = (500, 300) if quick else (10_000, 1_000)
    of = f"{size[0]:,} series x {size[1]:,} steps"
    tables = {
        "seconds": Table(f"{of}, long frame to first batch", "s", WHO["numpy"]),
        "mib": Table(f"{of}, memory added at the peak", "MiB", WHO["numpy"]),
        "batch_ms": Table(f"{of}, one more batch of 32 windows", "ms", WHO["numpy"]),
    }
    who = [key for key in WHO if key in ("numpy", "tsformer", *names)]
    runs: dict[str, list[dict[str, float]]] = {WHO[key]: [] for key in who}

    def run(key: str) -> float:
        found = in_child("data", key, *size)
        runs[WHO[key]].append(found)
        return found["seconds"]

    alternate({WHO[key]: lambda k=key: run(k) for key in who}, rounds, warmup=False)
    for measure_, table in tables.items():
        table.samples = {name: [found[measure_] for found in several] for name, several in runs.items()}
    tables["batch_ms"].notes[WHO["neuralforecast"]] = "all windows of 32 series, of which 32 windows are kept"
    return {"tables": [table.to_dict() for table in tables.values()]}
