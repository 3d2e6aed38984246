"""Every accuracy we report, by one command: public benchmarks, CRPS, and the defaults on data nobody tuned for.

    TSFORMER_DATA=path/to/folder python benchmarks/accuracy.py

Each (setting, seed) is a row, one JSON file in ``benchmarks/results/accuracy``; a finished one is not computed again.
The tables of ``docs/accuracy.md`` are written from these files; a row that is not there is shown as missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import accuracy_page
import experiments
from controls import controls
from experiments import seeded
from families import FAMILIES
from rows import Row, arguments, run

from tsformer import TransformerForecaster

ROOT = Path(__file__).parents[1]
PUBLIC = ("etth1", "etth2", "exchange", "illness", "m4_hourly", "m4_weekly")
CRPS = ("etth1", "etth2", "exchange")
# Defaults alone: horizons by frequency, on every real data set. The tests of M4 and of stallion have one horizon only.
HOURLY, DAILY, WEEKLY, MONTHLY = (24, 168), (7, 56), (4, 26), (6, 24)
REAL: dict[str, tuple[int, ...]] = {
    "air_quality": HOURLY,
    "etth1": HOURLY,
    "etth2": HOURLY,
    "electricity_hourly": HOURLY,
    "m4_hourly": (48,),
    "exchange": DAILY,
    "temperature_daily": DAILY,
    "pageviews_daily": DAILY,
    "illness": WEEKLY,
    "m4_weekly": (13,),
    "sunspots_monthly": MONTHLY,
    "stallion": MONTHLY[:1],
}


def all_rows(options: argparse.Namespace) -> list[Row]:
    """Return every row, with the seeds and limits of the command line."""
    limits = {"max_time": options.max_time, "max_steps": options.max_steps}
    given = [f"training.{name}={value}" for name, value in limits.items() if value is not None]
    rows = []
    for name in PUBLIC:
        rows.append(Row(f"public/{name}/controls", experiments.baselines, {"experiment": name}))
        rows += seeded(f"public/{name}", experiments.train, [f"experiment={name}", *given], options.seeds)
    for name in CRPS:
        rows.append(Row(f"crps/{name}/controls", experiments.quantile_baselines, {"experiment": name}))
        overrides = [f"experiment={name}", *experiments.QUANTILES, *given]
        rows += seeded(f"crps/{name}", experiments.train_quantiles, overrides, options.seeds)
    cases = [("defaults", data, horizon) for data, horizons in REAL.items() for horizon in horizons]
    cases += [("families", data, horizon) for data, family in FAMILIES.items() for horizon in family.horizons]
    for group, data, horizon in cases:
        case, place = {"data": data, "horizon": horizon}, f"{group}/{data}-{horizon}"
        rows.append(Row(f"{place}/controls", controls, case))
        defaults = TransformerForecaster(horizon).get_params
        for seed in options.seeds:
            of_seed = {**case, "seed": seed, **limits}
            rows.append(Row(f"{place}/seed-{seed}", experiments.train_defaults, of_seed, defaults))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the rows that are missing and write the page; 1 when one failed."""
    results, page = ROOT / "benchmarks" / "results" / "accuracy", ROOT / "docs" / "accuracy.md"
    options = arguments(str(__doc__).splitlines()[0], results, page, argv)
    return min(1, run(options, all_rows(options), "results", accuracy_page.render))


if __name__ == "__main__":
    sys.exit(main())
