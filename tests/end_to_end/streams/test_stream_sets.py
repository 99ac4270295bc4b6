"""STATEMENT SET over a stream: INSERTs whose windows share slices run as one stream."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import sqlwin
from runtime.connectors.filesystem.stream_write import FileSink
from runtime.errors import ExecutionError
from sqlwin.execution.streams.status import show_streams
from tests.end_to_end.stream_files import write_next

NAMES = ("minutes", "moving", "hours")
STREAMING = "SET 'execution.runtime-mode' = 'streaming';"
BATCH = "SET 'execution.runtime-mode' = 'batch';"
APART = "SET 'sqlwin.optimizer.disabled-rules' = 'share_window_slices';"


def write(directory: Path, seconds: np.ndarray, seed: int) -> None:
    """Write one Parquet file of a micro-batch."""
    random = np.random.default_rng(seed)
    start = dt.datetime(2026, 3, 1)  # noqa: DTZ001
    times = [start + dt.timedelta(seconds=float(s)) for s in seconds]
    columns = {
        "ts": pa.array(times, pa.timestamp("us")),
        "k": pa.array(random.choice(["a", "b", "c"], len(seconds))),
        "v": pa.array(random.integers(0, 100, len(seconds))),
    }
    write_next(directory, columns)


def write_timely_files(directory: Path, numbers: range) -> None:
    """Write files of 20 minutes each, whose rows are at most a minute late."""
    random = np.random.default_rng(3)
    for number in numbers:
        seconds = np.sort(random.uniform(number * 1200, (number + 1) * 1200, 120))
        write(directory, seconds - random.uniform(0, 55, 120) * (seconds > 60), number)


def events(directory: Path, per_batch: int = 3) -> str:
    return f"""
        CREATE TABLE events (ts TIMESTAMP(6), k STRING, v BIGINT,
          WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
        WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet',
              'max-files-per-trigger' = '{per_batch}');
    """


def tables(prefix: str, options: str) -> str:
    """Return tables for the INSERTs; in `options`, braces stand for the table name."""
    return "\n".join(
        f"CREATE TABLE {prefix}{name} ({columns}) WITH ({options.format(prefix + name)});"
        for name, columns in zip(
            NAMES,
            (
                "k STRING, starts TIMESTAMP(3), ends TIMESTAMP(3), n BIGINT, mean DOUBLE",
                "ends TIMESTAMP(3), k STRING, most BIGINT, texts STRING",
                "k STRING, starts TIMESTAMP(3), ends TIMESTAMP(3), total BIGINT, n BIGINT",
            ),
            strict=True,
        )
    )


QUERIES = (
    """SELECT k, window_start, window_end, COUNT(*), AVG(v)
       FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
       GROUP BY k, window_start, window_end""",
    """SELECT window_end, UPPER(k), MAX(v), CONCAT('n=', COUNT(DISTINCT v))
       FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
       GROUP BY k, window_start, window_end HAVING COUNT(*) > 2""",
    """SELECT k, window_start, window_end, SUM(v), COUNT(*)
       FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' HOUR))
       GROUP BY k, window_start, window_end""",
)


def statement_set(prefix: str = "") -> str:
    inserts = (f"INSERT INTO {prefix}{n} {q};" for n, q in zip(NAMES, QUERIES, strict=True))
    return f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END;"


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in session.execute(BATCH + query)[-1].rows), key=repr)


def written_rows(session: sqlwin.Session, prefix: str = "") -> list[list[tuple[object, ...]]]:
    return [rows(session, f"SELECT * FROM {prefix}{name}") for name in NAMES]


@pytest.mark.long
def test_one_stream_gives_each_insert_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_timely_files(tmp_path / "in", range(9))
    *_, result = fresh_session.execute(f"""
        {events(tmp_path / "in")} {tables("", "'connector' = 'memory'")}
        {STREAMING} {statement_set()}
    """)
    expected = [rows(fresh_session, query) for query in QUERIES]
    assert all(expected)
    assert written_rows(fresh_session) == expected
    assert result.message.splitlines() == [
        f"INSERT INTO {name}: {len(actual):,} rows"
        for name, actual in zip(NAMES, expected, strict=True)
    ]
    assert result.row_count == sum(map(len, expected))
    (stream,) = fresh_session.streams.all()
    (row,) = show_streams(fresh_session.streams).to_pylist()
    assert row["name"] == "minutes"
    assert row["into"] == "minutes, moving, hours"
    assert row["rows out"] == "; ".join(
        f"{name} {len(actual):,}" for name, actual in zip(NAMES, expected, strict=True)
    )
    assert (row["watermark"], row["state size"], row["dropped"]) == (
        "end of input",
        "0 rows, 0 kB",
        "-",
    )
    assert fresh_session.streams.find("hours") is stream


@pytest.mark.slow
def test_each_insert_of_a_set_has_its_own_late_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    random = np.random.default_rng(5)
    for number in range(8):
        seconds = random.uniform(number * 600, (number + 1) * 600, 80)
        # a third of the rows come up to an hour late
        late = random.uniform(0, 3600, 80) * (random.random(80) < 0.3)
        write(tmp_path / "in", seconds - late, number)
    *_, shared = fresh_session.execute(f"""
        {events(tmp_path / "in", 2)} {tables("", "'connector' = 'memory'")}
        {tables("x_", "'connector' = 'memory'")}
        {STREAMING} {statement_set()}
    """)
    fresh_session.execute(f"{APART} {STREAMING} {statement_set('x_')}")
    assert len(fresh_session.streams.all()) == 1 + 3
    assert written_rows(fresh_session) == written_rows(fresh_session, "x_")
    n_late = [part.status().operators[0].n_late for part in fresh_session.streams.all()[1:]]
    assert n_late[0] > n_late[1] > n_late[2] > 0
    actual = [operator.n_late for operator in fresh_session.streams.all()[0].status().operators]
    assert actual == n_late
    assert [note.split(" row")[0] for note in shared.notes] == [
        f"{name}: {count:,}" for name, count in zip(NAMES, n_late, strict=True)
    ]


@pytest.mark.long
def test_a_set_resumes_from_its_checkpoint_and_writes_every_row_once(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    files = "'connector' = 'filesystem', 'format' = 'json', 'path' = '" + str(tmp_path) + "/out/{}'"
    write_timely_files(tmp_path / "in", range(4))
    fresh_session.execute(f"""
        {events(tmp_path / "in")} {tables("", files)} {STREAMING}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows'; SET 'sqlwin.exchange.partitions' = '2';
        {statement_set()}
    """)
    assert (tmp_path / "checkpoints" / "minutes" / "sqlwin.json").exists()
    assert not (tmp_path / "checkpoints" / "hours" / "sqlwin.json").exists()
    with pytest.raises(ExecutionError, match=r"hours is part of the checkpoint in .*minutes"):
        fresh_session.execute(f"{STREAMING} INSERT INTO hours {QUERIES[2]}")
    write_timely_files(tmp_path / "in", range(4, 9))
    # as on a machine with more cores
    more = "SET 'sqlwin.exchange.partitions' = '3'; SET 'sqlwin.exchange.buckets' = '24';"
    spelled = statement_set().replace("INTO minutes", "INTO default_database.`Minutes`")
    fresh_session.execute(f"RESET 'sqlwin.end-of-input'; {more} {STREAMING} {spelled}")
    assert len(list((tmp_path / "checkpoints").glob("*/sqlwin.json"))) == 1
    assert written_rows(fresh_session) == [rows(fresh_session, query) for query in QUERIES]
    # an ended set does nothing more, and is not confused with another one
    (again,) = fresh_session.execute(STREAMING + statement_set())[1:]
    assert again.row_count == 0
    fewer = f"EXECUTE STATEMENT SET BEGIN INSERT INTO minutes {QUERIES[0]}; "
    with pytest.raises(
        ExecutionError, match=r"does not match its checkpoint in .*: its plan has changed"
    ):
        fresh_session.execute(f"{fewer} INSERT INTO hours {QUERIES[2]}; END;")


@pytest.mark.long
def test_a_micro_batch_written_to_one_of_two_tables_is_written_once_to_both(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = "'connector' = 'filesystem', 'format' = 'json', 'path' = '" + str(tmp_path) + "/out/{}'"
    write_timely_files(tmp_path / "in", range(3))
    plain, failed = FileSink.write, []

    def write_or_fail(sink: FileSink, actual: DataFrame, batch: int) -> int:
        if batch == 2 and sink._writer.name.endswith("i1") and not failed:
            failed.append(batch)
            raise ExecutionError("the disk is full")
        return plain(sink, actual, batch)

    monkeypatch.setattr(FileSink, "write", write_or_fail)
    fresh_session.execute(f"""
        {events(tmp_path / "in", 1)} {tables("", files)} {STREAMING}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    """)
    with pytest.raises(ExecutionError, match="the disk is full"):
        fresh_session.execute(statement_set())
    assert failed == [2]
    # the first table had the micro-batch, the last one did not
    taken = [[p.name for p in (tmp_path / "out" / name).glob("*-00000002-*")] for name in NAMES]
    assert taken[0]
    assert not taken[1] + taken[2]
    fresh_session.execute(STREAMING + statement_set())
    assert written_rows(fresh_session) == [rows(fresh_session, query) for query in QUERIES]


@pytest.mark.slow
def test_inserts_that_differ_have_streams_of_their_own(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_timely_files(tmp_path / "in", range(2))
    names = fresh_session.spark.createDataFrame(
        [("a", "Anna"), ("b", "Bert")], "k STRING, name STRING"
    )
    fresh_session.register("names", names)
    named = """SELECT n.name, w.window_end, w.n + 1 FROM (
                 SELECT k, window_end, COUNT(*) AS n
                 FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' MINUTES))
                 GROUP BY k, window_start, window_end) w
               JOIN names n ON w.k = n.k"""
    *_, result = fresh_session.execute(f"""
        {events(tmp_path / "in")} {tables("", "'connector' = 'memory'")}
        CREATE TABLE plain (k STRING, v BIGINT) WITH ('connector' = 'memory');
        CREATE TABLE named (name STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory');
        {STREAMING}
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO minutes {QUERIES[0]};
          INSERT INTO plain SELECT k, v FROM events WHERE v > 50;
          INSERT INTO hours {QUERIES[2]};
          INSERT INTO named {named};
        END;
    """)
    into = [stream.setup.sink for stream in fresh_session.streams.all()]
    assert into == ["minutes, hours, named", "plain"]
    assert [line.split(":")[0] for line in result.message.splitlines()] == [
        "INSERT INTO minutes",
        "INSERT INTO plain",
        "INSERT INTO hours",
        "INSERT INTO named",
    ]
    assert rows(fresh_session, "SELECT * FROM hours") == rows(fresh_session, QUERIES[2])
    assert rows(fresh_session, "SELECT * FROM named") == rows(fresh_session, named)
    assert rows(fresh_session, "SELECT * FROM plain") == rows(
        fresh_session, "SELECT k, v FROM events WHERE v > 50"
    )
