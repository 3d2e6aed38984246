from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

FILES = {
    "etth1": "ETTh1.csv",
    "etth2": "ETTh2.csv",
    "exchange": "exchange_rate.csv",
    "illness": "national_illness.csv",
    "air_quality": "air_quality.csv.gz",
}


@pytest.fixture(scope="session")
def outside_folder() -> Path:
    """The folder TSFORMER_DATA of the public data sets, or skip."""
    folder = os.environ.get("TSFORMER_DATA")
    if not folder:
        pytest.skip("set TSFORMER_DATA to the folder of the public data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def read_outside(outside_folder):
    """Read a public data set from that folder."""

    def read(name: str) -> pd.DataFrame:
        path = outside_folder / FILES[name]
        if not path.exists():
            pytest.skip(f"{path.name} is not in TSFORMER_DATA")
        time = "timestamp" if name == "air_quality" else "date"
        return pd.read_csv(path, parse_dates=[time]).rename(columns={time: "ds"})

    return read
