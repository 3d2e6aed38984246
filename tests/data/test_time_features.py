import numpy as np
import pandas as pd
import pytest

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
