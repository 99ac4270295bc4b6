"""A stream that fails at any step of its start leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.checkpoint_lock import held_for_rescale
from runtime.errors import SetupError, SqlwinError
from sqlwin.execution.streams import start
from sqlwin.execution.streams.registry import Streams
from tests.end_to_end.stream_files import write_keys
from tests.observing import wait_for_stream, wait_until

# What a start calls, in order. Each fails with what the calls before it have acquired.
STEPS = (
    "check_seen_by_all hold_checkpoint open_stream_checkpoint record_run stream_retries retrying "
    "write_stream StreamRun begin_with stream_settings await_sources Stream"
).split()
INSERT = """INSERT INTO totals SELECT name, COUNT(*) AS n FROM
    TABLE(HOP(TABLE joined, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '{}' MINUTES))
    GROUP BY name, window_start, window_end"""


@pytest.fixture(scope="module")
def session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sqlwin.Session]:
    """Provide a session with a table that streams are joined with."""
    path = tmp_path_factory.mktemp("tables")
    write_keys(path / "in", (0, "a"), (200, "a"))
    (path / "names").mkdir()
    (path / "names/1.csv").write_text("a,first\n")
    result = sqlwin.connect(spark)
    result.execute(f"""
        CREATE TABLE readings (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts) WITH (
          'connector' = 'filesystem', 'path' = '{path}/in', 'format' = 'parquet',
          'source.monitor-interval' = '1 h');
        CREATE TABLE names (k STRING, name STRING) WITH ('connector' = 'filesystem',
          'path' = '{path}/names', 'format' = 'csv', 'lookup.cache' = 'FULL',
          'lookup.full-cache.periodic-reload.interval' = '1 h');
        CREATE VIEW joined AS SELECT r.ts, n.name FROM readings AS r JOIN names AS n ON r.k = n.k;
        CREATE TABLE totals (name STRING, n BIGINT) WITH ('connector' = 'blackhole')""")
    yield result
    result.streams.stop_all()


@pytest.fixture(scope="module")
def begun(session: sqlwin.Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the directory of checkpoints in which the stream has run before."""
    directory = tmp_path_factory.mktemp("checkpoints")
    session.execute(f"SET 'execution.checkpointing.dir' = '{directory}'")
    (result,) = session.execute(INSERT.format("1"))
    stream = result.stream
    assert stream is not None
    wait_for_stream(stream, (directory / "totals/spark/commits/0").exists)
    stream.stop()
    wait_until(lambda: not has_caches(session))
    return directory


def has_caches(session: sqlwin.Session) -> bool:
    return not session.spark._jsparkSession.sharedState().cacheManager().isEmpty()


def fail_at(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SetupError("not here")

    monkeypatch.setattr(Streams if step == "add" else start, step, refuse)


def assert_nothing_is_left(session: sqlwin.Session) -> None:
    spark = session.spark
    assert not spark.streams.active
    assert not session.streams.running()
    assert spark.conf.get("spark.sqlwin.retries", None) is None
    assert not has_caches(session)


@pytest.mark.variants(2)
@pytest.mark.parametrize("step", [*STEPS, "add"])
def test_a_stream_that_resumes_leaves_its_checkpoint_as_it_was(
    step: str, session: sqlwin.Session, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(f"SET 'execution.checkpointing.dir' = '{begun}'")
    about = begun / "totals/sqlwin.json"
    before = about.read_text()
    fail_at(monkeypatch, step)
    with pytest.raises(SqlwinError, match="not here"):
        session.execute(INSERT.format("2"))
    assert about.read_text() == before
    assert_nothing_is_left(session)
    with held_for_rescale(str(begun / "totals")), session.streams.starting():
        assert session.streams.claim(str(begun / "totals"))
