"""What the public experiments could be set to, scored on validation rows: where their settings come from.

    TSFORMER_DATA=path/to/folder python benchmarks/search.py

The test rows are not read. Resumable, as ``accuracy.py``; the table goes into ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from accuracy_page import LONG_HORIZON, M4
from experiments import seeded, validate
from rows import MISSING, Result, Row, arguments, run, table

ROOT = Path(__file__).parents[1]
NO_PATH, PATH = "model.linear_path=false", "model.linear_path=true"
SHORT, LONG = ["training.max_epochs=10", "training.patience=5"], ["training.max_epochs=30", "training.patience=10"]
# The first of each data set is what was there before the search.
CANDIDATES: dict[str, list[list[str]]] = {
    "etth1": [
        [NO_PATH, "context_length=512"],
        [PATH, "context_length=512"],
    ],
    "etth2": [
        [NO_PATH, "context_length=512"],
        [PATH, "context_length=512"],
        [PATH, "context_length=720"],
    ],
    "exchange": [
        [NO_PATH, "model.scaling=last_season"],
        [NO_PATH, "model.scaling=last_value"],
        [PATH, "model.scaling=last_value"],
    ],
    "illness": [[NO_PATH], [PATH]],
    "m4_hourly": [[NO_PATH, *SHORT], [PATH, *SHORT], [PATH, *LONG]],
    "m4_weekly": [[NO_PATH, *SHORT], [PATH, *SHORT], [PATH, *LONG]],
}


def place(data: str, changes: Sequence[str]) -> str:
    """Return where the row of a candidate is."""
    return f"{data}/" + "-".join("".join(c if c.isalnum() else " " for c in " ".join(changes)).split())


def all_rows(options: argparse.Namespace) -> list[Row]:
    """Return every row, with the first of the seeds and the limits of the command line."""
    limits = {"max_time": options.max_time, "max_steps": options.max_steps}
    given = [f"training.{name}={value}" for name, value in limits.items() if value is not None]
    rows = []
    for data, candidates in CANDIDATES.items():
        for changes in candidates:
            overrides = [f"experiment={data}", *changes, *given]
            rows += seeded(place(data, changes), validate, overrides, options.seeds[:1])
    return rows


def render(results: Mapping[str, Result | None]) -> str:
    """Return the table."""
    rows = [["", "candidate", "validation MAE", "best epoch", "seconds"]]
    names = LONG_HORIZON | M4
    for data, candidates in CANDIDATES.items():
        there = {tuple(changes): _result(results, place(data, changes)) for changes in candidates}
        scores = [result["validation"] for result in there.values() if result is not None]
        for changes, result in there.items():
            words = ", ".join(change.partition(".")[2] or change for change in changes)
            if result is None:
                rows.append([names[data], words, MISSING, MISSING, MISSING])
                continue
            score = f"{result['validation']:.4f}"
            is_best = result["validation"] == min(scores)
            best = f"{result['best_epoch']} of {result['epochs']}"
            rows.append([names[data], words, f"**{score}**" if is_best else score, best, f"{result['seconds']:.0f}"])
    return (
        "## Search\n\nThe free-running error of the network alone on validation rows, in units of each series' "
        f"training deviation, one seed.\n\n{table(rows)}"
    )


def _result(results: Mapping[str, Result | None], prefix: str) -> Result | None:
    return next((result for name, result in results.items() if name.startswith(prefix + "/")), None)


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the rows that are missing and write the table; 1 when one failed."""
    results, page = ROOT / "benchmarks" / "results" / "search", ROOT / "docs" / "accuracy.md"
    options = arguments(str(__doc__).splitlines()[0], results, page, argv)
    return min(1, run(options, all_rows(options), "search", render))


if __name__ == "__main__":
    sys.exit(main())
