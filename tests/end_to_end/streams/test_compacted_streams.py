"""Streaming INSERTs with 'auto-compaction' write few files and publish every row at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.sources.test_file_systems import COUNTS, write_minutes
from tests.marks import among
from tests.observing import wait_for_stream

N_FILES = 6


def tables(session: sqlwin.Session, directory: Path, source: str = "") -> None:
    filesystem = "'connector' = 'filesystem', 'format' = 'parquet'"
    session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{directory}/ck';
        CREATE TABLE i (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
          ({filesystem}, 'path' = '{directory}/in', 'max-files-per-trigger' = '1'{source});
        CREATE TABLE o (k BIGINT, e TIMESTAMP(3), n BIGINT) WITH
          ({filesystem}, 'path' = '{directory}/out', 'auto-compaction' = 'true',
           'sink.rolling-policy.rollover-interval' = '10 min')
    """)


def rows_per_file(directory: Path) -> list[int]:
    """Return the number of rows in each file."""
    return [pq.read_metadata(path).num_rows for path in (directory / "out").glob("part-*.parquet")]


def batch(session: sqlwin.Session) -> list[tuple[object, ...]]:
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    rows = sorted(map(tuple, session.sql("SELECT * FROM o").collect()))
    assert rows == sorted(map(tuple, session.sql(COUNTS).collect()))
    return rows


@pytest.mark.long
def test_the_files_of_many_micro_batches_are_one(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    for hour in range(N_FILES):
        write_minutes(path := tmp_path / "in" / f"{hour}.parquet", hour)
        # a stream reads files in order of their modification times
        os.utime(path, (1_700_000_000 + hour, 1_700_000_000 + hour))
    tables(fresh_session, tmp_path)
    (result,) = fresh_session.execute(f"INSERT INTO o {COUNTS}")
    assert "72 rows" in result.message
    assert rows_per_file(tmp_path) == [72]
    assert len(batch(fresh_session)) == 72
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == []


@pytest.mark.long
@pytest.mark.parametrize("statement", among(["STOP STREAM 1", "close"], slow=["close"]))
def test_a_stopped_stream_loses_no_row(
    fresh_session: sqlwin.Session, tmp_path: Path, statement: str
) -> None:
    write_minutes(tmp_path / "in" / "0.parquet", 0)
    tables(fresh_session, tmp_path, ", 'source.monitor-interval' = '100 ms'")
    (result,) = fresh_session.execute(f"INSERT INTO o {COUNTS}")
    stream = result.stream
    assert stream is not None
    wait_for_stream(stream, lambda: stream.run.n_rows)
    assert rows_per_file(tmp_path) == []
    if statement == "close":
        fresh_session.streams.stop_all()
    else:
        fresh_session.execute(statement)
    assert rows_per_file(tmp_path) == [9]
