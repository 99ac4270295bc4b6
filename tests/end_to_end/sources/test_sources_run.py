"""Every source that a stream can read, end to end."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import sqlwin

EVERY = "SET 'execution.checkpointing.interval' = '300 ms';"
STREAMING = "SET 'execution.runtime-mode' = 'streaming';"


def first_rows(result: sqlwin.Result, n_rows: int) -> list[tuple[object, ...]]:
    """Return `n_rows` rows of a stream and stop it."""
    return [
        tuple(row.values()) for batch in result.batches(limit=n_rows) for row in batch.to_pylist()
    ]


@contextmanager
def serve_lines(lines: list[str]) -> Iterator[int]:
    """Serve lines to every client, and yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            for line in lines:
                connection.sendall(f"{line}\n".encode())
            over.wait(120)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        listener.close()


@pytest.mark.long
def test_lines_of_a_socket_are_windowed(fresh_session: sqlwin.Session) -> None:
    lines = ["2026-05-01 10:00:01,a,5", "2026-05-01 10:00:09,a,7", "2026-05-01 10:00:12,b,1"]
    with serve_lines(lines) as port:
        *_, result = fresh_session.execute(f"""
            CREATE TABLE lines (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
            WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}',
                  'format' = 'csv');
            {EVERY}
            SELECT window_end, k, SUM(v) AS s
            FROM TABLE(TUMBLE(TABLE lines, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
            GROUP BY k, window_start, window_end""")
        assert first_rows(result, 1) == [
            (dt.datetime(2026, 5, 1, 10, 0, 10), "a", 12)  # noqa: DTZ001
        ]


@pytest.mark.long
def test_a_streaming_source_of_sparks_is_windowed(fresh_session: sqlwin.Session) -> None:
    *_, result = fresh_session.execute(f"""
        CREATE TABLE ticks (`timestamp` TIMESTAMP_LTZ(3), `value` BIGINT,
          WATERMARK FOR `timestamp` AS `timestamp`)
        WITH ('connector' = 'spark', 'format' = 'rate-micro-batch', 'rowsPerBatch' = '40',
              'advanceMillisPerBatch' = '1000');
        {EVERY}
        SELECT window_end, COUNT(*), MIN(`value`), MAX(`value`)
        FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(`timestamp`), INTERVAL '2' SECONDS))
        GROUP BY window_start, window_end""")
    assert [row[1:] for row in first_rows(result, 2)] == [(80, 0, 79), (80, 80, 159)]


@pytest.mark.long
def test_a_registered_streaming_dataframe_is_windowed(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    spark = fresh_session.spark
    spark.createDataFrame(
        [(dt.datetime(2026, 5, 1, 10, 0, second), second) for second in (1, 5, 12, 31)],  # noqa: DTZ001
        "at timestamp_ntz, v int",
    ).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("at timestamp_ntz, v int").parquet(str(tmp_path / "in"))
    fresh_session.register("clicks", frame, time_column="at", watermark="5 seconds")
    *_, result = fresh_session.execute(
        EVERY + "SELECT window_end, SUM(v) AS s "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECONDS)) "
        "GROUP BY window_start, window_end"
    )
    assert [(end.second, s) for end, s in first_rows(result, 2)] == [(10, 6), (20, 12)]


@pytest.mark.long
def test_rows_are_generated_at_the_requested_rate(fresh_session: sqlwin.Session) -> None:
    *_, result = fresh_session.execute(f"""
        CREATE TABLE made (id INT, now TIMESTAMP_LTZ(3), WATERMARK FOR now AS now)
        WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.id.min' = '1',
              'fields.id.max' = '9');
        {EVERY}
        SELECT COUNT(*), MIN(id), MAX(id)
        FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(now), INTERVAL '2' SECONDS))
        GROUP BY window_start, window_end""")
    started = time.monotonic()
    rows = first_rows(result, 3)
    seconds = time.monotonic() - started
    assert all(lowest >= 1 and highest <= 9 for _, lowest, highest in rows)
    assert 0 < sum(n for n, _, _ in rows) <= 50 * (seconds + 1)
    assert max(n for n, _, _ in rows) <= 110


@pytest.mark.parametrize(
    ("package", "script"),
    [
        (
            "spark-sql-kafka-0-10",
            """CREATE TABLE k (value BINARY) WITH ('connector' = 'spark', 'format' = 'kafka',
                 'subscribe' = 't', 'kafka.bootstrap.servers' = 'nowhere:9092');
               SELECT * FROM k""",
        ),
        (
            "spark-sql-kafka-0-10",
            """CREATE TABLE k (value STRING) WITH ('connector' = 'spark', 'format' = 'kafka',
                 'topic' = 't', 'kafka.bootstrap.servers' = 'nowhere:9092');
               CREATE TABLE ticks (id BIGINT) WITH ('connector' = 'datagen');
               INSERT INTO k SELECT CAST(id AS STRING) FROM ticks""",
        ),
        (
            "spark-avro",
            """CREATE TABLE f (a INT) WITH ('connector' = 'filesystem', 'path' = '{directory}',
                 'format' = 'avro');
               SELECT * FROM f""",
        ),
        (
            "spark-avro",
            """SET 'execution.runtime-mode' = 'streaming';
               CREATE TABLE f (a INT) WITH ('connector' = 'filesystem', 'path' = '{directory}',
                 'format' = 'avro');
               SELECT * FROM f""",
        ),
    ],
    ids=["kafka read", "kafka written", "avro read", "avro streamed"],
)
def test_a_missing_package_is_named_with_its_version(
    package: str, script: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "a.avro").write_bytes(b"Obj\x01")
    with pytest.raises(sqlwin.SqlwinError) as caught:
        for result in fresh_session.execute_iter(script.replace("{directory}", str(tmp_path))):
            assert result.rows is not None
    coordinate = f"org.apache.spark:{package}_2.13:{pyspark.__version__}"
    assert f"--conf spark.jars.packages={coordinate} " in (caught.value.hint or "")
    assert f"--packages {coordinate})" in (caught.value.hint or "")
