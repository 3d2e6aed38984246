"""What each choice of the recipe is worth: ETTh1 and ETTh2, three seeds, one change at a time.

    TSFORMER_DATA=path/to/folder python benchmarks/ablation.py

Resumable, as ``accuracy.py``; the table goes into ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from accuracy_page import mean_of_horizons, pair
from experiments import seeded, setting, train, train_direct
from rows import MISSING, Result, Row, arguments, run, table

ROOT = Path(__file__).parents[1]
DATA = {"etth1": "ETTh1", "etth2": "ETTh2"}
DIRECT = ("decoding", "direct, without a linear path")
# Group, variant, and what it changes of the recipe (conf/experiment). A new line here is a new line of the table.
VARIANTS: dict[tuple[str, str], list[str]] = {
    ("recipe", "free-running, rotary, mean of the last season, patch of 24"): [],
    ("training", "teacher forcing"): ["training.training_mode=teacher_forcing"],
    ("training", "mixed: teacher forcing, then free-running"): ["training.training_mode=mixed"],
    # A token is not told what was decoded before it, and so neither is a linear path; trained on the longest horizon.
    DIRECT: ["training.training_mode=teacher_forcing", "training.rollout_length=720", "model.linear_path=false"],
    ("positions", "sinusoidal"): ["model.positional_encoding=sinusoidal"],
    # Learned positions reach as far as they are trained.
    ("positions", "learned, rollouts of 720"): ["model.positional_encoding=learned", "training.rollout_length=720"],
    ("positions", "none"): ["model.positional_encoding=none"],
    ("scaling", "mean of the look-back"): ["model.scaling=standard"],
    ("scaling", "last value"): ["model.scaling=last_value"],
    ("scaling", "none"): ["model.scaling=none"],
    ("linear path", "with"): ["model.linear_path=true"],
    ("linear path", "without"): ["model.linear_path=false"],
    ("mixup", "with"): ["training.mixup=0.5"],
    ("blend", "the network alone"): ["training.blend=false"],
    ("patch", "12 steps"): ["model.patch_length=12"],
    ("patch", "48 steps"): ["model.patch_length=48"],
    ("patch", "96 steps"): ["model.patch_length=96"],
}

EXPLANATION = (
    "Mean of four horizons and of the seeds there are, of either data set; one change of the recipe without mixup a "
    "line. The recipe has no linear path on ETTh1 and one on ETTh2. All lines but *the network alone* "
    "are scored as users get them, blended with ridge regression, which makes up for a part of what a change does."
)


def recipe(data: str) -> tuple[str, ...]:
    """Return what the lines change one thing of: the experiment without mixup, which was found last."""
    return f"experiment={data}", "training.mixup=0"


def place(data: str, group: str, variant: str) -> str:
    """Return where the rows of a variant are: where those of the recipe are, if it sets nothing else."""
    if setting((*recipe(data), *VARIANTS[group, variant])) == setting(recipe(data)):
        group, variant = next(iter(VARIANTS))
    words = "".join(c if c.isalnum() else " " for c in f"{group} {variant}").split()
    return f"{data}/{'-'.join(words)}"


def all_rows(options: argparse.Namespace) -> list[Row]:
    """Return every row, with the seeds and limits of the command line."""
    limits = {"max_time": options.max_time, "max_steps": options.max_steps}
    given = [f"training.{name}={value}" for name, value in limits.items() if value is not None]
    rows: dict[str, Row] = {}
    for data in DATA:
        for (group, variant), changes in VARIANTS.items():
            work = train_direct if (group, variant) == DIRECT else train
            overrides = [*recipe(data), *changes, *given]
            for row in seeded(place(data, group, variant), work, overrides, options.seeds):
                rows.setdefault(row.name, row)
    return list(rows.values())


def render(results: Mapping[str, Result | None]) -> str:
    """Return the table."""
    rows = [["", "", *(f"{title}, MSE / MAE ± deviation" for title in DATA.values()), "seeds", "seconds"]]
    for group, variant in VARIANTS:
        cells, counts, seconds = [], [], []
        for data in DATA:
            prefix = place(data, group, variant) + "/"
            each = [result for name, result in results.items() if result is not None and name.startswith(prefix)]
            cells.append(pair([mean_of_horizons(result["scores"]) for result in each]))
            counts.append(str(len(each)))
            seconds += [result["train_seconds"] for result in each]
        extent = [", ".join(counts), f"{max(seconds):.0f}" if seconds else MISSING]
        rows.append([group, variant, *cells, *extent])
    return f"## Ablation\n\n{EXPLANATION}\n\n{table(rows)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the rows that are missing and write the table; 1 when one failed."""
    results, page = ROOT / "benchmarks" / "results" / "ablation", ROOT / "docs" / "accuracy.md"
    options = arguments(str(__doc__).splitlines()[0], results, page, argv)
    return min(1, run(options, all_rows(options), "ablation", render))


if __name__ == "__main__":
    sys.exit(main())
