"""SESSION with a gap for each row, compared with sessions joined one pair of rows at a time."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import ExecutionError
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

INT64 = np.iinfo(np.int64)

# milliseconds: touching, overlapping and nested rows, rows without a time or with no positive gap
TIMES = st.one_of(st.none(), st.integers(-5, 30))
GAPS = st.one_of(st.none(), st.integers(-2, 6), st.sampled_from([20, 40]))
ROWS = st.lists(st.tuples(st.sampled_from("ab"), TIMES, GAPS), max_size=20)


def defined(rows: list[tuple]) -> list[tuple]:
    """Return (key, start, end) of the session of each row, in milliseconds, by pairs of rows."""
    kept = [row for row in rows if None not in row and row[2] > 0]
    session = list(range(len(kept)))
    for a, b in combinations(range(len(kept)), 2):
        (key, left, left_gap), (other, right, right_gap) = kept[a], kept[b]
        if key == other and left <= right + right_gap and right <= left + left_gap:
            old, new = session[b], session[a]
            session = [new if number == old else number for number in session]
    result = []
    for (key, _, _), number in zip(kept, session, strict=True):
        members = [row for row, of in zip(kept, session, strict=True) if of == number]
        starts, ends = zip(*((time, time + gap) for _, time, gap in members), strict=True)
        result.append((key, min(starts), max(ends)))
    return sorted(result)


def write(rows: list[tuple], directory: str) -> None:
    """Write rows to two files, so that two tasks aggregate them."""
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        table = pa.table(
            {
                "k": pa.array([key for key, _, _ in part], pa.string()),
                "ts": pa.array([time for _, time, _ in part], pa.timestamp("ms")),
                "gap": pa.array([gap for _, _, gap in part], pa.int64()),
            }
        )
        pq.write_table(table, f"{directory}/{number}.parquet")


@pytest.mark.long
@settings(max_examples=60)
@given(
    ROWS, st.sampled_from(["gap * {ms}", "CASE WHEN gap > 5 THEN gap * {ms} ELSE {ms} * gap END"])
)
def test_sessions_are_rows_that_touch(rows: list[tuple], gap: str) -> None:
    session = Session(unstarted_spark(), settings={})
    with TemporaryDirectory() as directory:
        write(rows, directory)
        length = gap.format(ms="INTERVAL '0.001' SECOND")
        call = f"SESSION('{directory}/*.parquet' PARTITION BY k, DESCRIPTOR(ts), {length})"
        by_row = rows_of(session, f"SELECT k, window_start, window_end FROM {call}")
        counted = rows_of(
            session,
            f"SELECT k, window_start, window_end, COUNT(*) AS c FROM {call} "
            "GROUP BY k, window_start, window_end",
        )
    expected = defined(rows)
    assert by_row == expected
    assert counted == sorted({(*row, expected.count(row)) for row in expected})


def rows_of(session: Session, sql: str) -> list[tuple]:
    """Return the rows of a query, with times in milliseconds."""
    (result,) = session.execute(sql)
    columns = [
        column.cast(pa.timestamp("ms")).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
        for column in result.to_arrow().columns
    ]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("select", ["ts, window_end", "COUNT(*) AS c"])
def test_a_row_that_ends_after_the_maximum_is_an_error(tmp_path: Path, select: str) -> None:
    table = {"ts": pa.array([INT64.max - 4, 5]).cast(pa.timestamp("us")), "us": [5, INT64.max - 9]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    session = Session(unstarted_spark(), settings={})
    call = f"SESSION('{tmp_path}/t.parquet', ts, us * INTERVAL '0.000001' SECOND)"
    group = " GROUP BY window_start, window_end" if "COUNT" in select else ""
    (result,) = session.execute(f"SELECT {select} FROM {call}{group}")
    with pytest.raises(ExecutionError, match="ends after the maximum"):
        result.to_arrow()
