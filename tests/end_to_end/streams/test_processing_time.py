"""Windows on processing time in running streams: the clock alone emits them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import sqlwin
from sqlwin.execution.streams.handle import StreamState
from tests.end_to_end.stream_files import write_keys
from tests.observing import wait_until

STREAMING = "SET 'execution.runtime-mode' = 'streaming';"
EVERY = "SET 'execution.checkpointing.interval' = '300 ms';"
TUMBLE = """
    INSERT INTO kept SELECT k, window_start, window_end, COUNT(*)
    FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR({column}), INTERVAL '{size}' SECONDS))
    GROUP BY k, window_start, window_end
"""


def table(name: str, directory: Path, columns: str, more: str = "") -> str:
    directory.mkdir(exist_ok=True)
    return f"""CREATE TABLE {name} (ts TIMESTAMP(6), k STRING, {columns})
        WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet' {more});"""


ENDLESS = ", 'source.monitor-interval' = '300 ms'"
KEPT = """CREATE TABLE kept (k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT)
    WITH ('connector' = 'memory');"""


def rows_of_sink(session: sqlwin.Session) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.execute("SELECT * FROM kept")[0].rows)


def wait_for_rows(session: sqlwin.Session, n_rows: int) -> list[tuple[object, ...]]:
    """Wait until `kept` has `n_rows` rows and return them; fewer after the time limit."""
    rows: list[tuple[object, ...]] = []

    def has_rows() -> bool:
        assert not [stream.failure() for stream in session.streams.all() if stream.failure()]
        rows[:] = rows_of_sink(session)
        return len(rows) >= n_rows

    wait_until(has_rows, every_s=0.1, explain=lambda: rows)
    return rows


@contextmanager
def running(session: sqlwin.Session, script: str) -> Iterator[sqlwin.Stream]:
    *_, result = session.execute(script)
    assert result.stream is not None
    try:
        yield result.stream
    finally:
        result.stream.stop()


def at(second: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001


@pytest.mark.long
def test_windows_on_processing_time_close_without_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "b"), (3, "a"))
    query = TUMBLE.format(table="events", column="pt", size=2)
    script = table("events", tmp_path / "in", "pt AS PROCTIME()", ENDLESS)
    before = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    with running(fresh_session, script + KEPT + EVERY + query) as stream:
        actual = wait_for_rows(fresh_session, 2)
        after = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        assert [(k, n) for k, _, _, n in actual] == [("a", 2), ("b", 1)]
        ((start, end),) = {(start, end) for _, start, end, _ in actual}
        assert end - start == dt.timedelta(seconds=2)
        assert before - dt.timedelta(seconds=2) < start < end <= after
        # later rows are in a later window
        write_keys(tmp_path / "in", (1, "c"))
        (*_, late) = wait_for_rows(fresh_session, 3)
        assert late[0] == "c"
        assert late[1] >= end
        # the heartbeat rows are not among the rows read
        wait_until(lambda: not stream.status().n_input_rows)


@pytest.mark.slow
def test_a_wider_window_contains_the_windows_of_processing_time(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "b"), (3, "a"))
    script = table("events", tmp_path / "in", "pt AS PROCTIME()", ENDLESS) + EVERY
    *_, result = fresh_session.execute(
        script
        + """SELECT window_end, SUM(n) AS n, COUNT(*) AS keys FROM TABLE(TUMBLE(
          (SELECT window_time AS t, n FROM (
             SELECT k, window_start, window_end, window_time, COUNT(*) AS n
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(pt), INTERVAL '1' SECOND))
             GROUP BY k, window_start, window_end, window_time)),
          DESCRIPTOR(t), INTERVAL '4' SECONDS))
        GROUP BY window_start, window_end"""
    )
    (row,) = [row for batch in result.batches(limit=1) for row in batch.to_pylist()]
    assert (row["n"], row["keys"]) == (3, 2)


@pytest.mark.slow
def test_group_windows_take_processing_time_on_the_wall_clock_of_the_session(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "b"), (3, "a"))
    zone = ZoneInfo("Asia/Tokyo")
    day = "(pt, INTERVAL '1' DAY)"
    before = dt.datetime.now(zone)
    *_, result = fresh_session.execute(
        "SET 'table.local-time-zone' = 'Asia/Tokyo';"
        + table("events", tmp_path / "in", "pt AS PROCTIME()")
        + STREAMING
        + f"SELECT TUMBLE_START{day} AS s, TUMBLE_PROCTIME{day} AS p, COUNT(*) AS n FROM events "
        f"GROUP BY TUMBLE{day}"
    )
    ((start, now, n),) = result.rows
    after = dt.datetime.now(zone)
    assert n == 3
    assert start.date() in (before.date(), after.date())
    assert start.time() == dt.time(0)
    # the time at which the row was emitted
    assert before - dt.timedelta(seconds=1) <= now.astimezone() <= after


