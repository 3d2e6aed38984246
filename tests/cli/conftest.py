from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.__main__ import main

QUICK = [
    "model.d_model=16",
    "model.nhead=2",
    "model.num_encoder_layers=1",
    "model.dim_feedforward=16",
    "training.batch_size=16",
    "training.max_steps=4",
    "training.max_steps_per_epoch=2",
]


def waves(n_rows: int = 120, names: tuple[str, ...] = ("load", "heat")) -> pd.DataFrame:
    """Return weekly waves by day, one column each."""
    rng = np.random.default_rng(0)
    t = np.arange(n_rows)
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=n_rows, freq="D")})
    for i, name in enumerate(names):
        frame[name] = 100.0 * (i + 1) + 10 * np.sin(2 * np.pi * t / 7) + rng.normal(0, 1, n_rows)
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, stood in, without outside data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TSFORMER_DATA", raising=False)
    return tmp_path


@pytest.fixture
def csv(folder) -> Path:
    """``data/waves.csv`` in it."""
    (folder / "data").mkdir()
    path = folder / "data" / "waves.csv"
    waves().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run on `waves`, made once for all tests."""
    folder = tmp_path_factory.mktemp("trained")
    waves().to_csv(folder / "waves.csv", index=False)
    argv = [f"data.path={folder}/waves.csv", "prediction_length=7", "context_length=14", *QUICK]
    assert main(["fit", *argv, f"output_dir={folder}/run"]) == 0
    return folder / "run"


@pytest.fixture
def fitted(trained, csv) -> Path:
    """A copy of that run in ``runs/fit``, with ``data/waves.csv`` as its data."""
    copy = csv.parents[1] / "runs" / "fit" / "2024-01-01_00-00-00"
    shutil.copytree(trained, copy)
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace(str(trained.parent / "waves.csv"), str(csv)))
    return copy


@pytest.fixture
def run(capsys):
    """Run a command line: status, standard output and standard error."""

    def call(*argv: str) -> tuple[int, str, str]:
        status = main(list(argv))
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def quick_fit(run, csv):
    """Fit on ``data/waves.csv`` in a moment."""

    def call(*argv: str) -> tuple[int, str, str]:
        return run("fit", "data.path=data/waves.csv", "prediction_length=7", "context_length=14", *QUICK, *argv)

    return call
