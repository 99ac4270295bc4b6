"""A stream with a rescaled checkpoint emits the rows of a batch, and all tasks have work."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.errors import ExecutionError
from sqlwin import windows as w
from sqlwin.execution.streams.checkpoint import rescale_checkpoint
from tests.marks import among

MINUTE = 60_000_000
HALF_PAST = dt.datetime(1970, 1, 1, 0, 30)  # noqa: DTZ001
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
    """Write half an hour of rows of 40 keys."""
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
    # left by a killed run
    (checkpoint / "spark-2/state/0/0").mkdir(parents=True)
    outcome = rescale_checkpoint(spark, str(checkpoint), 5)
    assert (outcome.after.partitions, outcome.after.key_groups) == (5, 16)
    assert [path.name for path in checkpoint.glob("spark*")] == [outcome.after.spark_name]
    assert {p.name for p in checkpoint.glob("spark*/state/0/[0-9]*")} == set("01234")
    with pytest.raises(ExecutionError, match="already has 5 tasks"):
        rescale_checkpoint(spark, str(checkpoint), 5)
    streaming.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    write(source, 1)
    run()
    assert len(list(checkpoint.glob("spark-2/commits/[0-9]*"))) > 1
    make(streaming, "b", source, "batch")
    (expected,) = streaming.execute(query.format(t="b"))
    actual = pq.read_table(sink).to_pylist()
    assert sorted(actual, key=repr) == sorted((r.asDict() for r in expected.rows), key=repr)


@pytest.mark.slow
def test_windows_of_functions_go_on(
    streaming: sqlwin.Session, spark: SparkSession, tmp_path: Path
) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    write(source, 0)
    make(streaming, "t", source, "streaming")
    streaming.execute(_sink(sink, "general"))

    def windows(table: str, name: str) -> None:
        streaming.windows(
            table,
            keys=["k"],
            time="ts",
            window=w.session("4 minutes"),
            function=w.WholeWindowFunction(
                lambda key, window, rows: [(len(rows), sum(row["x"] for row in rows))]
            ),
            output="n bigint, total bigint",
            name=name,
        )

    def run() -> None:
        windows("t", "found")
        (result,) = streaming.execute(
            "INSERT INTO sink SELECT window_start, window_end, k, n, total FROM found"
        )
        assert result.query is not None
        result.query.awaitTermination(120)

    run()
    outcome = rescale_checkpoint(spark, str(tmp_path / "checkpoints/sink"), 5)
    assert outcome.after.key_groups == 4 * outcome.before.key_groups
    streaming.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    write(source, 1)
    run()
    make(streaming, "b", source, "batch")
    windows("b", "wanted")
    (expected_rows,) = streaming.execute("SELECT window_start, window_end, k, n, total FROM wanted")
    assert sorted(map(repr, pq.read_table(sink).to_pylist())) == sorted(
        repr(row.asDict()) for row in expected_rows.rows
    )


@pytest.mark.slow
def test_inserts_that_share_a_stream_and_late_rows_go_on(
    streaming: sqlwin.Session, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    write(source, 1)
    make(streaming, "t", source, "streaming")
    sinks = "".join(
        f"""
        CREATE TABLE {name} (window_start TIMESTAMP(6), window_end TIMESTAMP(6), k STRING, n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = 'parquet');"""
        for name in ("one", "ten")
    )
    streaming.execute(f"""
        CREATE TABLE too_late (ts TIMESTAMP(6), k STRING, x BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/too_late', 'format' = 'parquet');
        CREATE TABLE u WITH ('late-rows' = 'too_late') LIKE t;
        {sinks}
    """)
    window = "DESCRIPTOR(ts), INTERVAL '{}' MINUTES)) GROUP BY window_start, window_end, k"
    queries = {
        name: "SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE("
        f"TUMBLE(TABLE {{t}}, {window.format(size)}"
        for name, size in (("one", 3), ("ten", 12))
    }
    inserts = "".join(f"INSERT INTO {name} {q.format(t='u')};" for name, q in queries.items())

    def run() -> None:
        actual = streaming.execute(f"EXECUTE STATEMENT SET BEGIN {inserts} END")
        for stream in {id(r.query): r.query for r in actual if r.query is not None}.values():
            stream.awaitTermination(120)

    run()
    (directory,) = (path.parent for path in tmp_path.glob("checkpoints/*/sqlwin.json"))
    rescale_checkpoint(spark, str(directory), 5)
    streaming.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    write(source, 2)
    write(source, 0)  # before the watermark
    run()
    make(streaming, "b", source, "batch")
    for name, query in queries.items():
        (expected_rows,) = streaming.execute(
            f"SELECT * FROM ({query.format(t='b')}) WHERE window_start >= TIMESTAMP '1970-01-01 00:30:00'"
        )
        stored_rows = pq.read_table(tmp_path / name).to_pylist()
        in_time = [row for row in stored_rows if row["window_start"] >= HALF_PAST]
        assert sorted(map(repr, in_time)) == sorted(
            repr(row.asDict()) for row in expected_rows.rows
        )
    assert pq.read_table(tmp_path / "too_late").num_rows >= 300


def _sink(path: Path, name: str) -> str:
    own = {
        "cascade": "n BIGINT, total BIGINT",
        "ranks": "k STRING, x BIGINT, place INT",
    }.get(name, "k STRING, n BIGINT, total BIGINT")
    return f"""
        CREATE TABLE sink (window_start TIMESTAMP(6), window_end TIMESTAMP(6), {own})
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
    """
