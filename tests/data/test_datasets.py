import gzip
import os

import numpy as np
import pandas as pd
import pytest

from tsformer.data import datasets
from tsformer.data.datasets import load_dataset, read_table
from tsformer.data.panel import to_panel

ROOT = os.environ.get("TSFORMER_DATA")
needs_data = pytest.mark.skipif(not ROOT, reason="TSFORMER_DATA names no folder of outside data sets")


def test_air_quality_ships_with_the_library():
    frame = load_dataset("air_quality")
    assert frame.columns[:6].tolist() == ["ds", "pm25", "dew_point", "temperature", "pressure", "wind_speed"]
    assert len(frame) == 43_824 and frame.pm25.isna().sum() == 2_067
    assert to_panel(frame).schema.freq == "h"


def test_the_sine_is_always_the_same():
    frame = load_dataset("sine")
    assert len(frame) == 3000 and frame.equals(load_dataset("sine"))
    assert np.abs(frame.y - np.sin(2 * np.pi * frame.ds / 25)).std() < 0.02


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="no data set 'etth', did you mean 'etth"):
        load_dataset("etth")


def test_outside_data_need_a_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TSFORMER_DATA", raising=False)
    with pytest.raises(ValueError, match="ETTh1.csv from https.*TSFORMER_DATA"):
        load_dataset("etth1")
    with pytest.raises(ValueError, match=f"needs {tmp_path}/ETTh1.csv, which is not there"):
        load_dataset("etth1", tmp_path)


def test_a_wrong_checksum_is_a_warning(tmp_path):
    (tmp_path / "ETTh1.csv").write_text("date,OT\n2016-07-01 00:00:00,1\n2016-07-01 01:00:00,2\n")
    with pytest.warns(UserWarning, match=r"ETTh1\.csv is not the known version"):
        assert load_dataset("etth1", tmp_path).OT.tolist() == [1, 2]


@needs_data
@pytest.mark.parametrize(
    ("name", "freq", "n_series", "n_channels"),
    [
        *[("etth1", "h", 1, 7), ("etth2", "h", 1, 7), ("exchange", "D", 1, 8), ("illness", "W-TUE", 1, 7)],
        *[
            ("m4_hourly", 1, 414, 1),
            ("m4_weekly", 1, 359, 1),
            ("electricity_hourly", "h", 1, 1),
            ("stallion", "MS", 350, 1),
        ],
        *[("temperature_daily", "D", 1, 2), ("pageviews_daily", "D", 1, 1), ("sunspots_monthly", "MS", 1, 1)],
    ],
)
@pytest.mark.filterwarnings("ignore:.*stamps are missing")
def test_outside_data_sets(name, freq, n_series, n_channels):
    if name == "stallion":
        pytest.importorskip("pyarrow")
    panel = to_panel(load_dataset(name, ROOT))
    assert (panel.schema.freq, panel.n_series, panel.n_channels) == (freq, n_series, n_channels)


@needs_data
def test_m4_ends_with_the_official_test_part():
    frame = load_dataset("m4_hourly", ROOT)
    assert frame.attrs["test_size"] == 48
    first = frame[frame.unique_id == "H1"]
    assert first.ds.tolist() == list(range(1, len(first) + 1)) and first.y.tolist()[-48:][:3] == [619, 565, 532]


def table(n=6):
    ds = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    return pd.DataFrame({"code": [f"A{i}" for i in range(n)], "date": ds, "load": np.arange(n) * 1.0, "note": "x"})


