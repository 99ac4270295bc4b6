"""Session.windows on streams: scripted micro-batches, compared with the batch."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlwin
from runtime.errors import SetupError
from runtime.streaming.general.operator import GeneralWindowOperator, WindowJob
from sqlwin import windows as w
from tests.end_to_end.stream_files import write_next
from tests.observing import wait_until

NOON = dt.datetime(2024, 2, 28, 12)  # noqa: DTZ001 - a wall clock time
SECOND = dt.timedelta(seconds=1)
# (seconds after noon, name, number); a list per micro-batch
BATCHES: list[list[tuple[int | None, str, int]]] = [
    [(1, "ann", 5), (3, "bob", 2), (None, "ann", 7)],
    [(4, "ann", 1), (25, "bob", 3)],
    [(2, "ann", 9), (16, "ann", 4), (41, "bob", 6)],
]
PAGES = w.WholeWindowFunction(
    lambda key, window, rows: [(len(rows), sorted(row["pages"] for row in rows))]
)
OUTPUT = "n int, pages array<bigint>"


def write(directory: Path, rows: list[tuple[int | None, str, int]]) -> None:
    times = [None if s is None else NOON + s * SECOND for s, _, _ in rows]
    columns = {
        "ts": pa.array(times, pa.timestamp("us")),
        "visitor": [visitor for _, visitor, _ in rows],
        "pages": [pages for _, _, pages in rows],
    }
    write_next(directory, columns)


def seconds(rows: list[Any]) -> list[tuple[Any, ...]]:
    plain = [
        tuple((v - NOON) / SECOND if isinstance(v, dt.datetime) else v for v in row) for row in rows
    ]
    return sorted(plain, key=repr)


@pytest.mark.long
def test_micro_batches_emit_the_rows_of_the_model(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    spark = fresh_session.spark
    write(tmp_path / "in", BATCHES[0])
    reader = spark.readStream.schema("ts timestamp_ntz, visitor string, pages bigint")
    result = fresh_session.windows(
        reader.parquet(str(tmp_path / "in")),
        keys=["visitor"],
        time="ts",
        window=w.session("6 seconds"),
        trigger=w.EarlyAndLateTrigger(early=w.CountTrigger(2)),
        function=PAGES,
        output=OUTPUT,
        watermark="8 seconds",
    )
    assert result.isStreaming
    assert result.columns == ["visitor", "window_start", "window_end", "n", "pages"]
    batches: list[list[Any]] = []
    writer = result.writeStream.foreachBatch(lambda rows, _: batches.append(rows.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    model = GeneralWindowOperator(
        WindowJob(w.session("6 seconds"), PAGES, w.EarlyAndLateTrigger(early=w.CountTrigger(2)))
    )
    try:
        for number, rows in enumerate(BATCHES):
            if number:
                write(tmp_path / "in", rows)
            query.processAllAvailable()
            put_out = [row for batch in batches for row in batch]
            batches.clear()
            assert seconds(put_out) == model_batch(model, rows)
    finally:
        query.stop()
    assert model.state.n_late == 1
    assert model_batch(model, [(60, "ann", 0)])


def model_batch(
    model: GeneralWindowOperator, rows: list[tuple[int | None, str, int]]
) -> list[tuple[Any, ...]]:
    """Run the model over rows in order (times in seconds after noon), the watermark 8 s behind."""
    timed = sorted((row for row in rows if row[0] is not None), key=lambda row: row[0] or 0)
    result = []
    for second, visitor, pages in timed:
        assert second is not None
        result += model.on_row(visitor, {"pages": pages}, second * 1_000_000)
    newest = max(row[0] or 0 for row in timed)
    result += model.on_watermark((newest - 8) * 1_000_000)
    plain = [(e.key, e.window.start_us / 1e6, e.window.end_us / 1e6, *e.result) for e in result]
    return sorted(plain, key=repr)


@pytest.mark.long
def test_state_that_others_can_write_is_not_loaded(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", BATCHES[0])
    fresh_session.execute(f"""
        CREATE TABLE visits (
            ts TIMESTAMP(3), visitor STRING, pages BIGINT, WATERMARK FOR ts AS ts
        ) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
                'source.monitor-interval' = '1 s');
        CREATE TABLE found (visitor STRING, n INT) WITH ('connector' = 'blackhole');
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck'
    """)
    fresh_session.windows(
        "visits",
        keys=["visitor"],
        time="ts",
        window=w.session("6 seconds"),
        function=PAGES,
        output=OUTPUT,
        name="sessions",
    )
    (tmp_path / "ck/found").mkdir(parents=True)
    (tmp_path / "ck/found").chmod(0o777)
    with pytest.raises(SetupError, match=r"ck/found may run another user's code") as raised:
        fresh_session.execute("INSERT INTO found SELECT visitor, n FROM sessions")
    assert "others can write it" in raised.value.message


@pytest.mark.long
@pytest.mark.parametrize("mode", ["named", "clock"])
def test_finite_input_gives_the_rows_of_the_batch(
    mode: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    for rows in BATCHES:
        write(tmp_path / "in", [row for row in rows if row != (2, "ann", 9)])
    fresh_session.execute(f"""
        CREATE TABLE visits (
          ts TIMESTAMP(6), visitor STRING, pages BIGINT, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
                'max-files-per-trigger' = '1');
        CREATE TABLE kept (visitor STRING, s TIMESTAMP(6), e TIMESTAMP(6), n INT, pages ARRAY<BIGINT>)
        WITH ('connector' = 'memory');
        CREATE VIEW some AS SELECT * FROM visits WHERE pages < 7;
    """)

    def windows() -> Any:
        if mode == "clock":
            return fresh_session.windows(
                "some", keys=["visitor"], time=None, window=w.tumble("300 days"),
                function=PAGES, output=OUTPUT, name="found",
            )  # fmt: skip
        return fresh_session.windows(
            "some", keys=["visitor"], time="ts", window=w.hop("5 seconds", "10 seconds"),
            evictor=w.CountEvictor(2), function=PAGES, output=OUTPUT, name="found",
        )  # fmt: skip

    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = windows()
    assert not expected.isStreaming
    rows = seconds(expected.collect())
    assert len(rows) == (2 if mode == "clock" else 10)
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    """)
    assert windows().isStreaming
    (insert,) = fresh_session.execute("INSERT INTO kept SELECT * FROM found")
    assert insert.row_count == len(rows)
    kept = fresh_session.execute("SELECT * FROM kept")[-1].rows
    if mode == "clock":
        assert [(r[0], *r[3:]) for r in seconds(kept)] == [(r[0], *r[3:]) for r in rows]
        return
    assert seconds(kept) == rows
    (stream,) = fresh_session.streams.all()
    (operator,) = stream.status().operators
    assert [source.name for source in operator.sources] == ["visits"]
    assert operator.n_null_times == 0
    (again,) = fresh_session.execute("INSERT INTO kept SELECT * FROM found")
    assert "the input ended in an earlier run" in again.notes[0]


