"""Constant intervals, to the microsecond."""

from __future__ import annotations

import pytest

from planner.sql.intervals import fold_interval
from runtime.errors import AnalysisError
from runtime.windows.intervals import IntervalValue, render_duration
from sqlwin.parser.parser import parse_query

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def fold(text: str) -> IntervalValue:
    return fold_interval(parse_query(f"SELECT {text}").expressions[0])


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("INTERVAL '10' MINUTES", 10 * MINUTE),
        ("INTERVAL 10 MINUTE", 10 * MINUTE),
        ("INTERVAL '3600' SECOND(4)", HOUR),
        ("INTERVAL '0.5' SECOND", 500_000),
        ("INTERVAL '1.5' MINUTES", 90_000_000),
        ("INTERVAL '0.000001' SECOND", 1),
        ("INTERVAL '2' WEEKS", 14 * DAY),
        ("INTERVAL '5' MILLISECONDS", 5_000),
        ("INTERVAL 7 MICROSECOND", 7),
        ("INTERVAL '1:30' HOUR TO MINUTE", 90 * MINUTE),
        ("INTERVAL '-1:30' HOUR TO MINUTE", -90 * MINUTE),
        ("INTERVAL '90:00' MINUTE TO SECOND", 90 * MINUTE),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", DAY + 2 * HOUR + 3 * MINUTE + 4_500_000),
        ("INTERVAL '1 02:03:04.5' DAY(3) TO SECOND(6)", DAY + 2 * HOUR + 3 * MINUTE + 4_500_000),
        ("INTERVAL '1 02' DAY TO HOUR", 26 * HOUR),
        ("INTERVAL '1 day 2 hours'", 26 * HOUR),
        ("INTERVAL '1 day -2 hours'", 22 * HOUR),
        ("INTERVAL '1' DAY '2' HOURS", 26 * HOUR),
        ("INTERVAL 1 DAY 2 HOURS", 26 * HOUR),
        ("INTERVAL '-4' MINUTE", -4 * MINUTE),
        ("INTERVAL -'4' MINUTE", -4 * MINUTE),
        ("-INTERVAL '4' MINUTE", -4 * MINUTE),
        ("-(INTERVAL '4' MINUTE)", -4 * MINUTE),
        ("INTERVAL '1' MINUTE * 10", 10 * MINUTE),
        ("(2 + 3) * INTERVAL '1' MINUTE", 5 * MINUTE),
        ("INTERVAL '1' HOUR / 4", 15 * MINUTE),
        ("INTERVAL '1' DAY / 7 * 7", DAY),
        ("INTERVAL '1' MINUTE + INTERVAL '1' SECOND", 61_000_000),
        ("INTERVAL '1' MINUTE - INTERVAL '1' MINUTE", 0),
    ],
)
def test_every_form_of_an_interval_has_its_exact_value(text: str, us: int) -> None:
    assert fold(text) == IntervalValue(months=0, us=us)


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("INTERVAL '1' MONTH", 1),
        ("INTERVAL '1' QUARTER", 3),
        ("INTERVAL '2' YEARS", 24),
        ("INTERVAL '0.5' YEAR", 6),
        ("INTERVAL '1-2' YEAR TO MONTH", 14),
        ("-INTERVAL '1-2' YEAR TO MONTH", -14),
    ],
)
def test_months_quarters_and_years_count_months(text: str, months: int) -> None:
    assert fold(text) == IntervalValue(months=months, us=0)


def test_months_and_days_stay_apart() -> None:
    assert fold("INTERVAL '1' MONTH + INTERVAL '1' DAY") == IntervalValue(months=1, us=DAY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INTERVAL '0.5' MICROSECOND", "`INTERVAL '0.5' MICROSECOND` is finer than a microsecond"),
        ("INTERVAL '1' DAY / 7", "finer than a microsecond"),
        ("INTERVAL '0.5' MONTH", "not a whole number of months"),
        ("INTERVAL '9999999999999' DAY", "too long"),
        ("INTERVAL 'abc' DAY", "'abc' is not a number"),
        ("INTERVAL '10'", "has no unit"),
        ("INTERVAL '1 day 2'", "2 has no unit"),
        ("INTERVAL '1 parsec'", "unknown unit parsec"),
        ("INTERVAL '1:61' HOUR TO MINUTE", "61 MINUTES exceed the range below HOUR"),
        ("INTERVAL '1 30' HOUR TO MINUTE", "does not have the form HOUR TO MINUTE"),
        ("INTERVAL '1' SECOND TO DAY", "SECOND TO DAY is not a valid range"),
        ("5", "expected an interval, but `5` is a number"),
        ("ts", "expected a constant interval, but got `ts`"),
        ("INTERVAL '1' SECOND * x", "expected a constant interval, but got `x`"),
        ("INTERVAL '1' DAY + 1", "mixes an interval and a number"),
        ("INTERVAL '1' DAY * INTERVAL '1' DAY", "multiplies two intervals"),
        ("2 / INTERVAL '1' DAY", "divides by an interval"),
        ("INTERVAL '1' DAY / 0", "divides by zero"),
        ("'10 minutes'", "expected a constant interval"),
        ("NULL", "expected a constant interval"),
    ],
)
def test_an_interval_must_be_constant(text: str, message: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        fold(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (600_000_000, "10 min"),
        (5_000_000, "5 s"),
        (HOUR, "1 h"),
        (DAY, "1 d"),
        (90 * MINUTE, "1 h 30 min"),
        (100_000, "100 ms"),
        (1_500, "1 ms 500 us"),
        (-MINUTE, "-1 min"),
        (0, "0 ms"),
    ],
)
def test_durations_are_written_as_users_write_them(us: int, text: str) -> None:
    assert render_duration(us) == text
