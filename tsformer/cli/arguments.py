"""What a command line asks for, and the help: read without Hydra, pandas or torch, so that it comes at once."""

from __future__ import annotations

import difflib
import importlib.resources
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

COMMANDS = {
    "fit": "train, test against the baselines on rows never seen, and forecast from the last row of the data",
    "evaluate": "test a trained model (run=...), or train and test one: benchmarks and several seeds",
    "predict": "forecast with a trained model",
    "backtest": "forecast the past from a rolling origin, beside the baselines",
}

DETAILS = {
    "fit": """
70 % of the rows by time train, 10 % choose the best epoch, the last 20 % test: every window of them, beside the
seasonal naive, ridge and repeat-last forecasts. The run folder holds config.yaml, model.safetensors, metrics.json,
forecast.csv and forecast.png.

examples
  python -m tsformer fit
  python -m tsformer fit data.path=my.csv prediction_length=24
  python -m tsformer fit data.path=shop.csv data.time=day data.id=product data.targets=sold prediction_length=14
  python -m tsformer fit data=sine model=classic
  python -m tsformer fit model.d_model=128 training.loss=quantile refit=true save_forecasts=true
""",
    "evaluate": """
With run=FOLDER (or run=latest) the model of that run is tested on the test rows of its data. Without it, one is trained
first; seeds=[0,1,2] trains one for each and reports mean and deviation. An experiment is a public benchmark with its
own split and horizons.

examples
  python -m tsformer evaluate run=latest save_forecasts=true
  python -m tsformer evaluate seeds=[0,1,2]
  python -m tsformer evaluate experiment=etth1 data.root=path/to/folder
""",
    "predict": """
Forecasts continue the data the run was trained on, read again, or another history: data.path=FILE, in the same columns.
Keys: run (default latest), prediction_length, data..., output_dir. Writes forecast.csv and forecast.png.

examples
  python -m tsformer predict run=latest
  python -m tsformer predict run=runs/fit/2026-01-31_12-00-00 data.path=new.csv prediction_length=48
""",
    "backtest": """
The last backtest.windows cut-offs of each series, backtest.step apart (by default the horizon), the last one horizon
before the end. refit=false: one training, on the rows before the first cut-off; refit=true: again before each; refit=3:
before every third. With run=FOLDER (or run=latest) the model of that run is tested, if it saw no row after the first
cut-off. The run folder holds backtest.parquet (or .csv.gz), metrics.json, metrics_by_series.csv and backtest.png.

examples
  python -m tsformer backtest
  python -m tsformer backtest data.path=my.csv prediction_length=24 backtest.windows=10 backtest.step=12
  python -m tsformer backtest data.path=my.csv prediction_length=24 refit=true training=quantile
  python -m tsformer backtest run=latest
""",
}

OPTIONS = {
    "--show-config": "print the configuration and stop",
    "--traceback": "show where in the code an error comes from",
    "--help": "this text; after a command, that command's",
    "--version": "print the version",
}


class UsageError(ValueError):
    """The command line itself is wrong."""


@dataclass(frozen=True)
class Arguments:
    """A command line, taken apart.

    Parameters
    ----------
    command
        One of ``COMMANDS``; None with ``--help`` or ``--version`` alone.
    overrides
        ``KEY=VALUE`` as typed.
    options
        The ``--options`` given.
    """

    command: str | None
    overrides: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()


def parse(argv: Sequence[str]) -> Arguments:
    """Take a command line apart.

    Raises
    ------
    UsageError
        For an unknown command or option.
    """
    options = {{"-h": "--help"}.get(word, word) for word in argv if word.startswith("-")}
    words = [word for word in argv if not word.startswith("-")]
    for option in sorted(options - OPTIONS.keys()):
        raise UsageError(f"no option {option}.{nearest(option, OPTIONS)} There are {', '.join(OPTIONS)}")
    command = words[0] if words else None
    if command is None and not options & {"--help", "--version"}:
        raise UsageError(f"which command? One of {', '.join(COMMANDS)}; see python -m tsformer --help")
    if command is not None and command not in COMMANDS:
        hint = nearest(command, COMMANDS) if "=" not in command else " The command comes first."
        raise UsageError(f"no command {command!r}.{hint} There are {', '.join(COMMANDS)}")
    return Arguments(command, tuple(words[1:]), frozenset(options))


def help_text(command: str | None) -> str:
    """Return the help of a command, or of all."""
    usage = f"usage: python -m tsformer {command or 'COMMAND'} [KEY=VALUE ...] [OPTION ...]\n"
    if command is None:
        purpose = "Forecasting with an encoder-decoder Transformer.\n\ncommands\n" + _columns(COMMANDS)
    else:
        purpose = f"{command}: {COMMANDS[command]}.\n{DETAILS[command].rstrip()}"
    choices = {group: ", ".join(names) for group, names in groups().items()}
    top = (
        "prediction_length, context_length, freq, seed, seeds, output_dir, run, refit, verbose; and GROUP.KEY, as "
        "model.d_model:\n  --show-config prints them all with their values"
    )
    return (
        f"{usage}\n{purpose}\n\nchoices: GROUP=NAME\n{_columns(choices)}\n\nkeys: KEY=VALUE\n  {top}\n\n"
        f"options\n{_columns(OPTIONS)}"
    )


def _columns(rows: dict[str, str]) -> str:
    """Set names and texts in two columns."""
    width = max(map(len, rows)) + 2
    return "\n".join(f"  {name:{width}}{text}" for name, text in rows.items())


def config_folder() -> Path:
    """Return the folder of the configuration files."""
    try:
        return Path(str(importlib.resources.files("tsformer.conf")))
    except ModuleNotFoundError:  # run from a checkout, not installed
        return Path(__file__).parents[2] / "conf"


def absolute(path: str) -> Path:
    """Return a path as the user meant it: from where they stand, ``~`` their home; that of nobody is a mere name."""
    return Path(os.path.expanduser(path)).absolute()


def groups() -> dict[str, list[str]]:
    """Return the choices of each group of the configuration."""
    folder = config_folder()
    return {
        group: sorted(file.stem for file in (folder / group).glob("*.yaml"))
        for group in ("data", "model", "training", "trainer", "experiment")
    }


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint at the word most like this one, or nothing."""
    found = difflib.get_close_matches(word, list(words), n=1)
    return f" Did you mean {found[0]}?" if found else ""
