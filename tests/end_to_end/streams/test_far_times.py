"""Times in the far past or future, as placeholders for missing data often are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_next
from tests.end_to_end.streams.test_stream_sql import BATCH, STREAMING, rows

# Microseconds since 1970; the year 128,725
FAR_US = 4 * 10**18
WINDOWS = """
    SELECT k, window_end, window_time, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end, window_time"""
# As numbers, because Python has no such times
COUNTS = f"SELECT k, n, UNIX_MICROS(CAST(window_end AS TIMESTAMP)) AS e FROM ({WINDOWS})"
CASCADE = f"""
    SELECT SUM(n) AS n, UNIX_MICROS(CAST(window_end AS TIMESTAMP)) AS e FROM TABLE(TUMBLE(
      TABLE (SELECT window_time AS at, n FROM ({WINDOWS})), DESCRIPTOR(at), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end"""


def write(directory: Path, *times_us: int) -> None:
    """Write a file, for one micro-batch."""
    table = pa.table({"ts": pa.array(times_us, pa.timestamp("us")), "k": ["a"] * len(times_us)})
    write_next(directory, table)


@pytest.fixture
def db(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    fresh_session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
    """)
    (tmp_path / "in").mkdir()
    return fresh_session


@pytest.mark.long
def test_a_far_watermark_is_not_the_end_of_the_input(db: sqlwin.Session, tmp_path: Path) -> None:
    write(tmp_path / "in", FAR_US, 5)
    counts = rows(db, BATCH + COUNTS)
    assert counts == [("a", 1, 10_000_000), ("a", 1, FAR_US + 10_000_000)]
    expected = rows(db, BATCH + CASCADE)
    assert len(expected) == 2
    assert rows(db, STREAMING + CASCADE) == expected


@pytest.mark.long
def test_rows_behind_a_far_watermark_are_late_and_counted(
    db: sqlwin.Session, tmp_path: Path
) -> None:
    for time_us in (FAR_US, 5, 6):
        write(tmp_path / "in", time_us)
    result = db.execute(STREAMING + COUNTS)[-1]
    assert [tuple(row) for row in result.rows] == [("a", 1, FAR_US + 10_000_000)]
    assert any(
        note.startswith("2 rows arrived after all their windows had") for note in result.notes
    )


@pytest.mark.long
def test_a_checkpoint_with_a_far_watermark_resumes(db: sqlwin.Session, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE TABLE out (k STRING, n BIGINT, e BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows';""")
    write(tmp_path / "in", FAR_US)
    db.execute(f"{STREAMING} INSERT INTO out {COUNTS}")
    write(tmp_path / "in", FAR_US + 1)
    db.execute(f"SET 'sqlwin.end-of-input' = 'close-windows'; INSERT INTO out {COUNTS}")
    assert rows(db, BATCH + "SELECT * FROM out") == [("a", 2, FAR_US + 10_000_000)]
