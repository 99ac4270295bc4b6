"""A stream whose checkpoint was rescaled: the rows are those of a batch, and all tasks work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.errors import ExecutionError
from sqlwin.execution.streams.rescale import rescale_checkpoint
from tests.marks import among

MINUTE = 60_000_000
HOP = """
    SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS total FROM TABLE(HOP(TABLE {t},
      DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, k
"""
SESSION = """
    SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS total FROM TABLE(SESSION(TABLE {t}
      PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' MINUTES)) GROUP BY window_start, window_end, k
"""
CASCADE = """
    SELECT window_start, window_end, MAX(n) AS n, SUM(total) AS total FROM TABLE(TUMBLE(TABLE
      {t}_minutes, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end
"""
RANKS = """
    SELECT window_start, window_end, k, x, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY
      window_start, window_end ORDER BY x, k, ts) AS place FROM TABLE(TUMBLE(TABLE {t},
      DESCRIPTOR(ts), INTERVAL '3' MINUTES))) WHERE place <= 3
"""
QUERIES = {"hop": HOP, "session": SESSION, "cascade": CASCADE, "ranks": RANKS}


@pytest.fixture
def streaming(fresh_session: sqlwin.Session, tmp_path: Path) -> Iterator[sqlwin.Session]:
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "sqlwin.end-of-input": "hold-windows",
        "sqlwin.exchange.partitions": "2",
    }
    for name, value in settings.items():
        fresh_session.execute(f"SET '{name}' = '{value}'")
    yield fresh_session


def write(directory: Path, number: int) -> None:
    """Half an hour of rows of 40 keys."""
    directory.mkdir(exist_ok=True)
    n = 400
    ts = [number * 30 * MINUTE + i * 30 * MINUTE // n for i in range(n)]
    rows = {
        "ts": pa.array(ts, pa.timestamp("us")),
        "k": [f"k{i * 7919 % 41}" for i in range(n)],
        "x": [i * 104729 % 997 for i in range(n)],
    }
    pq.write_table(pa.table(rows), directory / f"{number}.parquet")


def make(session: sqlwin.Session, name: str, path: Path, mode: str) -> None:
    session.execute(f"""
        SET 'execution.runtime-mode' = '{mode}';
        CREATE TABLE {name} (ts TIMESTAMP(6), k STRING, x BIGINT, WATERMARK FOR ts AS ts)
          WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet');
        CREATE VIEW {name}_minutes AS SELECT window_time AS at, k, COUNT(*) AS n, SUM(x) AS total FROM
          TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
          GROUP BY window_start, window_end, window_time, k
    """)


@pytest.mark.parametrize(
    "name", among(list(QUERIES), long=["hop"], slow=["session", "cascade", "ranks"])
)
def test_rows_are_the_same(
    streaming: sqlwin.Session,
    spark: SparkSession,
    tmp_path: Path,
    name: str,
) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    query = QUERIES[name]
    write(source, 0)
    make(streaming, "t", source, "streaming")
    insert = f"INSERT INTO sink {query.format(t='t')}"
    checkpoint = tmp_path / "checkpoints/sink"

    def run() -> None:
        (result,) = streaming.execute(insert)
        assert result.query is not None
        result.query.awaitTermination(120)

    streaming.execute(_sink(sink, name))
    run()
    # of one that was killed
    (checkpoint / "spark-2/state/0/0").mkdir(parents=True)
    done = rescale_checkpoint(spark, str(checkpoint), 5)
    assert (done.after.partitions, done.after.key_groups) == (5, 16)
    assert [path.name for path in checkpoint.glob("spark*")] == [done.after.spark_name]
    assert {p.name for p in checkpoint.glob("spark*/state/0/[0-9]*")} == set("01234")
    with pytest.raises(ExecutionError, match="is spread over 5 tasks already"):
        rescale_checkpoint(spark, str(checkpoint), 5)
    streaming.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    write(source, 1)
    run()
    assert len(list(checkpoint.glob("spark-2/commits/[0-9]*"))) > 1
    make(streaming, "b", source, "batch")
    (expected,) = streaming.execute(query.format(t="b"))
    found = pq.read_table(sink).to_pylist()
    assert sorted(found, key=repr) == sorted((r.asDict() for r in expected.rows), key=repr)


def _sink(path: Path, name: str) -> str:
    own = {
        "cascade": "n BIGINT, total BIGINT",
        "ranks": "k STRING, x BIGINT, place INT",
    }.get(name, "k STRING, n BIGINT, total BIGINT")
    return f"""
        CREATE TABLE sink (window_start TIMESTAMP(6), window_end TIMESTAMP(6), {own})
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
    """
