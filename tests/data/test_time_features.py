import sys

import numpy as np
import pandas as pd
import pytest

from tsformer.data import time_features
from tsformer.data.time_features import SIZES, calendar, calendar_fields, calendar_sizes


@pytest.mark.parametrize(
    ("freq", "fields"),
    [
        ("s", ("second", "minute", "hour", "dayofweek", "month")),
        ("15min", ("minute", "hour", "dayofweek", "month")),
        ("h", ("hour", "dayofweek", "month")),
        ("D", ("dayofweek", "day", "month")),
        ("B", ("dayofweek", "day", "month")),
        ("W-MON", ("week", "month")),
        ("ME", ("month",)),
        ("QS", ("month",)),
    ],
)
def test_fields_by_frequency(freq, fields):
    assert calendar_fields(freq) == fields
    assert len(calendar_sizes(fields)) == len(fields)


@pytest.mark.parametrize("freq", [1, "YE"])
def test_time_without_a_calendar_is_refused(freq):
    with pytest.raises(ValueError, match="timestamp_encoding='none'"):
        calendar_fields(freq)


def test_fields_are_those_of_pandas_and_inside_their_sizes():
    index = pd.date_range("1967-12-25 00:00:07", periods=20_000, freq="2h13min31s")
    fields = tuple(SIZES)
    values = calendar(index.to_numpy(), fields)
    expected = [index.second, index.minute, index.hour, index.dayofweek, index.day - 1]
    expected += [index.isocalendar().week.to_numpy(dtype=int) - 1, index.month - 1]
    assert np.array_equal(values, np.stack(expected, axis=-1)) and values.dtype == np.int64
    assert (values >= 0).all() and (values < np.array(calendar_sizes(fields))).all()


def test_utc_stamps_are_read_on_the_clock_of_the_zone():
    index = pd.date_range("2023-10-28 20:00", periods=12, freq="h", tz="UTC")
    values = calendar(index.tz_localize(None).to_numpy().reshape(3, 4), ("hour",), tz="Europe/Amsterdam")
    assert values.shape == (3, 4, 1)
    assert values.ravel().tolist() == index.tz_convert("Europe/Amsterdam").hour.tolist()


# --------------------------------------------------------------------------------------------- holidays


def test_holidays_are_fields_of_two_levels():
    pytest.importorskip("holidays")
    assert calendar_fields("D", holidays="DE") == ("dayofweek", "day", "month", "holiday:DE")
    fields = calendar_fields("h", holidays=["DE-BY", "FR"])
    assert fields[-2:] == ("holiday:DE-BY", "holiday:FR") and calendar_sizes(fields)[-2:] == (2, 2)
    assert calendar_fields("D", holidays=None) == calendar_fields("D", holidays=[]) == calendar_fields("D")


def test_public_holidays_are_one():
    pytest.importorskip("holidays")
    days = pd.date_range("2023-12-20", "2025-01-10")
    marked = calendar(days.to_numpy(), ("holiday:DE",))[:, 0]
    found = set(days[marked == 1].strftime("%Y-%m-%d"))
    assert marked.dtype == np.int64 and set(marked) == {0, 1}
    assert {"2023-12-25", "2024-01-01", "2024-03-29", "2024-05-01", "2024-10-03", "2024-12-26", "2025-01-01"} <= found
    assert "2024-01-06" not in found  # in Bavaria alone
    assert calendar(np.array(["2024-01-06"], dtype="M8[D]"), ("holiday:DE-BY",)).tolist() == [[1]]
    assert calendar(days.to_numpy()[:0], ("holiday:DE",)).shape == (0, 1)


def test_holidays_are_on_the_clock_of_the_zone():
    pytest.importorskip("holidays")
    stamps = pd.date_range("2023-12-31 21:00", periods=26, freq="h").to_numpy().reshape(2, 13)  # UTC
    marked = calendar(stamps, ("holiday:DE",), tz="Europe/Berlin")
    assert marked.shape == (2, 13, 1) and marked.ravel().tolist() == [0, 0] + [1] * 24


@pytest.mark.parametrize(("country", "near"), [("DX", "DE"), ("GERMANY", "GE"), ("DE-BX", "DE-BY"), ("de", "DE")])
def test_an_unknown_country_is_refused_with_near_ones(country, near):
    pytest.importorskip("holidays")
    with pytest.raises(ValueError, match=f"holidays='{country}'.*near are .*{near}"):
        calendar_fields("D", holidays=country)


@pytest.mark.parametrize("freq", ["W-MON", "ME", "2D", "2B"])
def test_holidays_need_steps_of_a_day_or_less(freq):
    with pytest.raises(ValueError, match="holidays are days"):
        calendar_fields(freq, holidays="DE")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    time_features._holidays_of.cache_clear()
    with pytest.raises(ValueError, match=r"tsformer\[holidays\]"):
        calendar_fields("D", holidays="DE")
