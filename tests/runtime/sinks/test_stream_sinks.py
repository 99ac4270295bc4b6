"""A stream writes to any implementation of the protocol in `runtime.spec.sink`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import sqlwin
from runtime.connectors.connector import Table
from runtime.connectors.memory import MemoryTable
from runtime.connectors.registry import sink_names
from runtime.errors import ExecutionError, SqlwinError
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.table import TableSpec

WINDOWS = """
    SELECT window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts),
      INTERVAL '1' MINUTE)) GROUP BY window_start, window_end
"""


class NotedSink(StreamSink):
    """Sink that records its calls, and fails a given number of times."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.failures = 0

    def open(self, rows: DataFrame, spec: TableSpec, writer: StreamWriter) -> StreamSink:
        self.calls.append(("open", spec.name, writer.name, tuple(rows.columns)))
        return self

    def write(self, rows: DataFrame, batch: int) -> int:
        n_rows = len(rows.collect())
        if self.failures:
            self.failures -= 1
            self.calls.append(("fail", batch, n_rows))
            raise ExecutionError("the sink is full")
        self.calls.append(("write", batch, n_rows))
        return n_rows

    def commit(self) -> None:
        self.calls.append(("commit",))


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[NotedSink]:
    """Provide the sink of all `memory` tables."""
    noted = NotedSink()

    def open_sink(table: Table, rows: DataFrame, writer: StreamWriter) -> StreamSink:
        return noted.open(rows, table.spec, writer)

    monkeypatch.setattr(MemoryTable, "open_sink", open_sink)
    monkeypatch.setattr(MemoryTable, "sink_mode", SinkMode.APPEND)
    return noted


@pytest.fixture
def streaming(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text(
        '{"v": 1, "ts": "2024-05-01 12:00:01"}\n{"v": 2, "ts": "2024-05-01 12:01:01"}\n'
    )
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE events (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json');
        CREATE TABLE totals (e TIMESTAMP(3), s BIGINT) WITH ('connector' = 'memory');
    """)
    return fresh_session


@pytest.mark.long
def test_a_failed_micro_batch_is_written_again_under_its_number(
    streaming: sqlwin.Session, sink: NotedSink
) -> None:
    sink.failures = 1
    insert = f"INSERT INTO totals {WINDOWS}"
    with pytest.raises(SqlwinError, match="the sink is full"):
        streaming.execute(insert)
    (_, name, writer, columns), (outcome, failed, n_failed), *rest = sink.calls
    assert (name, columns) == ("totals", ("e", "s"))
    assert (outcome, failed) == ("fail", 0)
    assert set(rest) <= {("commit",)}, "nothing is written after a failure"
    del sink.calls[:]
    (result,) = streaming.execute(insert)
    opened, first, *_ = sink.calls
    assert opened == ("open", "totals", writer, ("e", "s")), "the same writer in every run"
    assert first == ("write", failed, n_failed)
    writes = [call for call in sink.calls if call[0] == "write"]
    batches = [batch for _, batch, _ in writes]
    assert batches == list(range(len(batches)))
    assert sum(n_rows for _, _, n_rows in writes) == result.row_count  # type: ignore[misc]
    assert sink.calls[-1] == ("commit",) and sink.calls.index(("commit",)) > len(writes)


def test_appending_sinks_get_no_updates(streaming: sqlwin.Session, sink: NotedSink) -> None:
    streaming.execute("SET 'table.exec.emit.allow-lateness' = '1 min'")
    with pytest.raises(SqlwinError, match=r"`totals` .* does not support updates") as raised:
        streaming.execute(f"INSERT INTO totals {WINDOWS}")
    assert sink_names(SinkMode.CHANGELOG) in str(raised.value.hint)
    assert sink.calls == []


def test_rows_without_windows_are_always_final(streaming: sqlwin.Session, sink: NotedSink) -> None:
    streaming.execute("SET 'table.exec.emit.allow-lateness' = '1 min'")
    streaming.execute("INSERT INTO totals SELECT ts, v FROM events")
    assert sum(int(call[2]) for call in sink.calls if call[0] == "write") == 2  # type: ignore[call-overload]


def test_hints_name_the_connectors_with_a_sink() -> None:
    assert sink_names(SinkMode.CHANGELOG) == "memory, print, blackhole"
    assert sink_names(*SinkMode) == (
        "filesystem, delta, iceberg, kafka, upsert-kafka, postgres, jdbc, memory, print, blackhole"
    )