def test_a_csv_file_by_its_first_column_that_parses_as_time(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        table().to_csv(file, index=False)
    for name in ("a.csv", "a.csv.gz"):
        frame = read_table(tmp_path / name)
        assert frame.columns.tolist() == ["code", "ds", "load", "note"] and frame.ds.dtype.kind == "M"
        assert to_panel(frame).schema.targets == ("load",)


def test_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    table().to_parquet(tmp_path / "a.parquet")
    assert to_panel(read_table(tmp_path / "a.parquet")).schema.freq == "D"
    table().assign(date=lambda d: pd.to_datetime(d.date)).set_index("date").to_parquet(tmp_path / "b.parquet")
    assert to_panel(read_table(tmp_path / "b.parquet")).schema.freq == "D"


def test_named_columns_of_a_file(tmp_path):
    frame = pd.concat([table().assign(shop=shop, tick=range(0, 60, 10), other=1.0) for shop in ("x", "y")])
    frame.to_csv(tmp_path / "a.csv", index=False)
    got = read_table(tmp_path / "a.csv", time="tick", id="shop", targets=["load"])
    assert got.columns.tolist() == ["unique_id", "ds", "load"] and to_panel(got).schema.freq == 10
    frame.rename(columns={"shop": "unique_id"}).to_csv(tmp_path / "b.csv", index=False)
    assert read_table(tmp_path / "b.csv", time="tick", targets=["load"]).equals(got)  # the id by its usual name
    for role, wrong in [("time", {"time": "when"}), ("id", {"id": "who"}), ("target", {"targets": ["what"]})]:
        with pytest.raises(ValueError, match=f"no {role} column '{next(iter(wrong.values()))[0][:1]}?"):
            read_table(tmp_path / "a.csv", **wrong)
    with pytest.raises(ValueError, match="target 'note' .*must hold numbers"):
        read_table(tmp_path / "a.csv", targets="note")


def test_zones_with_summer_time_in_a_csv_are_read_as_utc(tmp_path):
    ds = pd.date_range("2023-10-28", periods=48, freq="h", tz="Europe/Amsterdam")
    pd.DataFrame({"ds": ds, "y": 1.0}).to_csv(tmp_path / "a.csv", index=False)
    frame = read_table(tmp_path / "a.csv")
    assert str(frame.ds.dt.tz) == "UTC" and (frame.ds == ds).all()


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"no such file: {tmp_path}/nope.csv"):
        read_table("nope.csv")
    for name, text, match in [
        ("a.txt", "x", "CSV or Parquet"),
        ("a.csv", "", "no CSV table"),
        ("b.csv", "a,b\n1,2", "as time"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=match):
            read_table(name)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")

    def refuse(*args, **kwargs):
        raise ImportError

    monkeypatch.setattr(datasets.pd, "read_parquet", refuse)
    with pytest.raises(ValueError, match=r"tsformer\[parquet\]"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("number", ["1.5", "1,5"])
def test_semicolons_and_decimal_commas(tmp_path, number):
    path = tmp_path / "x.csv"
    path.write_text("day;sold\n" + "".join(f"2024-01-{i:02};{number}\n" for i in range(1, 10)))
    table = datasets.read_table(path)
    assert table["sold"].tolist() == [1.5] * 9 and table["ds"].iloc[-1] == pd.Timestamp("2024-01-09")


def test_written_row_numbers_are_no_target(tmp_path):
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=9), "sold": 2.5})
    frame.to_csv(tmp_path / "x.csv")
    assert list(datasets.read_table(tmp_path / "x.csv")) == ["ds", "sold"]


def test_a_file_without_rows(tmp_path):
    (tmp_path / "x.csv").write_text("day,sold\n")
    with pytest.raises(ValueError, match="has no rows"):
        datasets.read_table(tmp_path / "x.csv")


def test_a_file_without_header(tmp_path):
    for number, first in enumerate(("2024-01-01,1.5,1.5", "1,10", "01/01/2024 10:00,3", "0.5,-1e3")):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"{first}\n{first}\n")
        with pytest.raises(ValueError, match="has no header: its first row is .* Add a row with the names"):
            read_table(path)


def test_day_first_dates(tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("date,y\n" + "".join(f"{d:02d}/01/2024,{d}\n" for d in range(1, 20)))
    assert read_table(path)["ds"].tolist() == pd.date_range("2024-01-01", periods=19).tolist()
    path.write_text("date,y\n13/01/2024,1\n01/13/2024,2\n")
    with pytest.raises(ValueError, match="'date' holds '01/13/2024', .* write all of them alike"):
        read_table(path, time="date")
