"""The folder of a run: where it is, what lies in it, how it is written."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer.cli.arguments import absolute

CONFIG, MODEL, METRICS = "config.yaml", "model.safetensors", "metrics.json"
FORECAST, PICTURE = "forecast.csv", "forecast.png"
FORECASTS = ("forecasts.parquet", "forecasts.csv.gz")
BACKTESTS = ("backtest.parquet", "backtest.csv.gz")
BY_SERIES, BACKTEST_PICTURE = "metrics_by_series.csv", "backtest.png"
ALL = (CONFIG, MODEL, METRICS, FORECAST, PICTURE, *FORECASTS, *BACKTESTS, BY_SERIES, BACKTEST_PICTURE)


@contextmanager
def run_folder(config: dict[str, Any], command: str) -> Iterator[Path]:
    """Make the folder of a run; one that is new and in which nothing was written goes again when the run fails.

    Raises
    ------
    ValueError
        When it cannot be made, or the run would write over the data that it reads.
    """
    output_dir = config["output_dir"]
    is_new = output_dir is None or not os.path.exists(_folder(output_dir))
    if not is_new:
        _check_holds_no_data(_folder(output_dir), config)
    folder = new_run(output_dir, command)
    try:
        yield folder
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def check_holds_no_model(output_dir: str | None) -> None:
    """Raise a ValueError when a run that has no model of its own would take the settings of one."""
    if output_dir is not None and os.path.exists(_folder(output_dir) / MODEL):
        raise ValueError(
            f"output_dir={output_dir} holds a trained model, whose {CONFIG} and {METRICS} would be lost: name another "
            f"folder"
        )


def _check_holds_no_data(folder: Path, config: dict[str, Any]) -> None:
    """Raise a ValueError when a file that is read has the place of one that is written, or that goes with a new run."""
    written = {(folder / name).resolve() for name in ALL}
    for key in ("path", "future"):
        path = config["data"][key]
        if path is not None and Path(path).resolve() in written:
            raise ValueError(
                f"data.{key}={path} would be lost: a run has a file of that name in its folder. Name another one, "
                f"output_dir=FOLDER, or rename the file"
            )


def clear(folder: Path) -> None:
    """Remove the files of an earlier run: to be called when there is something to write in their place."""
    for name in ALL:
        (folder / name).unlink(missing_ok=True)


def new_run(output_dir: str | None, command: str) -> Path:
    """Return the folder of a new run, made; what lies in it stays.

    Parameters
    ----------
    output_dir
        Folder; None: ``runs/COMMAND/DATE-TIME``. Relative to where the user stands.
    command
        Of the run.

    Raises
    ------
    ValueError
        When it cannot be made or written to.
    """
    if output_dir is not None:
        return _made(_folder(output_dir))
    base = Path("runs").absolute() / command
    _made(base)
    name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    for number in range(1, 1000):  # more than one in the same second
        folder = base / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise OSError(f"cannot make a folder in {base}")


def _folder(output_dir: str) -> Path:
    """Return the folder that a setting names."""
    if not isinstance(output_dir, str):
        raise ValueError(f"output_dir={output_dir} is not the name of a folder: give one, output_dir=FOLDER")
    return absolute(output_dir)


def _made(folder: Path) -> Path:
    """Make a folder, or say why nothing can be written there: now, not after the training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = "it is a file" if os.path.isfile(folder) else error.strerror
        raise ValueError(f"cannot write to the folder {folder} ({why}): name another one, output_dir=FOLDER") from None
    return folder


def find_run(run: str) -> tuple[Path, Path | None]:
    """Return the model file of a run, and its configuration if it has one.

    Parameters
    ----------
    run
        A run folder, a model file, or ``latest``: the newest model in ``runs/*/*``.

    Raises
    ------
    ValueError
        When there is none.
    """
    if run == "latest":
        models = sorted(Path("runs").absolute().glob(f"*/*/{MODEL}"), key=lambda path: path.stat().st_mtime_ns)
        if not models:
            raise ValueError(
                f"no run with a model in {Path('runs').absolute()}: train one first (python -m tsformer fit), or name "
                f"its folder, run=FOLDER"
            )
        model = models[-1]
    else:
        path = absolute(run)
        model = path / MODEL if os.path.isdir(path) else path
        if not os.path.isfile(model):
            raise ValueError(f"no such run: {model} is not there")
    config = model.parent / CONFIG
    return model, config if config.is_file() else None


def write(path: Path, fill: Callable[[Path], Any]) -> Path:
    """Write a file beside its place and rename it, so that nobody sees half of it."""
    beside = path.with_name(f".{path.name}")  # the same ending, by which writers know the format
    try:
        fill(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def write_json(path: Path, content: dict[str, Any]) -> Path:
    """Write numbers as JSON; what is not finite has no place in it."""
    return write(path, lambda file: file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n"))


class ForecastFile:
    """All test forecasts as one table, written batch by batch: Parquet, or CSV where pyarrow is not installed.

    Parameters
    ----------
    folder
        Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.is_parquet = importlib.util.find_spec("pyarrow") is not None
        self.path = folder / FORECASTS[0 if self.is_parquet else 1]
        self._beside = folder / f".{self.path.name}"
        self._file: Any = None

    def add(self, frame: pd.DataFrame) -> None:
        """Append the forecasts of a batch of windows."""
        if self.is_parquet:
            import pyarrow
            import pyarrow.parquet

            schema = None if self._file is None else self._file.schema
            table = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if self._file is None:
                self._file = pyarrow.parquet.ParquetWriter(self._beside, table.schema)
            self._file.write_table(table)
        else:
            import gzip

            is_first = self._file is None
            if is_first:
                self._file = gzip.open(self._beside, "wt", encoding="utf-8", newline="")
            frame.to_csv(self._file, index=False, header=is_first)

    def close(self, *, keep: bool) -> None:
        """Finish the file, or leave none."""
        if self._file is not None:
            self._file.close()
            if keep:
                os.replace(self._beside, self.path)
        self._beside.unlink(missing_ok=True)
