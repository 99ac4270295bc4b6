"""Files that arrive during a stream and are empty, truncated, or still being written."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.commits import Commit, write_commit
from runtime.connectors.filesystem.arrivals import arrivals_check, arrived_files
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.streaming.source_log import SourceLog
from sqlwin.execution.streams.handle import Stream
from tests.end_to_end.sources.test_file_systems import COUNTS, write_minutes
from tests.marks import among
from tests.observing import files_below, next_file_time, wait_for_stream, wait_until
from tests.runtime.connectors.tables import table

BY_SPARK = "push_local_aggregate_into_scan"


def tables(session: sqlwin.Session, directory: Path, scan: str) -> None:
    filesystem = "'connector' = 'filesystem', 'format' = 'parquet'"
    session.execute(f"""
        SET 'sqlwin.optimizer.disabled-rules' = '{scan}';
        SET 'execution.checkpointing.dir' = '{directory}/ck';
        CREATE TABLE i (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
          ({filesystem}, 'path' = '{directory}/in', 'source.monitor-interval' = '100 ms');
        CREATE TABLE o (k BIGINT, e TIMESTAMP(3), n BIGINT) WITH
          ({filesystem}, 'path' = '{directory}/out')
    """)
    assert ("ArrowScan" in session.explain(f"INSERT INTO o {COUNTS}")) == (scan == "")


def start_stream(session: sqlwin.Session) -> Stream:
    (result,) = session.execute(f"INSERT INTO o {COUNTS}")
    assert result.stream is not None
    return result.stream


def stream_of_one_file(session: sqlwin.Session, directory: Path, scan: str) -> Stream:
    """Return a stream after its first file, which closes nine windows."""
    write_minutes(directory / "in" / "a.parquet", 0)
    tables(session, directory, scan)
    stream = start_stream(session)
    await_rows(stream, directory, 9)
    return stream


def check_next_run(session: sqlwin.Session, directory: Path) -> None:
    """Check that the stream of one file has failed at the second, and now writes its windows."""
    assert counts_in(directory) == 9
    stream = start_stream(session)
    await_rows(stream, directory, 21)
    stream.stop()
    assert counts_in(directory) == 21


def await_rows(stream: Stream, directory: Path, n_rows: int) -> None:
    """Wait until `n_rows` windows are written, each with five rows of a key."""
    wait_for_stream(stream, lambda: (directory / "out").exists() and counts_in(directory) >= n_rows)


def is_planned(checkpoint: Path, name: str) -> bool:
    """Return whether the stream has planned a micro-batch that reads a file."""
    entries = (item for item in files_below(checkpoint, "[0-9]*") if "sources" in item.parts)
    return any(name in item.read_text() for item in entries)


def counts_in(directory: Path) -> int:
    actual = (directory / "out").glob("part-*.parquet")
    counts = [n for path in actual for n in pq.read_table(path)["n"].to_pylist()]
    assert set(counts) <= {5}
    return len(counts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "scan"),
    [
        (0, BY_SPARK),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [(0, ""), (500, ""), (500, BY_SPARK)]
        ),
    ],
)
def test_a_broken_file_stops_the_stream_which_resumes_when_it_is_whole(
    fresh_session: sqlwin.Session, tmp_path: Path, left: int, scan: str
) -> None:
    write_minutes(tmp_path / "b.parquet", 1)
    stream = stream_of_one_file(fresh_session, tmp_path, scan)
    broken = tmp_path / "in" / "b.parquet"
    (tmp_path / "b").write_bytes((tmp_path / "b.parquet").read_bytes()[:left])
    os.utime(tmp_path / "b", (time.time() - 60, time.time() - 60))
    (tmp_path / "b").rename(broken)
    with pytest.raises(ExecutionError) as caught:
        assert stream.wait(180)
    what = "is empty and" if left == 0 else "is truncated or"
    assert caught.value.message == f"table `i`: {broken} {what} not a valid file of format parquet"
    shutil.copy(tmp_path / "b.parquet", broken)
    check_next_run(fresh_session, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("scan", among(["", BY_SPARK], slow=[BY_SPARK]))
def test_a_file_that_is_being_written_loses_no_rows(
    fresh_session: sqlwin.Session, tmp_path: Path, scan: str
) -> None:
    write_minutes(tmp_path / "b.parquet", 1)
    stream = stream_of_one_file(fresh_session, tmp_path, scan)
    data = (tmp_path / "b.parquet").read_bytes()
    with (tmp_path / "in" / "b.parquet").open("wb") as file:
        wait_until(lambda: is_planned(tmp_path / "ck", "b.parquet"))
        next_file_time(tmp_path)
        for part in (data[:500], data[500:]):
            file.write(part)
            file.flush()
    with pytest.raises(ExecutionError) as caught:
        assert stream.wait(180)
    assert caught.value.message == (
        f"table `i`: {file.name} changed after the stream had started to read it"
    )
    check_next_run(fresh_session, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("scan", among(["", BY_SPARK], slow=[BY_SPARK]))
def test_a_stream_begins_with_complete_micro_batches(
    fresh_session: sqlwin.Session, tmp_path: Path, scan: str
) -> None:
    # some files of the second micro-batch are in place, the others are still moving
    write_minutes(tmp_path / "in" / "part-0a-00000000-00000.parquet", 0)
    write_minutes(tmp_path / "in" / "part-0a-00000001-00001.parquet", 2)
    write_commit(LocalFiles(), str(tmp_path / "in"), "0a", Commit(1, False))

    def move() -> None:
        write_minutes(tmp_path / "in" / "part-0a-00000001-00000.parquet", 1)
        write_commit(LocalFiles(), str(tmp_path / "in"), "0a", Commit(1, True))

    moving = threading.Timer(2, move)
    moving.start()
    # EXPLAIN waits for the other files, too
    tables(fresh_session, tmp_path, scan)
    stream = start_stream(fresh_session)
    assert not moving.is_alive()
    await_rows(stream, tmp_path, 33)
    stream.stop()
    assert counts_in(tmp_path) == 33
    # a killed writer never completes its micro-batch
    write_commit(LocalFiles(), str(tmp_path / "in"), "0a", Commit(1, False))
    with pytest.raises(
        ExecutionError, match=r"table `i`: .*/in contains an incomplete write .*0a\.json"
    ):
        fresh_session.execute(f"INSERT INTO o {COUNTS}")


def write_log(checkpoint: Path, name: str, *lines: object) -> None:
    """Write a file of Spark's logs in a checkpoint."""
    (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (checkpoint / name).write_text("\n".join(["v1", *texts]))


def entry(path: str, batch: int, time_ms: int = 1) -> dict[str, object]:
    """Return a line of Spark's log of files."""
    return {"path": path, "timestamp": time_ms, "batchId": batch}


def plan_file(checkpoint: Path, file: Path, time_ms: int) -> None:
    """Write what Spark does when it has listed a file and planned a micro-batch of it."""
    write_log(checkpoint, "offsets/0", {}, {"logOffset": 0})
    write_log(checkpoint, "sources/0/0", entry(f"file://{file}", 0, time_ms))


def test_a_file_that_has_grown_since_it_was_listed_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    path.write_text("1\n")
    listed_ms = path.stat().st_mtime_ns // 1_000_000
    spec = table("filesystem", "k BIGINT", path=str(path.parent), format="csv")
    check = arrivals_check(spark, spec, SourceLog(LocalFiles(), str(tmp_path)))
    plan_file(tmp_path, path, listed_ms)
    check(0)
    next_file_time(tmp_path)
    path.write_text("1\n2\n")
    with pytest.raises(ExecutionError, match=r"in/a.csv changed after the stream had"):
        check(0)
    # a copying program sets the original's modification time at the end
    os.utime(path, (1, 1))
    with pytest.raises(ExecutionError, match=r"in/a.csv changed after the stream had"):
        check(0)
    # the next run plans the micro-batch again
    next_file_time(tmp_path)
    again = arrivals_check(spark, spec, SourceLog(LocalFiles(), str(tmp_path)))
    again(0)
    next_file_time(tmp_path)
    path.write_text("1\n2\n3\n")
    os.utime(path, (1, 1))
    with pytest.raises(ExecutionError, match=r"in/a.csv changed after the stream had"):
        again(0)


def test_files_of_tables_with_a_common_prefix_are_separate(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "in2" / "a.csv"
    path.parent.mkdir()
    path.write_text("1\n")
    os.utime(path, (1, 1))
    specs = [
        table("filesystem", "k BIGINT", path=f"{tmp_path}/{name}", format=file_format)
        for name, file_format in (("in", "parquet"), ("in2", "csv"))
    ]
    plan_file(tmp_path, path, 1_000)
    for spec in specs:
        arrivals_check(spark, spec, SourceLog(LocalFiles(), str(tmp_path)))(0)


def test_the_files_of_a_micro_batch_equal_sparks_log(tmp_path: Path) -> None:
    log = partial(write_log, tmp_path)
    log("offsets/0", {"batchWatermarkMs": 0}, {"logOffset": 8}, "-", "7")
    log("offsets/1", {"batchWatermarkMs": 0}, {"logOffset": 10}, {"logOffset": 0}, '{"n": 3}')
    log("sources/0/9.compact", entry("file:///in/old", 8), entry("file:///in/a%20b%2Bc.parquet", 9))
    log("sources/0/10", entry("file:///in/d", 10), entry("hdfs://h/in/e", 10))
    log("sources/1/0", entry("file:/ck/end.json", 0))
    actual = arrived_files(SourceLog(LocalFiles(), str(tmp_path)), 1)
    assert actual == {"/in/a b+c.parquet": 1, "/in/d": 1, "/ck/end.json": 1}
    assert arrived_files(SourceLog(LocalFiles(), str(tmp_path)), 2) == {}


def test_a_table_that_is_read_twice_has_two_offsets_and_one_log(tmp_path: Path) -> None:
    log = partial(write_log, tmp_path)
    log("offsets/0", {"batchWatermarkMs": 0}, *[{"logOffset": 0}] * 3)
    log("sources/0/0", entry("file:///in/a", 0))
    assert arrived_files(SourceLog(LocalFiles(), str(tmp_path)), 0) == {"/in/a": 1}
    # the log of the table after it, whose offset is the third one
    log("sources/1/0", entry("file:///in/b", 0, 2))
    assert arrived_files(SourceLog(LocalFiles(), str(tmp_path)), 0) == {"/in/a": 1, "/in/b": 2}
