"""What the public experiments could be set to, scored on validation rows: where their settings come from.

    TSFORMER_DATA=path/to/folder python benchmarks/search.py

The test rows are not read. Resumable, as ``accuracy.py``; the table goes into ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from accuracy_page import LONG_HORIZON, M4, mean_of_horizons
from experiments import seeded, validate
from rows import MISSING, Result, Row, arguments, run, table

ROOT = Path(__file__).parents[1]
NO_PATH, PATH = "model.linear_path=false", "model.linear_path=true"
MIXUP, LOG = "training.mixup=0.5", "model.target_transform=log1p"
SHORT, LONG = ["training.max_epochs=10", "training.patience=5"], ["training.max_epochs=30", "training.patience=10"]
# What the experiments have from here, taken back before each candidate.
BEFORE = {
    "etth1": ["training.mixup=0"],
    "etth2": ["training.mixup=0"],
    "exchange": ["training.mixup=0", "model.dropout=0.2"],
    "illness": ["training.mixup=0", "training.patience=10"],
    "m4_hourly": ["model.dropout=0.2", "model.target_transform=null", "model.season_length=24"],
    "m4_weekly": [],
}
# The first of each data set is what was there before the search.
CANDIDATES: dict[str, list[list[str]]] = {
    "etth1": [
        [NO_PATH, "context_length=512"],
        [PATH, "context_length=512"],
        [NO_PATH, "context_length=512", MIXUP],
        [PATH, "context_length=512", MIXUP],
        [NO_PATH, "context_length=512", MIXUP, "model.patch_length=48"],
    ],
    "etth2": [
        [NO_PATH, "context_length=512"],
        [PATH, "context_length=512"],
        [PATH, "context_length=720"],
        [PATH, "context_length=720", MIXUP],
        [PATH, "context_length=720", MIXUP, "model.patch_length=48"],
        [PATH, "context_length=720", MIXUP, "model.positional_encoding=none"],
        [PATH, "context_length=720", MIXUP, "model.dropout=0.4"],
        [PATH, "context_length=720", MIXUP, "training.learning_rate=0.0003"],
        [PATH, "context_length=720", MIXUP, "training.loss=huber"],
        [PATH, "context_length=720", MIXUP, "model.scaling=standard"],
        [PATH, "context_length=720", MIXUP, "model.scaling=last_value"],
    ],
    "exchange": [
        [NO_PATH, "model.scaling=last_season"],
        [NO_PATH, "model.scaling=last_value"],
        [PATH, "model.scaling=last_value"],
        [PATH, "model.scaling=last_value", MIXUP],
        [PATH, "model.scaling=last_value", "model.dropout=0.5"],
        [PATH, "model.scaling=last_value", MIXUP, "model.dropout=0.5"],
        [PATH, "model.scaling=last_value", MIXUP, "model.dropout=0.7"],
        [PATH, "model.scaling=last_value", "model.d_model=16"],
        [PATH, "model.scaling=last_value", "context_length=336"],
        [PATH, "model.scaling=last_value", "training.rollout_length=336"],
    ],
    "illness": [
        [NO_PATH],
        [PATH],
        [PATH, MIXUP],
        [PATH, MIXUP, "training.patience=30"],
        [PATH, MIXUP, "model.dropout=0.4"],
    ],
    "m4_hourly": [
        [NO_PATH, *SHORT],
        [PATH, *SHORT],
        [PATH, *LONG],
        [PATH, *LONG, MIXUP],
        [PATH, *LONG, LOG],
        [PATH, *LONG, LOG, "model.dropout=0.1"],
        [PATH, *LONG, LOG, "model.dropout=0.0"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "training.learning_rate=0.002"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "training.learning_rate=0.003"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "model.d_model=128"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "model.season_length=168"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "training.learning_rate=0.002", "model.season_length=168"],
        [PATH, *LONG, LOG, "model.dropout=0.0", "training.learning_rate=0.002", "context_length=504"],
        [PATH, *LONG, "model.target_transform=box_cox"],
    ],
    "m4_weekly": [[NO_PATH, *SHORT], [PATH, *SHORT], [PATH, *LONG], [PATH, *LONG, MIXUP], [PATH, *LONG, LOG]],
}

EXPLANATION = (
    "The network alone, scored as on the test but on the validation rows, which have chosen its epoch, too: MSE / MAE, "
    "the mean of four horizons, or OWA; means over the seeds there are. The choice is the lowest MAE or OWA of those "
    "with the most seeds that training made better than their start (best epoch 0), which is ridge regression where "
    "there is a linear path: the blend has that already."
)


def place(data: str, changes: Sequence[str]) -> str:
    """Return where the row of a candidate is."""
    return f"{data}/" + "-".join("".join(c if c.isalnum() else " " for c in " ".join(changes)).split())


def all_rows(options: argparse.Namespace) -> list[Row]:
    """Return every row, with the seeds and limits of the command line."""
    limits = {"max_time": options.max_time, "max_steps": options.max_steps}
    given = [f"training.{name}={value}" for name, value in limits.items() if value is not None]
    rows = []
    for data, candidates in CANDIDATES.items():
        for changes in candidates:
            overrides = [f"experiment={data}", *BEFORE[data], *changes, "training.blend=false", *given]
            rows += seeded(place(data, changes), validate, overrides, options.seeds)
    return rows


def render(results: Mapping[str, Result | None]) -> str:
    """Return the table."""
    rows = [["", "candidate", "validation", "seeds", "best epoch", "seconds"]]
    names = LONG_HORIZON | M4
    for data, candidates in CANDIDATES.items():
        there = {
            tuple(changes): [
                result
                for name, result in results.items()
                if result is not None and name.startswith(place(data, changes) + "/")
            ]
            for changes in candidates
        }
        # The network has to be better than its start, and was tried as often as any.
        most = max(map(len, there.values()))
        in_question = [
            each for each in there.values() if each and len(each) == most and all(r["best_epoch"] for r in each)
        ]
        lowest = min((_error(data, each)[0] for each in in_question), default=None)
        for changes, each in there.items():
            words = ", ".join(change.partition(".")[2] or change for change in changes)
            if not each:
                rows.append([names[data], words, *[MISSING] * 4])
                continue
            error, score = _error(data, each)
            if each in in_question and error == lowest:
                score = f"**{score}**"
            best = ", ".join(f"{result['best_epoch']} of {result['epochs']}" for result in each)
            rows.append(
                [names[data], words, score, str(len(each)), best, f"{max(result['seconds'] for result in each):.0f}"]
            )
    return f"## Search\n\n{EXPLANATION}\n\n{table(rows)}"


def _error(data: str, results: Sequence[Result]) -> tuple[float, str]:
    """Return what decides, and what is shown: means over seeds."""
    if data in M4:
        error = float(np.mean([result["validation"]["owa"] for result in results]))
        return error, f"{error:.4f}"
    means = [mean_of_horizons(result["validation"]) for result in results]
    squared, absolute = (float(np.mean([mean[metric] for mean in means])) for metric in ("mse", "mae"))
    return absolute, f"{squared:.4f} / {absolute:.4f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the rows that are missing and write the table; 1 when one failed."""
    results, page = ROOT / "benchmarks" / "results" / "search", ROOT / "docs" / "accuracy.md"
    options = arguments(str(__doc__).splitlines()[0], results, page, argv)
    return min(1, run(options, all_rows(options), "search", render))


if __name__ == "__main__":
    sys.exit(main())