def test_unsupported_queries_on_streams_are_refused(fresh_session: sqlwin.Session) -> None:
    ticks = fresh_session.spark.readStream.format("rate").load()
    arguments: dict[str, Any] = {
        "time": "timestamp", "window": w.tumble("1 minute"), "function": PAGES, "output": OUTPUT,
    }  # fmt: skip
    with pytest.raises(sqlwin.SqlwinError, match="requires a watermark for a streaming DataFrame"):
        fresh_session.windows(ticks, **arguments)
    fresh_session.register("ticks", ticks)
    with pytest.raises(sqlwin.SqlwinError, match="`ticks` has no watermark"):
        fresh_session.windows("ticks", **arguments)
    fresh_session.register("ticks", ticks, time_column="timestamp", watermark="1 second")
    with pytest.raises(sqlwin.SqlwinError, match="the key `x` is double"):
        fresh_session.execute("CREATE VIEW x AS SELECT *, rand() AS x FROM ticks")
        fresh_session.windows("x", keys=["x"], **arguments)
    fresh_session.execute("SET 'table.exec.emit.early-fire.enabled' = 'true'")
    with pytest.raises(sqlwin.SqlwinError, match="does not support early firing"):
        fresh_session.windows("ticks", **arguments)


@pytest.mark.long
def test_windows_on_processing_time_close_without_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", BATCHES[0])
    reader = fresh_session.spark.readStream.schema("ts timestamp_ntz, visitor string, pages bigint")
    result = fresh_session.windows(
        reader.parquet(str(tmp_path / "in")), keys=["visitor"], time=None,
        window=w.session("3 seconds"), function=PAGES, output=OUTPUT,
    )  # fmt: skip
    rows: list[Any] = []
    writer = result.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: len(rows) >= 2 or not query.isActive)
    finally:
        query.stop()
    assert [(row.visitor, row.n, row.pages) for row in sorted(rows)] == [
        ("ann", 2, [5, 7]),
        ("bob", 1, [2]),
    ]
    assert all(row.window_end - row.window_start == 3 * SECOND for row in rows)
