"""Kafka to Kafka with kills: each window arrives once, and the benchmark notices if not."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import pytest
from rich.console import Console

from tests.bench.end_to_end.__main__ import Outcome, main, report
from tests.bench.end_to_end.records import Verdict, compare, expected, make, time_of

A, B, Z = (time_of(ms) for ms in (10_000, 20_000, 30_000))
WINDOWS = {(1, A): (2, 10), (1, B): (3, 20), (2, A): (1, -5)}


def test_expected_windows_have_the_totals_of_their_records() -> None:
    records = make(20_000, 7, seed=3)
    totals: dict[tuple[int, datetime], list[int]] = defaultdict(lambda: [0, 0])
    for key, value, at_ms in zip(records.keys, records.values, records.times_ms, strict=True):
        window = totals[int(key), time_of((int(at_ms) // 10_000 + 1) * 10_000)]
        window[0] += 1
        window[1] += int(value)
    assert expected(records) == {window: (n, total) for window, (n, total) in totals.items()}


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([((1, A), (2, 10)), ((1, B), (3, 20)), ((2, A), (1, -5))], Verdict(3, 3, 0, 0, 0)),
        ([((1, A), (2, 10)), ((1, B), (3, 20))], Verdict(3, 2, 1, 0, 0)),
        ([(window, WINDOWS[window]) for window in [*WINDOWS, (1, A)]], Verdict(3, 2, 0, 1, 0)),
        ([((1, A), (2, 10)), ((1, B), (3, 21)), ((2, A), (1, -5))], Verdict(3, 2, 0, 0, 1)),
        ([*WINDOWS.items(), ((9, Z), (1, 1))], Verdict(3, 3, 0, 0, 1)),
    ],
)
def test_windows_are_compared_one_by_one(
    rows: list[tuple[tuple[int, datetime], tuple[int, int]]], verdict: Verdict
) -> None:
    assert compare(WINDOWS, rows) == verdict
    assert verdict.is_right is (dict(rows) == WINDOWS and len(rows) == len(WINDOWS))


def test_the_exit_code_is_1_if_a_window_differs_in_any_run() -> None:
    console = Console(record=True, width=140)
    right = Outcome(2.0, 0, 0, Verdict(3, 3, 0, 0, 0), 0)
    doubled = Outcome(4.0, 2, 2, Verdict(3, 2, 0, 1, 0), 7)
    assert report("windows", 1000, [right], console) == 0
    assert report("windows", 1000, [right, doubled], console) == 1
    cells = [line.split("│")[1:-1] for line in console.export_text().splitlines() if "│" in line]
    assert [cell.strip() for cell in cells[-1]] == [
        "2", "2", "1,000", "4.0", "250", "3", "2", "0", "1", "0", "7"
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
def test_each_window_arrives_once_despite_kills() -> None:
    console = Console(record=True, width=140)
    arguments = "--records 30000 --keys 120 --kills 1 --batch-records 10000 --seed 5"
    code = main(arguments.split(), console)
    text = console.export_text()
    assert code == 0, text
    assert "The broker is a mock" in text
    (cells,) = (
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in text.splitlines()
        if "│" in line
    )
    assert cells[:3] == ["1", "1", "30,000"]
    n_windows, equal, *others = cells[5:10]
    assert int(n_windows) > 100 and equal == n_windows and others == ["0", "0", "0"]
