"""Key groups that exceed their memory limit are split, read and rescaled without changing rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.files import LocalFiles
from runtime.streaming.stored_state import open_state
from sqlwin.execution.streams.checkpoint import rescale_checkpoint
from tests.marks import among

MINUTE = 60_000_000
N_KEYS = 60_000
QUERIES = {
    "hop": """
        SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS total FROM TABLE(HOP(TABLE {t},
          DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES))
        GROUP BY window_start, window_end, k""",
    "session": """
        SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS total FROM TABLE(SESSION(TABLE
          {t} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' MINUTES))
        GROUP BY window_start, window_end, k""",
}


def write(directory: Path, number: int) -> None:
    """Write a minute of rows, about one per key."""
    directory.mkdir(exist_ok=True)
    rng = np.random.default_rng(number)
    ts = number * MINUTE + np.sort(rng.integers(0, MINUTE, N_KEYS))
    rows = {
        "ts": pa.array(ts, pa.timestamp("us")),
        "k": rng.integers(0, N_KEYS, N_KEYS) * 7919,
        "x": rng.integers(0, 1_000, N_KEYS),
    }
    pq.write_table(pa.table(rows), directory / f"{number}.parquet")


@pytest.mark.long
@pytest.mark.parametrize("name", among(QUERIES, slow=["hop"]))
def test_restarts_with_other_numbers_of_tasks_give_the_rows_of_batch(
    fresh_session: sqlwin.Session, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source, sink, query = tmp_path / "in", tmp_path / "out", QUERIES[name]
    checkpoint = tmp_path / "checkpoints/sink"
    session = fresh_session
    session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path / "checkpoints"}';
        SET 'sqlwin.end-of-input' = 'hold-windows';
        SET 'sqlwin.exchange.partitions' = '2';
        SET 'sqlwin.state.key-groups' = '2';
        SET 'sqlwin.state.bucket-bytes' = '1 mb';
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE t (ts TIMESTAMP(6), k BIGINT, x BIGINT, WATERMARK FOR ts AS ts) WITH (
          'connector' = 'filesystem', 'path' = '{source}', 'format' = 'parquet',
          'max-files-per-trigger' = '1');
        CREATE TABLE sink (window_start TIMESTAMP(6), window_end TIMESTAMP(6), k BIGINT, n BIGINT,
          total BIGINT) WITH ('connector' = 'filesystem', 'path' = '{sink}', 'format' = 'parquet')
    """)

    def run() -> None:
        (result,) = session.execute(f"INSERT INTO sink {query.format(t='t')}")
        assert result.query is not None
        result.query.awaitTermination(120)

    for number in range(3):
        write(source, number)
    run()
    (stored,) = open_state(spark, LocalFiles(), str(checkpoint)).operators
    assert len(stored.metadata) == 2
    assert all(len(stored.buckets[group]) > 1 for group in stored.metadata)
    (kept,) = session.execute(f"SELECT COUNT(*) AS n FROM TABLE(STATE('{checkpoint}'))")
    assert kept.rows[0].n > N_KEYS // 2
    write(source, 3)
    run()
    outcome = rescale_checkpoint(spark, str(checkpoint), 3)
    assert (outcome.after.partitions, outcome.after.key_groups) == (3, 8)
    write(source, 4)
    session.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    run()
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = session.sql(query.format(t="t")).toArrow()
    names = ["k", "window_start", "window_end"]
    order = [(name, "ascending") for name in names]
    actual = pq.read_table(sink).select(expected.column_names).cast(expected.schema)
    assert actual.sort_by(order).equals(expected.sort_by(order))
