"""Data of a run, and which rows of it are for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsformer.config import check_bool, check_integer
from tsformer.data.datasets import load_dataset, read_table
from tsformer.data.panel import Panel, to_panel
from tsformer.data.series import ROLES
from tsformer.data.transforms import TargetTransform
from tsformer.evaluation.benchmarks import (
    M4_PROTOCOLS,
    PROTOCOLS,
    LongHorizonProtocol,
    M4Protocol,
    split_70_10_20,
)

Config = dict[str, Any]
KINDS: dict[str, dict[str, Any]] = {"long_horizon": PROTOCOLS, "m4": M4_PROTOCOLS}


@dataclass(frozen=True)
class Split:
    """Data and which rows of it are for what.

    Parameters
    ----------
    frame, panel
        All rows, as they came and as a panel.
    train_end, test_begin
        (N,) end of the training rows and first test row of each series; what lies between chooses the epoch.
    validation_size
        Of the rows before the test: a share, or steps.
    protocol
        Of a public benchmark.
    """

    frame: pd.DataFrame
    panel: Panel
    train_end: np.ndarray
    test_begin: np.ndarray
    validation_size: float | int
    protocol: LongHorizonProtocol | M4Protocol | None = None

    @property
    def seen(self) -> Panel:
        """Training and validation rows."""
        return self.panel.rows(0, self.test_begin)

    def n_windows(self, horizon: int) -> int:
        """Return how many test windows of a horizon there are."""
        return int(np.maximum(self.panel.lengths - self.test_begin - horizon + 1, 0).sum())


def read_data(config: Config) -> pd.DataFrame:
    """Return the data that a configuration names."""
    data = config["data"]
    columns = {role: data[role] for role in ("time", "id") if data[role] is not None}
    if data["path"] is not None:
        kept = dict(weight=data["weight"], covariates=covariates_of(config))
        return read_table(str(data["path"]), targets=data["targets"], **kept, **columns)
    if data["name"] is None:
        raise ValueError("which data? data=NAME, or data.path=my.csv for a file")
    if columns:
        raise ValueError(f"data.{next(iter(columns))} names a column of a file (data.path=...), not of {data['name']}")
    return load_dataset(data["name"], data["root"])


def covariates_of(config: Config) -> list[str]:
    """Return the names of all covariates."""
    given = (config["data"][role] for role in ROLES)
    return [name for names in given if names is not None for name in ([names] if isinstance(names, str) else names)]


def read_future(config: Config) -> pd.DataFrame | None:
    """Return the known covariates of the steps to come; None where no file of them is named."""
    data = config["data"]
    if data["future"] is None:
        return None
    if data["known"] is None:
        raise ValueError("data.future holds known covariates: name its columns with data.known=[...]")
    columns = {role: data[role] for role in ("time", "id") if data[role] is not None}
    known = [data["known"]] if isinstance(data["known"], str) else data["known"]
    return read_table(str(data["future"]), targets=[], covariates=known, **columns)


def panel_of(config: Config, frame: pd.DataFrame) -> Panel:
    """Return the data as a panel; those of a file that has ids but no ``y`` with every numeric column as a target.

    Raises
    ------
    ValueError
        For data that are no series, or a value that the transform of the targets has no image of.
    """
    targets, weight = config["data"]["targets"], config["data"]["weight"]
    if targets is None and config["data"]["path"] is not None and "unique_id" in frame.columns:
        if "y" not in frame.columns:
            others = ["unique_id", "ds", *covariates_of(config), *([] if weight is None else [weight])]
            targets = list(frame.drop(columns=others).select_dtypes("number").columns) or None
    roles = {role: config["data"][role] for role in ROLES}
    panel = to_panel(frame, freq=config["freq"], target_cols=targets, weight_col=weight, **roles)
    transform = config["model"]["target_transform"]
    if isinstance(transform, str):  # what else is wrong with it, the estimator says
        TargetTransform(transform).check(panel)  # forecasts read all rows, a training only the first of them
    return panel


def split_rows_of(config: Config) -> Split:
    """Return data and split: that of a benchmark, the official one of M4, else 70/10/20 by time.

    Raises
    ------
    ValueError
        When the horizon is not set, no series has a test window, or the data are not the whole benchmark of
        ``data.protocol``.
    """
    horizon = config["prediction_length"]
    if horizon is None:
        raise ValueError(
            "how many steps to forecast? Set prediction_length=24, say: these data bring none of their own"
        )
    check_integer("prediction_length", horizon, minimum=1)
    check_bool("data.save_forecasts", config["data"]["save_forecasts"])
    check_season(config)
    frame = read_data(config)
    panel = panel_of(config, frame)
    if "mean" in panel.schema.targets:  # before the training, not after it
        raise ValueError("a target cannot be called 'mean', the name of the mean over targets: rename that column")
    protocol = _protocol(config["data"])
    share = config["training"]["validation_size"]
    if isinstance(protocol, M4Protocol):
        protocol.check(panel, horizon)
    if isinstance(protocol, LongHorizonProtocol):
        train_end, test_begin = np.array([protocol.n_train]), np.array([protocol.test_begin])
    elif "test_size" in frame.attrs:
        test_begin = train_end = panel.lengths - frame.attrs["test_size"]
        return Split(frame, panel, train_end, test_begin, share, protocol)
    else:
        train_end, test_begin = split_70_10_20(panel.lengths)
    if isinstance(share, float) and share > 0:
        # A share is one of all rows; the default is the 10 % of 70/10/20, to the row.
        if panel.n_series == 1:
            steps = int(test_begin[0] - train_end[0]) if share == 0.1 else int(share * panel.lengths[0])
            share = max(1, steps)
        else:
            share = share / 0.8
    longest = int((panel.lengths - test_begin).max())
    if protocol is None and longest < horizon:
        raise ValueError(
            f"nothing to test on: the longest series has {int(panel.lengths.max())} rows, {longest} of them (the last "
            f"20 %) for the test, and prediction_length={horizon} needs {horizon}. Give at least {5 * horizon} rows, "
            f"or lower prediction_length"
        )
    return Split(frame, panel, train_end, test_begin, share, protocol)


def check_season(config: Config) -> None:
    """Raise an error when the season of the control cannot be one."""
    if config["data"]["season_length"] is not None:
        check_integer("data.season_length", config["data"]["season_length"], minimum=1)


def _protocol(data: Config) -> LongHorizonProtocol | M4Protocol | None:
    """Return the benchmark that the data are to be scored by."""
    kind = data["protocol"]
    if kind is None:
        return None
    if data["name"] not in KINDS.get(kind, {}):
        known = "; ".join(f"{name}, for {', '.join(sets)}" for name, sets in KINDS.items())
        raise ValueError(f"data.protocol={kind!r} with data={data['name']}: the protocols are {known}")
    return KINDS[kind][data["name"]]
