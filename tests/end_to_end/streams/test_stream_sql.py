"""Streams from SQL, end to end: sources, sinks, modes, checkpoints, messages."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

import sqlwin
from sqlwin.execution.streams.handle import StreamState
from tests.end_to_end.stream_files import write_keys
from tests.observing import wait_for_stream

STREAMING = "SET 'execution.runtime-mode' = 'streaming';"
BATCH = "SET 'execution.runtime-mode' = 'batch';"
ORDERS = """
    CREATE TABLE orders (
      id BIGINT, item INT, price INT,
      ts AS TIMESTAMP_NTZ'2026-01-01 00:00:00' + INTERVAL '1' SECOND * id,
      at AS CAST(TIMESTAMP_NTZ'2026-01-01 00:00:00' + INTERVAL '1' SECOND * id AS TIMESTAMP),
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'datagen', 'number-of-rows' = '3000', 'rows-per-batch' = '1100', 'seed' = '7',
      'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '2999',
      'fields.item.min' = '1', 'fields.item.max' = '4',
      'fields.price.min' = '1', 'fields.price.max' = '100');
"""
ENDLESS = """
    CREATE TABLE endless (id BIGINT, now TIMESTAMP_LTZ(3))
    WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'seed' = '1');
"""


def events(directory: Path) -> str:
    return f"""
        CREATE TABLE events (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
    """


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in session.execute(query)[-1].rows), key=repr)


@pytest.mark.long
def test_rows_are_written_once_by_every_sink_and_counted(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        *_, result = fresh_session.execute(f"""
            {ORDERS}
            CREATE TABLE by_item (id BIGINT, item INT) PARTITIONED BY (item)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');
            CREATE TABLE kept (id BIGINT, item INT) WITH ('connector' = 'memory');
            CREATE TABLE gone (id BIGINT, item INT) WITH ('connector' = 'blackhole');
            CREATE TABLE shown (id BIGINT, item INT) WITH ('connector' = 'print');
            {STREAMING}
            EXECUTE STATEMENT SET BEGIN
              INSERT INTO by_item SELECT id, item FROM orders;
              INSERT INTO kept SELECT id, item FROM orders;
              INSERT INTO gone SELECT id, item FROM orders;
              INSERT INTO shown SELECT id, item FROM orders WHERE id < 2;
            END;
        """)
    assert result.message.splitlines() == [
        "INSERT INTO by_item: 3,000 rows",
        "INSERT INTO kept: 3,000 rows",
        "INSERT INTO gone: done",
        "INSERT INTO shown: 2 rows",
    ]
    assert len(out.getvalue().splitlines()) == 2
    expected = rows(fresh_session, f"{BATCH} SELECT id, item FROM orders")
    assert rows(fresh_session, "SELECT id, item FROM by_item") == expected
    assert rows(fresh_session, "SELECT id, item FROM kept") == expected
    shown = {p.name for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")}
    assert shown == {f"item={i}" for i in range(1, 5)}
    assert all(stream.state is StreamState.ENDED for stream in fresh_session.streams.all())


@pytest.mark.long
def test_a_stream_resumes_where_it_stopped_and_another_query_is_refused(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    count = """INSERT INTO counts SELECT k, window_end, COUNT(*)
               FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
               GROUP BY k, window_start, window_end"""
    write_keys(tmp_path / "in", (1, "a"), (2, "b"))
    write_keys(tmp_path / "in", (12, "a"), (13, "a"))
    *_, first = fresh_session.execute(f"""
        {events(tmp_path / "in")}
        CREATE TABLE counts (k STRING, window_end TIMESTAMP(3), n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'json');
        {STREAMING}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows';
        {count}
    """)
    assert first.row_count == 2
    write_keys(tmp_path / "in", (19, "b"), (31, "a"))
    assert fresh_session.execute(count)[0].row_count == 2
    with pytest.raises(sqlwin.SqlwinError) as caught:
        fresh_session.execute(count.replace("'10' SECONDS", "'5' SECONDS"))
    assert "the query does not match its checkpoint" in caught.value.message
    *_, last = fresh_session.execute(f"SET 'sqlwin.end-of-input' = 'close-windows'; {count}")
    assert last.row_count == 1
    (again,) = fresh_session.execute(count)
    assert again.row_count == 0
    assert "the input ended in an earlier run" in again.notes[0]
    actual = [
        (k, end.second, n) for k, end, n in rows(fresh_session, f"{BATCH} SELECT * FROM counts")
    ]
    assert actual == [("a", 10, 1), ("a", 20, 2), ("a", 40, 1), ("b", 10, 1), ("b", 20, 1)]


@pytest.mark.long
def test_a_source_without_end_runs_until_it_is_stopped(fresh_session: sqlwin.Session) -> None:
    *_, result = fresh_session.execute(f"""
        {ENDLESS}
        CREATE TABLE kept (id BIGINT) WITH ('connector' = 'memory');
        INSERT INTO kept SELECT id FROM endless WHERE id % 2 = 0;
    """)
    assert result.stream is not None
    assert result.query is not None
    assert result.message == f"INSERT INTO kept: stream {result.stream.number} is running"
    wait_for_stream(result.stream, lambda: rows(fresh_session, "SELECT id FROM kept"))
    (shown,) = fresh_session.execute("SHOW STREAMS")[0].rows
    assert (shown.name, shown.state, shown.into) == ("kept", "running", "kept")
    (stopped,) = fresh_session.execute("STOP STREAM kept")
    assert "stopped" in stopped.message
    assert "execution.checkpointing.dir" in stopped.notes[0]
    assert not result.query.isActive
    ids = [row[0] for row in rows(fresh_session, "SELECT id FROM kept")]
    assert len(set(ids)) == len(ids)
    assert all(i % 2 == 0 for i in ids)


@pytest.mark.long
def test_endless_rows_arrive_in_batches_until_the_reader_stops(
    fresh_session: sqlwin.Session,
) -> None:
    fresh_session.execute(ENDLESS)
    (result,) = fresh_session.execute("SELECT id FROM endless")
    assert sum(batch.num_rows for batch in result.batches(limit=100)) == 100
    assert fresh_session.streams.running() == []
    with pytest.raises(sqlwin.SqlwinError, match="the query is unbounded"):
        _ = result.rows


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("query", "n_rows"),
    [
        ("SELECT id FROM endless WHERE id % 2 = 0 FETCH FIRST 3 ROWS ONLY", 3),
        ("SELECT id FROM endless LIMIT 0", 0),
    ],
)
def test_a_limit_ends_a_stream(query: str, n_rows: int, fresh_session: sqlwin.Session) -> None:
    fresh_session.execute(ENDLESS)
    (result,) = fresh_session.execute(query)
    assert len(result.rows) == n_rows
    assert fresh_session.streams.running() == []


@pytest.mark.long
def test_a_limit_ends_a_stream_however_its_rows_are_fetched(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute(ENDLESS)
    (result,) = fresh_session.execute("SELECT * FROM endless LIMIT 5")
    assert result.to_arrow().num_rows == 5
    assert sum(batch.num_rows for batch in result.batches(limit=2)) == 2
    assert fresh_session.streams.running() == []


def test_a_streaming_dataframe_takes_part_under_its_name(fresh_session: sqlwin.Session) -> None:
    ticks = fresh_session.spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    fresh_session.register("ticks", ticks, time_column="timestamp", watermark="1 second")
    frame = fresh_session.sql("SELECT value * 2 AS twice FROM ticks")
    assert frame.isStreaming
    assert frame.columns == ["twice"]


def test_a_single_file_is_streamed_too(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    write_keys(tmp_path / "in [1]", (1, "a"), (2, "b"))
    fresh_session.execute(f"""
        CREATE TABLE one WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in [1]/0000.parquet');
        {STREAMING}
    """)
    assert [row.k for row in fresh_session.execute("SELECT k FROM one")[0].rows] == ["a", "b"]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            """CREATE TABLE k WITH ('connector' = 'spark', 'format' = 'kafka', 'subscribe' = 't',
                 'source.unbounded' = 'true', 'kafka.bootstrap.servers' = 'nowhere:9092');
               SELECT * FROM k""",
            "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:",
        ),
        (STREAMING + ORDERS + "SELECT 1 / (id - 5) AS x FROM orders", "division by zero"),
        (
            STREAMING + ORDERS + """CREATE TABLE f (id BIGINT) WITH ('connector' = 'filesystem',
                 'path' = '/tmp/never', 'format' = 'csv');
               INSERT OVERWRITE f SELECT id FROM orders""",
            "INSERT OVERWRITE is not supported on streams: table `f`",
        ),
        (BATCH + ENDLESS + "SELECT * FROM endless", "unbounded rows require a stream"),
        (
            BATCH + """CREATE TABLE s (l STRING)
                 WITH ('connector' = 'socket', 'hostname' = 'h', 'port' = '1');
               SELECT * FROM s""",
            "connector 'socket' is read as a stream",
        ),
        ("STOP STREAM nothing", "stream `nothing` does not exist"),
    ],
)  # fmt: skip
def test_impossible_requests_are_one_line(
    script: str, message: str, fresh_session: sqlwin.Session
) -> None:
    with pytest.raises(sqlwin.SqlwinError) as caught:
        for result in fresh_session.execute_iter(script):
            assert result.rows is not None
    assert message in str(caught.value).lower() or message in str(caught.value)
    assert "Traceback" not in str(caught.value)


COUNTS = """
    (SELECT item, window_start, window_end, COUNT(*) AS n
     FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTES))
     GROUP BY item, window_start, window_end)
"""


@pytest.mark.long
def test_a_stream_is_ordered_by_window_ends_in_every_sink(
    fresh_session: sqlwin.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh_session.execute(ORDERS + STREAMING)
    query = f"SELECT item, window_end, n FROM {COUNTS} ORDER BY window_end, n DESC, item DESC"
    actual = [tuple(row) for row in fresh_session.execute(query)[-1].rows]
    assert len(actual) == 4 * 25
    assert actual == sorted(actual, key=lambda row: (row[1], -row[2], -row[0]))
    fresh_session.execute(
        "CREATE TABLE shown (item INT, until TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print')"
    )
    capsys.readouterr()
    fresh_session.execute(f"INSERT INTO shown {query}")
    lines = capsys.readouterr().out.splitlines()
    until = [until.isoformat(timespec="minutes") for _, until, _ in actual]
    assert lines == [
        f"+I[{item}, {at}, {n}]" for (item, _, n), at in zip(actual, until, strict=True)
    ]
