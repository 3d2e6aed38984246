"""The tables of ``docs/accuracy.md``, from the rows there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rows import MISSING, Result, number, table

OURS = "TransformerForecaster"
LONG_HORIZON = {"etth1": "ETTh1", "etth2": "ETTh2", "exchange": "Exchange", "illness": "ILI"}
M4 = {"m4_hourly": "M4 Hourly", "m4_weekly": "M4 Weekly"}
HORIZONS = ("96 (ILI 24)", "192 (36)", "336 (48)", "720 (60)")
# What must be reached, and what we aim at.
BOUNDS = {
    "etth1": ("0.403 / 0.417", "0.392 / 0.408"),
    "etth2": ("0.337 / 0.381", "0.328 / 0.374"),
    "exchange": ("0.341 / 0.390", "0.318 / 0.384"),
    "illness": ("1.90 / 0.88", "1.60 / 0.78"),
    "m4_hourly": ("0.55", "0.44"),
    "m4_weekly": ("0.85", "0.739"),
}
CRPS_BOUNDS = {"etth1": ("0.292", "0.283"), "etth2": ("0.169", "0.164"), "exchange": ("0.037", "0.036")}
RATIO_BOUNDS = {
    "defaults": "floor: geometric mean 0.975, none above 1.04; aim: 0.94, none above 1.01",
    "families": "floor: geometric mean 0.92; aim: 0.85",
}


@dataclass
class Case:
    """One experiment: its controls, and the results of the seeds that are there, of all that are wanted."""

    controls: Result = field(default_factory=dict)
    seeds: list[Result] = field(default_factory=list)
    wanted: int = 0

    @property
    def scores(self) -> dict[str, list[dict[str, Any]]]:
        """Scores by model: those of each seed for ours, one for a control."""
        ours = {OURS: [result["scores"] for result in self.seeds]}
        return ours | {model: [scores] for model, scores in self.controls.items()}

    @property
    def extent(self) -> list[str]:
        """Seeds there are, and the seconds of the longest training."""
        seconds = [result["train_seconds"] for result in self.seeds]
        return [f"{len(self.seeds)} of {self.wanted}", f"{max(seconds):.0f}" if seconds else MISSING]


def render(results: Mapping[str, Result | None]) -> str:
    """Return the tables, from results by row name, None where there is none."""
    cases: dict[str, Case] = {}
    for name, result in results.items():
        place, _, row = name.rpartition("/")
        case = cases.setdefault(place, Case())
        case.wanted += row != "controls"
        if result is not None and row == "controls":
            case.controls = result
        elif result is not None:
            case.seeds.append(result)
    parts = {
        "## Public benchmarks": _summary(cases),
        "### Long horizons, MSE / MAE": _long_horizons(cases),
        "### M4": _m4(cases),
        "## Probabilistic forecasts, CRPS": _crps(cases),
        "## Defaults alone, real data": _ratios(cases, "defaults"),
        "## Defaults alone, generated families": _ratios(cases, "families"),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in parts.items())


def mean_of_horizons(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over horizons of each metric."""
    return {metric: float(np.mean([score[metric] for score in scores.values()])) for metric in ("mse", "mae")}


def pair(scores: Sequence[Mapping[str, float]], *, deviation: bool = True) -> str:
    """Return MSE / MAE, each the mean over seeds, with its deviation."""
    if not scores:
        return MISSING
    return " / ".join(number([score[m] for score in scores], deviation=deviation) for m in ("mse", "mae"))


def _summary(cases: Mapping[str, Case]) -> str:
    rows = [["", "score", f"{OURS} ± deviation", "seeds", "seconds", "floor", "aim", "best control"]]
    for name, title in (LONG_HORIZON | M4).items():
        case = cases[f"public/{name}"]
        if name in M4:
            kind, means = "OWA", {model: [one["owa"] for one in each] for model, each in case.scores.items()}
            texts = {model: number(each) for model, each in means.items()}
        else:
            averages = {model: list(map(mean_of_horizons, each)) for model, each in case.scores.items()}
            kind, means = "MSE / MAE", {model: [one["mse"] for one in each] for model, each in averages.items()}
            texts = {model: pair(each) for model, each in averages.items()}
        best = min(case.controls, key=lambda model: means[model], default=None)
        control = MISSING if best is None else f"{best} {texts[best]}"
        rows.append([title, kind, texts[OURS], *case.extent, *BOUNDS[name], control])
    return f"{table(rows)}\n\nMSE / MAE: mean of four horizons. Seconds: of the longest `fit`, on one thread."


def _long_horizons(cases: Mapping[str, Case]) -> str:
    rows = [["", "", *HORIZONS, "mean"]]
    for name, title in LONG_HORIZON.items():
        for model, each in cases[f"public/{name}"].scores.items():
            horizons = list(each[0]) if each else []
            cells = [pair([scores[h] for scores in each], deviation=False) for h in horizons] or [MISSING] * 4
            rows.append([title, model, *cells, pair(list(map(mean_of_horizons, each)), deviation=False)])
    return table(rows)


def _m4(cases: Mapping[str, Case]) -> str:
    rows = [["", "", "sMAPE", "MASE", "OWA"]]
    for name, title in M4.items():
        for model, each in cases[f"public/{name}"].scores.items():
            rows.append([title, model, *(number([scores[m] for scores in each]) for m in ("smape", "mase", "owa"))])
    return table(rows)


def _crps(cases: Mapping[str, Case]) -> str:
    rows = [["", "", "96", "192", "336", "720", "mean", "seeds", "seconds", "floor", "aim"]]
    for name, bounds in CRPS_BOUNDS.items():
        case = cases[f"crps/{name}"]
        for model, each in case.scores.items():
            horizons = list(each[0]) if each else []
            cells = [number([scores[h] for scores in each]) for h in horizons] or [MISSING] * 4
            mean = number([float(np.mean(list(scores.values()))) for scores in each])
            rest = [*case.extent, *bounds] if model == OURS else [""] * 4
            rows.append([LONG_HORIZON[name], model, *cells, mean, *rest])
    return table(rows)


def _ratios(cases: Mapping[str, Case], group: str) -> str:
    rows = [["", "horizon", OURS, "ridge (look-back)", "seasonal naive (season)", "ratio", "seeds", "seconds"]]
    ratios = []
    for place, case in cases.items():
        if not place.startswith(f"{group}/"):
            continue
        data, _, horizon = place.removeprefix(f"{group}/").rpartition("-")
        controls = [MISSING, MISSING]
        of_seeds: list[float] = []
        if case.controls:
            ridge, naive = case.controls["ridge"], case.controls["seasonal_naive"]
            controls = [f"{ridge['mae']:.3f} ({ridge['context']})", f"{naive['mae']:.3f} ({naive['season']})"]
            of_seeds = [result["mae"] / min(ridge["mae"], naive["mae"]) for result in case.seeds]
        if of_seeds:
            ratios.append(float(np.mean(of_seeds)))
        ours = number([result["mae"] for result in case.seeds])
        rows.append([data, horizon, ours, *controls, number(of_seeds), *case.extent])
    text = f"{len(ratios)} of {len(rows) - 1} ratios"
    if ratios:
        text += f": geometric mean **{np.exp(np.mean(np.log(ratios))):.3f}**, worst {max(ratios):.3f}"
    return f"{text} ({RATIO_BOUNDS[group]}).\n\n{table(rows)}"
