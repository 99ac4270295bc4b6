"""Session.windows: custom triggers, evictors and functions, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin import windows as w

MINUTE = timedelta(minutes=1)
NOON = datetime(2024, 2, 28, 12)  # noqa: DTZ001 - a wall clock time


@pytest.fixture
def visits(fresh_session: sqlwin.Session, tmp_path: Any) -> Iterator[sqlwin.Session]:
    """Create a table of minutes after noon, visitors and pages; one row has no time."""
    rows = [(1, "ann", 5), (12, "bob", 2), (7, "ann", 1), (18, "ann", 4), (None, "bob", 9)]
    table = pa.table(
        {
            "ts": pa.array([None if m is None else NOON + m * MINUTE for m, _, _ in rows]),
            "visitor": [visitor for _, visitor, _ in rows],
            "pages": [pages for _, _, pages in rows],
        }
    )
    pq.write_table(table, tmp_path / "visits.parquet")
    fresh_session.register(
        "visits", fresh_session.spark.read.parquet(str(tmp_path / "visits.parquet"))
    )
    yield fresh_session


def minutes(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple((v - NOON) / MINUTE if isinstance(v, datetime) else v for v in row) for row in rows
    )


def test_a_whole_window_function_sees_the_rows_of_a_session(visits: sqlwin.Session) -> None:
    result = visits.windows(
        "visits",
        keys=["visitor"],
        time="ts",
        window=w.session("6 minutes"),
        function=w.WholeWindowFunction(
            lambda key, window, rows: [
                {"who": key, "pages": [row["pages"] for row in rows], "n": len(rows)}
            ]
        ),
        output="n int, pages array<bigint>, who string",
    )
    assert result.columns == ["visitor", "window_start", "window_end", "n", "pages", "who"]
    assert minutes(result.collect()) == [
        ("ann", 1, 13, 2, [5, 1], "ann"),
        ("ann", 18, 24, 1, [4], "ann"),
        ("bob", 12, 18, 1, [2], "bob"),
    ]


def test_a_trigger_puts_windows_out_early_and_an_evictor_drops_rows(
    visits: sqlwin.Session,
) -> None:
    every_second = visits.windows(
        visits.sql("SELECT * FROM visits"),
        time="TS",
        window=w.everything(),
        trigger=w.CountTrigger(2),
        evictor=w.CountEvictor(3),
        function=w.ReduceFunction(lambda a, b: {"pages": a["pages"] + b["pages"]},
                                  lambda key, window, row: [row["pages"]]),
        output="pages bigint",
    )  # fmt: skip
    assert sorted(every_second.collect(), key=str) == [(None, None, 6), (None, None, 7)]


def test_windows_that_end_before_a_row_are_out_before_it(visits: sqlwin.Session) -> None:
    aggregate: Any = w.AggregateFunction(
        lambda: 0, lambda n, row: n + row["pages"], lambda a, b: a + b, None, None
    )
    result = visits.windows(
        "visits", time="ts", window=w.hop("5 minutes", MINUTE * 10), function=aggregate,
        output="pages bigint", allowed_lateness="1 hour",
    )  # fmt: skip
    query = """SELECT window_start, window_end, SUM(pages) FROM TABLE(HOP(TABLE visits,
        DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
        GROUP BY window_start, window_end"""
    assert minutes(result.collect()) == minutes(visits.sql(query).collect())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": ["visitors"]}, "no column `visitors`"),
        ({"time": "pages"}, "must be TIMESTAMP"),
        ({"output": "n nonsense"}, "invalid columns"),
        ({"allowed_lateness": "a while"}, "has no unit|is not a number"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    visits: sqlwin.Session, changed: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {
        "time": "ts", "window": w.tumble("1 month"), "output": "n int",
        "function": w.ReduceFunction(lambda a, b: a), **changed,
    }  # fmt: skip
    with pytest.raises(sqlwin.SqlwinError, match=message):
        visits.windows("visits", **arguments)
