"""Patterns of dates and times, detected in common notations."""

from __future__ import annotations

import pytest

from runtime.detection.times import ISO, time_format


@pytest.mark.parametrize(
    ("values", "type_", "pattern"),
    [
        (["2025-12-31"], "date", ISO),
        (["2025-12-31 23:59:59", "2026-01-01 00:00:00.123456"], "timestamp_ntz", ISO),
        (["2025-12-31T23:59"], "timestamp_ntz", ISO),
        (["2025-12-31T23:59:59Z", "2025-12-31T23:59:59.5+01:00"], "timestamp", ISO),
        (
            [
                "2026-03-01T10:00:00+01:00",
                "2026-03-01 10:00:00Z",
                "2026-03-01T10:00:00.5+0100",
                "2026-03-01T10:00-05",
            ],
            "timestamp",
            ISO,
        ),
        (["2025-12-31", "2025-12-31 10:00:00"], "timestamp_ntz", ISO),
        (["20260301 101500", "20260301 235959"], "timestamp_ntz", "yyyyMMdd HHmmss"),
        (["20260301T1015"], "timestamp_ntz", "yyyyMMdd'T'HHmm"),
        (["20260301 9:15:00"], "timestamp_ntz", "yyyyMMdd H:mm:ss"),
        (["20260301T101500Z"], "timestamp", "yyyyMMdd'T'HHmmssXXX"),
        (["Mar 4, 2026 1:05 PM", "May 14, 2026 11:05 AM"], "timestamp_ntz", "MMM d, yyyy h:mm a"),
        (["May 4, 2026", "March 14, 2026"], "date", "MMMM d, yyyy"),
        (["4 March 2026 10:00"], "timestamp_ntz", "d MMMM yyyy H:mm"),
        (["2025-12-31 23:59:59 UTC"], "timestamp", "yyyy-M-d H:mm:ss VV"),
        (["2025-12-31 23:59:59,123"], "timestamp_ntz", "yyyy-M-d H:mm:ss,SSSSSSSSS"),
        (["31.12.2025 23:59:59", "1.1.2026 0:00:00"], "timestamp_ntz", "d.M.yyyy H:mm:ss"),
        (["01.02.2025"], "date", "d.M.yyyy"),
        (["01.02.25", "02.02.25"], "date", "d.M.yy"),
        (["31.12.2025 23:59", "31.12.2025 23:59:59"], "timestamp_ntz", "d.M.yyyy H:mm[:ss]"),
        (["31/12/2025", "01/02/2025"], "date", "d/M/yyyy"),
        (["12/31/2025 1:05 PM", "01/02/2025 12:00 AM"], "timestamp_ntz", "M/d/yyyy h:mm a"),
        (["10/Oct/2025:13:55:36 -0700"], "timestamp", "d/MMM/yyyy:H:mm:ss XX"),
        (["2025/12/31 23:59"], "timestamp_ntz", "yyyy/M/d H:mm"),
    ],
)
def test_a_pattern_reads_all_values(values: list[str], type_: str, pattern: str) -> None:
    result = time_format(values)
    assert result is not None
    assert (result.type, result.pattern, result.ambiguous) == (type_, pattern, None)


@pytest.mark.parametrize(
    "values",
    [
        ["2025-13-45"],
        ["192.168.1.12"],
        ["1.2.25"],  # a version
        ["12/31/2025", "31/12/2025"],  # both orders
        ["2025-12-31T23:59:59Z", "2025-12-31T23:59:59"],
        ["25:00"],
        ["2025-02-30"],
        ["hello"],
        ["20260301"],  # a number
        ["20261301 101500"],
        ["Mark 4, 2026"],
        ["Feb 30, 2026"],
        ["Mar 4, 2026", "March 5, 2026"],
    ],
)
def test_texts_that_are_no_times_have_no_pattern(values: list[str]) -> None:
    assert time_format(values) is None


def test_day_and_month_that_no_value_tells_apart_are_ambiguous() -> None:
    result = time_format(["01/02/2025", "03/04/2025"])
    assert result is not None
    assert (result.pattern, result.ambiguous) == ("d/M/yyyy", "M/d/yyyy")


@pytest.mark.parametrize(("day_first", "pattern"), [(True, "d/M/yyyy"), (False, "M/d/yyyy")])
def test_another_column_decides_between_day_and_month(day_first: bool, pattern: str) -> None:
    result = time_format(["01/02/2025"], day_first)
    assert result is not None
    assert (result.pattern, result.ambiguous) == (pattern, None)
