"""How things are measured: in alternation, one thread, with the spread of the ratios."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PEERS = ("transformers", "darts", "neuralforecast")
# Processor time: with one thread that is what a clock on the wall shows on an idle machine, and it stays that on a
# busy one.
clock = time.process_time


@dataclass
class Table:
    """What several contenders took for the same work, sample by sample.

    Parameters
    ----------
    work
        What was done.
    unit
        Of the samples; less is better.
    reference
        Contender whose samples the others are divided by.
    samples
        For each contender one number a round; rounds line up, so that ratios are those of one moment.
    notes
        What to know about a contender.
    rate
        A rate to show beside: its name, and the number of samples' units that it counts, rate = number / sample.
    """

    work: str
    unit: str
    reference: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    rate: tuple[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON, with medians, quartiles and ratios."""
        is_comparable = min(self.samples.get(self.reference, [0.0])) > 0
        return {
            "work": self.work,
            "unit": self.unit,
            "reference": self.reference,
            "rate": self.rate,
            "rows": [
                {
                    "who": who,
                    **spread(samples),
                    "ratio": spread(self.ratios(who)) if is_comparable else None,
                    "note": self.notes.get(who, ""),
                    "samples": [float(f"{x:.4g}") for x in samples],
                }
                for who, samples in self.samples.items()
            ],
        }

    def ratios(self, who: str) -> list[float]:
        """Samples of a contender over those of the reference in the same rounds."""
        pairs = zip(self.samples[who], self.samples[self.reference], strict=False)
        return [sample / reference for sample, reference in pairs]


def spread(samples: Iterable[float]) -> dict[str, float]:
    """Return median and quartiles."""
    low, median, high = np.quantile(list(samples), [0.25, 0.5, 0.75])
    return {"median": float(f"{median:.4g}"), "q1": float(f"{low:.4g}"), "q3": float(f"{high:.4g}")}


def timed(function: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begin = clock()
    function()
    return clock() - begin


def alternate(
    tasks: Mapping[str, Callable[[], float]], rounds: int, *, warmup: bool = True, budget: float = float("inf")
) -> dict[str, list[float]]:
    """Run tasks in turn, A B A B ..., and return what each returned, round by round.

    Parameters
    ----------
    tasks
        Each returns its own measure, `timed` of something mostly.
    rounds
        Of all tasks.
    warmup
        Run each once before, unless a first run has used up its budget: then that is its only sample.
    budget
        Seconds of a task after which it is left out of further rounds.
    """
    spent = dict.fromkeys(tasks, 0.0)
    samples: dict[str, list[float]] = {name: [] for name in tasks}

    def run(name: str) -> float:
        begin = clock()
        sample = tasks[name]()
        spent[name] += clock() - begin
        return sample

    for name in tasks if warmup else ():
        sample = run(name)
        if spent[name] > budget:
            samples[name].append(sample)
    for _ in range(rounds):
        for name in tasks:
            if spent[name] <= budget:
                samples[name].append(run(name))
    return samples


def exponent(sizes: Iterable[float], costs: Iterable[float]) -> float:
    """Return the slope of log cost over log size: 1 is linear, 2 quadratic."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(costs)), 1)[0])


def in_child(job: str, *arguments: object) -> dict[str, Any]:
    """Run a job of `speed.jobs` in a fresh process and return what it says."""
    command = [sys.executable, str(ROOT / "benchmarks" / "speed" / "jobs.py"), job, *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{job} {arguments} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def environment() -> dict[str, str]:
    """Return the environment of a child: one thread, this package, no word from the hubs."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    return os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


def installed(names: Iterable[str] = PEERS) -> list[str]:
    """Return those of the packages that are there."""
    return [name for name in names if version(name)]


def version(name: str) -> str | None:
    """Return the version of a package, None where it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def header() -> dict[str, Any]:
    """Return what was measured on what: versions, processor, memory, day."""
    import tsformer

    packages = ("torch", "numpy", "pandas", "lightning", "pytorch-lightning", *PEERS)
    return {
        "date": date.today().isoformat(),
        "tsformer": f"{tsformer.__version__} ({_commit()})",
        "python": platform.python_version(),
        "versions": {name: found for name in packages if (found := version(name))},
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "threads": 1,
    }


def _commit() -> str:
    """Return the commit that is checked out."""
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no git"


def _processor() -> str:
    """Return the name of the processor and how many of it there are."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores"
