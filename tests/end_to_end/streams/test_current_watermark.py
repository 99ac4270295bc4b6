"""CURRENT_WATERMARK on a stream is the watermark before the rows of the micro-batch."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from runtime.errors import AnalysisError
from sqlwin import windows as w
from tests.end_to_end.stream_files import write_next

NO_MARK = None


def at(second: float, zone: str | None = None) -> dt.datetime:
    wall_clock = dt.datetime(2026, 3, 8) + dt.timedelta(seconds=second)  # noqa: DTZ001
    return wall_clock if zone is None else wall_clock.replace(tzinfo=zoneinfo.ZoneInfo(zone))


def write(
    directory: Path, *parts: list[tuple[dt.datetime | None, str]], zone: str | None = None
) -> None:
    """Write a Parquet file, for one micro-batch, for each list of (time, key)."""
    for part in parts:
        times = pa.array([time for time, _ in part], pa.timestamp("us", zone))
        write_next(directory, {"ts": times, "k": [key for _, key in part]})


def table(directory: Path, type_: str = "TIMESTAMP(3)") -> str:
    return f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE t (ts {type_}, k STRING, WATERMARK FOR ts AS ts - INTERVAL '15' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
    """


def number_of_rows(key: object, window: object, rows: list[object]) -> list[dict[str, int]]:
    return [{"n": len(rows)}]


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.execute(query)[-1].rows]


#      micro-batch:   0 |  1  | 2
EXAMPLE = [[(at(40), "a")], [(at(120), "b")], [(at(30), "c")]]


@pytest.mark.long
def test_an_insert_keeps_its_watermark_across_restarts(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    insert = "INSERT INTO marked SELECT k, CURRENT_WATERMARK(ts) FROM t"
    fresh_session.execute(f"""
        {table(tmp_path)}
        CREATE TABLE marked (k STRING, mark TIMESTAMP(3)) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows';
    """)
    for part in EXAMPLE:
        write(tmp_path / "in", part)
        (result,) = fresh_session.execute(insert)
        assert result.row_count == 1
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    actual = sorted(rows(fresh_session, "SELECT * FROM marked"), key=repr)
    marked = [("a", NO_MARK), ("b", at(25)), ("c", at(105))]
    assert actual == marked
    # the last micro-batch was interrupted before its commit, and runs again
    (commit,) = (tmp_path / "checkpoints").rglob("commits/2")
    commit.unlink()
    fresh_session.execute(f"SET 'execution.runtime-mode' = 'streaming'; {insert}")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert sorted(rows(fresh_session, "SELECT * FROM marked"), key=repr) == marked


def test_explain_describes_the_query_and_analyze_runs_it(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", *EXAMPLE)
    fresh_session.execute(table(tmp_path))
    late = "SELECT * FROM t WHERE ts <= CURRENT_WATERMARK(ts)"
    text = str(fresh_session.execute(f"EXPLAIN {late}")[-1].text)
    assert "sql=[SELECT * FROM t WHERE ts <= CURRENT_WATERMARK(ts)]" in text
    assert "CURRENT_WATERMARK: watermark of t before the micro-batch" in text
    analyzed = str(fresh_session.execute(f"EXPLAIN ANALYZE {late}")[-1].text)
    assert "3 micro-batches, 3 rows in, 1 row out" in analyzed


@pytest.mark.long
def test_streams_that_sqlwin_does_not_run_refuse_it(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", *EXAMPLE)
    fresh_session.execute(table(tmp_path))
    query = "SELECT *, CURRENT_WATERMARK(ts) AS mark FROM t"
    with pytest.raises(AnalysisError, match="not available in a streaming DataFrame"):
        fresh_session.sql(query)
    frame = fresh_session.execute(query)[-1].dataframe
    assert frame is not None
    alone = frame.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/alone")
    with pytest.raises(Exception, match="not available in a stream that sqlwin does not run"):
        alone.start().awaitTermination()
    fresh_session.execute(f"CREATE VIEW marked AS {query}")
    with pytest.raises(AnalysisError, match=r"windows\(\) does not support CURRENT_WATERMARK"):
        fresh_session.windows(
            "marked",
            time="ts",
            window=w.tumble("1 minute"),
            function=number_of_rows,
            output="n INT",
        )
    with pytest.raises(AnalysisError, match=r"does not support 'sqlwin\.watermark\.max-jump'"):
        rows(fresh_session, f"SET 'sqlwin.watermark.max-jump' = '1 h'; {query}")
