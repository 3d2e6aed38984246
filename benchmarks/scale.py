"""Seconds and memory at scale: 100,000 series of 100 steps; 1,000 sample paths of 1,000 series.

Each part has a process of its own. Peak memory is what the process held at most, over what it held after the imports.

    python benchmarks/scale.py    # the numbers, and benchmarks/scale.json
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch

from tsformer import TransformerForecaster
from tsformer.training import trainer  # noqa: F401, imported here so that it does not count

HORIZON = 24
RESULT = Path(__file__).with_name("scale.json")


class FirstStep(L.Callback):
    """Notes when training begins."""

    at = float("nan")

    def on_train_batch_start(self, *args: Any) -> None:
        """Note the time."""
        FirstStep.at = time.perf_counter()  # of the class: fit copies its callbacks


def series(n: int, n_steps: int) -> pd.DataFrame:
    """Return a long frame of daily series with a week, each of a level of its own."""
    rng = np.random.default_rng(0)
    ids = np.char.add("s", np.arange(n).astype(str))
    values = rng.normal(size=(n, n_steps))
    values += np.exp(rng.normal(3, 1, size=(n, 1))) * (2 + np.sin(2 * np.pi * np.arange(n_steps) / 7))
    days = pd.date_range("2024-01-01", periods=n_steps)
    return pd.DataFrame(
        {"unique_id": pd.Series(ids, dtype="str").repeat(n_steps).array, "ds": np.tile(days, n), "y": values.ravel()}
    )


def peak() -> int:
    """Return the most bytes that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forecaster(**options: Any) -> TransformerForecaster:
    """Return a forecaster of default size that takes one training step."""
    return TransformerForecaster(HORIZON, max_steps=1, verbose=False, **options)


def panel() -> dict[str, float]:
    """Fit on 100,000 series and forecast all of them in one call."""
    start = peak()
    frame = series(100_000, 100)
    size, built = frame.memory_usage(deep=True).sum(), peak()
    began = time.perf_counter()
    model = forecaster(callbacks=[FirstStep()]).fit(frame)
    of_fit = peak()
    forecast_began = time.perf_counter()
    forecast = model.predict()
    assert len(forecast) == 100_000 * HORIZON
    return {
        "frame_megabytes": round(size / 1e6),
        "seconds_to_first_step": round(FirstStep.at - began, 1),
        "peak_of_frame_alone": round((built - start) / size, 2),
        "peak_of_fit": round((of_fit - start) / size, 2),
        "seconds_of_predict": round(time.perf_counter() - forecast_began, 1),
        "peak_of_fit_and_predict": round((peak() - start) / size, 2),
    }


def paths() -> dict[str, float]:
    """Draw 1,000 paths of 1,000 series."""
    model = forecaster(loss="normal", patch_length=6).fit(series(1_000, 200))
    start = peak()
    began = time.perf_counter()
    drawn = model.sample(1_000)
    seconds = time.perf_counter() - began
    size = drawn.memory_usage().sum()
    return {
        "result_megabytes": round(size / 1e6),
        "seconds": round(seconds, 1),
        "peak_of_sample": round((peak() - start) / size, 2),
    }


def main() -> None:
    """Measure each part in a process of its own, print the numbers and write them as JSON."""
    results = {}
    for part in ("panel", "paths"):
        done = subprocess.run([sys.executable, __file__, part], check=True, stdout=subprocess.PIPE, text=True)
        results[part] = json.loads(done.stdout)
        print(part, json.dumps(results[part], indent=2), flush=True)
    RESULT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(json.dumps({"panel": panel, "paths": paths}[sys.argv[1]]()))
    else:
        main()
