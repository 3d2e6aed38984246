"""Start-up: processor time of fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from speed.measure import Table, alternate, environment

IMPORTS = {
    "transformers": "from transformers import TimeSeriesTransformerForPrediction",
    "darts": "from darts.models import TransformerModel",
    "neuralforecast": "import neuralforecast",
}


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return the tables of imports and commands."""
    python, rounds = sys.executable, 2 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        fit = "fit data=sine training.max_steps=2 output_dir=run".split()
        seconds([python, "-m", "tsformer", *fit], folder)
        imports = {
            "python -c pass": "pass",
            "import tsformer": "import tsformer",
            "import torch": "import torch",
        } | {IMPORTS[name]: IMPORTS[name] for name in names}
        commands = {
            "python -m tsformer --help": "--help",
            "python -m tsformer predict run=run": "predict run=run output_dir=forecast",
        }
        first = Table("import in a fresh interpreter", "s", "import torch")
        tasks = {what: lambda c=code: seconds([python, "-c", c], folder) for what, code in imports.items()}
        first.samples = alternate(tasks, rounds)
        second = Table("a command from start to end", "s", "import torch, for comparison")
        commands_ = {
            what: lambda a=words: seconds([python, "-m", "tsformer", *a.split()], folder)
            for what, words in commands.items()
        }
        commands_[second.reference] = lambda: seconds([python, "-c", "import torch"], folder)
        second.samples = alternate(commands_, rounds)
    return {"tables": [first.to_dict(), second.to_dict()]}


def seconds(command: list[str], folder: str) -> float:
    """Return the processor time of a command, system calls included."""
    out = Path(folder, "output.txt")
    with out.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=stream, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{out.read_text(encoding='utf-8')[-2000:]}")
    return used.ru_utime + used.ru_stime
