"""A query has one source that ends the input and one for processing time, for all its operators."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys
from tests.end_to_end.streams.test_processing_time import STREAMING, table

WINDOWS = """(SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '365' DAYS))
    GROUP BY k, window_start, window_end)"""


@pytest.mark.long
@pytest.mark.parametrize("time", ["ts", "pt"])
def test_windows_that_are_joined_hear_of_the_end_in_the_same_micro_batch(
    time: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "a", (1, "a"), (2, "b"), (3, "a"))
    write_keys(tmp_path / "b", (9, "a"))
    columns = "pt AS PROCTIME(), WATERMARK FOR ts AS ts"
    *_, result = fresh_session.execute(
        table("one", tmp_path / "a", columns)
        + table("other", tmp_path / "b", columns)
        + STREAMING
        + f"""SELECT l.k, l.n, r.n AS other FROM {WINDOWS.format("one", time)} l
        LEFT JOIN {WINDOWS.format("other", time)} r
        ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.k = r.k"""
    )
    assert sorted(map(tuple, result.rows)) == [("a", 2, 1), ("b", 1, None)]
    (stream,) = fresh_session.streams.all()
    sources = [source["description"] for source in stream.query.lastProgress["sources"]]
    assert len(sources) == len(set(sources)) == (3 if time == "ts" else 4)