@pytest.mark.long
def test_a_repeated_micro_batch_keeps_its_processing_time(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "b"))
    fresh_session.execute(table("events", tmp_path / "in", "pt AS PROCTIME()", ENDLESS))
    grouped = TUMBLE.format(table="events", column="pt", size=1).replace("INSERT INTO kept", "")
    actual: list[list[tuple[object, ...]]] = []

    def fail(rows: DataFrame, batch: int) -> None:
        some = sorted(map(tuple, rows.collect()))
        if some:
            actual.append(some)
            raise RuntimeError("the sink is gone")

    for _ in range(2):
        frame = fresh_session.sql(grouped)
        run = (
            frame.writeStream.foreachBatch(fail)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        with pytest.raises(StreamingQueryException, match="the sink is gone"):
            run.awaitTermination(300)
    assert [k for k, *_ in actual[0]] == ["a", "b"]
    assert actual[1] == actual[0]


def test_explain_says_that_windows_wait_for_processing_time(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    *_, result = fresh_session.execute(
        table("events", tmp_path / "in", "pt AS PROCTIME(), WATERMARK FOR ts AS ts", ENDLESS)
        + "EXPLAIN SELECT k, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(pt), INTERVAL '1' MINUTE)) "
        "GROUP BY k, window_start, window_end"
    )
    assert "  watermark: processing time\n" in result.text
    assert "a window is emitted when processing time reaches its end; no row is late" in result.text


@pytest.mark.slow
def test_windows_of_processing_time_that_are_held_close_in_the_next_run(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "b"))
    query = TUMBLE.format(table="events", column="pt", size=(seconds := 5))
    fresh_session.execute(
        table("events", tmp_path / "in", "pt AS PROCTIME()")
        + KEPT
        + STREAMING
        + f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
        + "SET 'sqlwin.end-of-input' = 'hold-windows';"
    )
    fresh_session.execute(query)
    # the windows of the first run end at the next multiple of their size
    end_s = (time.time() // seconds + 1) * seconds
    wait_until(lambda: time.time() >= end_s)
    # no new rows arrive, and still the run ends
    fresh_session.execute(query)
    assert [(k, n) for k, _, _, n in rows_of_sink(fresh_session)] == [("a", 1), ("b", 1)]
    write_keys(tmp_path / "in", (3, "c"))
    *_, last = fresh_session.execute("SET 'sqlwin.end-of-input' = 'close-windows';" + query)
    assert last.row_count == 1
    assert [k for k, *_ in rows_of_sink(fresh_session)] == ["a", "b", "c"]
    assert {stream.state for stream in fresh_session.streams.all()} == {StreamState.ENDED}


@pytest.mark.long
def test_a_query_on_processing_time_ends_under_sparks_available_now(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    for second in range(3):
        write_keys(tmp_path / "in", (second, "a"))
    fresh_session.execute(
        table(
            "events",
            tmp_path / "in",
            "pt AS PROCTIME()",
            ENDLESS + ", 'max-files-per-trigger' = '1'",
        )
    )
    frame = fresh_session.sql(
        TUMBLE.format(table="events", column="pt", size=1).replace("INSERT INTO kept", "")
    )
    batches = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: batches.append(rows.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(300)
        assert len(batches) >= 3
    finally:
        query.stop()


@pytest.mark.long
def test_a_silent_source_delays_the_others_for_the_timeout(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "a", (1, "a"), (2, "a"), (15, "a"))
    watermark = "WATERMARK FOR ts AS ts"
    query = TUMBLE.format(table="both", column="ts", size=10)
    script = (
        table("one", tmp_path / "a", watermark, ENDLESS)
        + table("other", tmp_path / "b", watermark, ENDLESS)
        + "CREATE VIEW both AS SELECT * FROM one UNION ALL SELECT * FROM other;"
        + KEPT
        + EVERY
        + "SET 'table.exec.source.idle-timeout' = '3 s';"
    )
    started = time.monotonic()
    with running(fresh_session, script + query) as stream:
        assert wait_for_rows(fresh_session, 1) == [("a", at(0), at(10), 2)]
        assert time.monotonic() - started > 3
        (status,) = stream.status().operators
        assert [s.is_idle for s in status.sources][1]
        # the source is far behind when it resumes: its row is late, and it holds back the watermark
        # again
        write_keys(tmp_path / "b", (3, "b"), (12, "b"))
        write_keys(tmp_path / "a", (25, "a"))
        actual = wait_for_rows(fresh_session, 3)
        assert actual[1:] == [("a", at(10), at(20), 1), ("b", at(10), at(20), 1)]
        assert stream.status().operators[0].n_late == 1


@pytest.mark.slow
def test_early_and_late_firing_are_on_processing_time(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (2, "a"))
    fresh_session.execute(
        table("events", tmp_path / "in", "WATERMARK FOR ts AS ts", ENDLESS)
        + """
        SET 'table.exec.emit.early-fire.enabled' = 'true';
        SET 'table.exec.emit.early-fire.delay' = '2 s';
        SET 'table.exec.emit.late-fire.enabled' = 'true';
        SET 'table.exec.emit.late-fire.delay' = '2 s';
        SET 'table.exec.emit.allow-lateness' = '1 h';
        """
    )
    frame = fresh_session.sql(
        "SELECT k, second(window_end), COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS)) "
        "GROUP BY k, window_start, window_end"
    )
    batches: list[list[tuple[object, ...]]] = []
    query = (
        frame.writeStream.foreachBatch(
            lambda rows, _: batches.append(list(map(tuple, rows.collect())))
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="300 milliseconds")
        .start()
    )

    def next_rows() -> list[tuple[object, ...]]:
        wait_until(lambda: any(batches) or not query.isActive)
        actual = [batch for batch in batches if batch]
        batches.clear()
        return [row for batch in actual for row in batch]

    try:
        assert next_rows() == [("+I", "a", 10, 2)]
        write_keys(tmp_path / "in", (3, "a"))
        assert next_rows() == [("-U", "a", 10, 2), ("+U", "a", 10, 3)]
        # the window ends without new rows; this row's window is emitted early
        write_keys(tmp_path / "in", (15, "b"))
        assert next_rows() == [("+I", "b", 20, 1)]
        written = time.monotonic()
        write_keys(tmp_path / "in", (4, "a"))
        assert next_rows() == [("-U", "a", 10, 3), ("+U", "a", 10, 4)]
        assert time.monotonic() - written > 2
    finally:
        query.stop()


@pytest.mark.long
def test_the_clock_of_a_stream_that_began_without_one_emits_its_windows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (12, "b"))
    query = TUMBLE.format(table="events", column="ts", size=10)
    script = (
        table("events", tmp_path / "in", "WATERMARK FOR ts AS ts", ENDLESS)
        + KEPT
        + EVERY
        + f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
    )
    with running(fresh_session, script + query):
        assert wait_for_rows(fresh_session, 1) == [("a", at(0), at(10), 1)]
    fresh_session.execute("SET 'sqlwin.watermark.idle-advance' = '1 s'")
    with running(fresh_session, query) as stream:
        # no row arrives: the clock advances the watermark from 12 s to 20 s
        expected = [("a", at(0), at(10), 1), ("b", at(10), at(20), 1)]
        assert wait_for_rows(fresh_session, 2) == expected
        assert stream.status().operators[0].follows_clock


@pytest.mark.long
def test_windows_of_a_silent_stream_are_emitted_once_across_a_restart(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "in", (1, "a"), (12, "b"))
    option = f"{ENDLESS}, 'sqlwin.watermark.idle-advance' = '2 s'"
    query = TUMBLE.format(table="events", column="ts", size=10)
    script = (
        table("events", tmp_path / "in", "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", option)
        + KEPT
        + EVERY
        + f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
    )
    with running(fresh_session, script + query) as stream:
        # the watermark is at 7, and passes 20 s after 13 s of silence
        expected = [("a", at(0), at(10), 1), ("b", at(10), at(20), 1)]
        assert wait_for_rows(fresh_session, 2) == expected
        (status,) = stream.status().operators
        assert status.follows_clock
        row = fresh_session.execute("SHOW STREAMS")[0].rows[0]
        assert "(advances with the clock)" in row[7]
        write_keys(tmp_path / "in", (3, "late"), (13, "late"))
        wait_until(lambda: stream.status().operators[0].n_late == 2)
    write_keys(tmp_path / "in", (14, "late"), (3_000, "c"), (3_020, "d"))
    with running(fresh_session, query) as stream:
        assert wait_for_rows(fresh_session, 3)[2] == ("c", at(3_000), at(3_010), 1)
        assert stream.status().operators[0].n_late == 1
