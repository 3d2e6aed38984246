import numpy as np
import pandas as pd
import pytest

from tsformer.data.axis import infer_freq
from tsformer.data.frequency import canonical_freq, make_grid, season_length

CURRENT = [
    *(
        "h",
        "2h",
        "min",
        "15min",
        "s",
        "500ms",
        "D",
        "7D",
        "B",
        "W-SUN",
        "W-MON",
        "2W-WED",
        "MS",
        "ME",
        "2MS",
        "BMS",
        "BME",
    ),
    *("QS-JAN", "QE-DEC", "QE-NOV", "BQE-DEC", "BQS-JAN", "YS-JAN", "YE-DEC", "YS-APR", "YE-JUN", "BYE-DEC", "2QS-JAN"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[
            ("M", "ME"),
            ("H", "h"),
            ("T", "min"),
            ("15T", "15min"),
            ("S", "s"),
            ("Q", "QE-DEC"),
            ("A", "YE-DEC"),
            ("L", "ms"),
        ],
        *[
            ("Y", "YE-DEC"),
            ("BM", "BME"),
            ("U", "us"),
            ("N", "ns"),
            ("AS", "YS-JAN"),
            ("Q-NOV", "QE-NOV"),
            ("3M", "3ME"),
        ],
        *[("BQ", "BQE-DEC"), ("BA", "BYE-DEC"), ("d", "D"), ("W", "W-SUN"), ("1h", "h"), ("1h30min", "90min")],
        *[(pd.offsets.MonthEnd(), "ME"), (pd.Timedelta(hours=1), "h"), (10, 10), (np.int64(3), 3)],
    ],
)
def test_old_aliases_offsets_and_numbers_become_the_current_alias(old, new):
    assert canonical_freq(old) == new
    assert canonical_freq(canonical_freq(old)) == new


@pytest.mark.parametrize("freq", ["fortnight", "0D", "-1D", "", "W-ABC", "ME-DEC", "C", "bh", 0, -3])
def test_unknown_frequencies_are_refused_with_examples(freq):
    with pytest.raises(ValueError, match="freq="):
        canonical_freq(freq)


@pytest.mark.parametrize("freq", [None, True, 1.5, ["D"]])
def test_what_is_no_frequency_is_a_type_or_value_error(freq):
    with pytest.raises((TypeError, ValueError), match="freq"):
        canonical_freq(freq)


@pytest.mark.parametrize("freq", CURRENT)
def test_the_axis_agrees_with_pandas(freq):
    expected = pd.date_range("2019-12-27", periods=60, freq=freq)
    if freq in ("2MS", "2QS-JAN"):
        expected = pd.date_range("2019-01-01", periods=60, freq=freq)
    stamps, grid = expected.to_numpy(), make_grid(freq)
    assert np.array_equal(grid.advance(stamps[:1], np.arange(60)), stamps)
    assert np.array_equal(grid.advance(stamps[-1:], np.arange(-59, 1)), stamps)
    assert (np.diff(grid.ordinals(stamps)) == grid.stride(stamps.dtype)).all()
    wrong = grid.misplaced(stamps)
    assert wrong is None or not wrong.any()
    assert infer_freq(stamps, np.ones(59, dtype=bool)) == freq if freq not in ("B", "7D", "QE-NOV") else True


def test_a_week_of_seven_days_is_inferred_as_weekly_and_quarter_ends_by_their_month():
    for stamps, freq in [
        (pd.date_range("2024-01-03", periods=9, freq="7D"), "W-WED"),
        (pd.date_range("2024-01-03", periods=9, freq="QE-NOV"), "QE-NOV"),
    ]:
        assert infer_freq(stamps.to_numpy(), np.ones(8, dtype=bool)) == freq


def test_time_of_day_is_kept_by_days_and_months():
    start = np.array(["2024-01-31T18:00"], dtype="M8[s]")
    assert make_grid("ME").advance(start, np.array([1]))[0] == np.datetime64("2024-02-29T18:00")
    assert make_grid("B").advance(start, np.array([3]))[0] == np.datetime64("2024-02-05T18:00")


def test_a_frequency_finer_than_the_time_unit_is_refused():
    with pytest.raises(ValueError, match="finer than the time column"):
        make_grid("500ms").stride(np.dtype("M8[s]"))


def test_season_lengths():
    seasons = {
        "h": 24,
        "2h": 12,
        "15min": 96,
        "D": 7,
        "7D": 52,
        "W-MON": 52,
        "MS": 12,
        "ME": 12,
        "QE-DEC": 4,
        "QS-JAN": 4,
    }
    seasons |= {"B": 5, "s": 60, "10s": 6, "YE-DEC": 1, "2YS-JAN": 1, "24h": 7, "ms": 1000, "10D": 36, 1: 1, 10: 1}
    assert {freq: season_length(freq) for freq in seasons} == seasons
