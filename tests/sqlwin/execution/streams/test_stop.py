"""Stopping a stream is not a failure at any point of a micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import sqlwin
import sqlwin.execution.streams.handle
from runtime.connectors.memory import MemoryTable
from runtime.errors import ExecutionError, SqlwinError
from runtime.files import LocalFiles
from runtime.sinks.stream_sinks import StreamRun
from runtime.spec.sink import StreamSink
from runtime.streaming.checkpoint import Checkpoint
from runtime.streaming.identity import Identity
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams.handle import Setup, Stream, StreamState
from tests.observing import wait_for_stream


class JavaThrowable:
    """The parts of py4j's Java exception that sqlwin reads."""

    _target_id = "o1"
    _gateway_client = None

    def __init__(self, name: str, message: str) -> None:
        self._name, self._message = name, message

    def getClass(self) -> JavaThrowable:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> None:
        return None

    def toString(self) -> str:
        return f"{self._name}: {self._message}"


ERRORS = StatementErrors("INSERT INTO kept ...")


class Query:
    """A Spark query that is stopped during a micro-batch."""

    runId = "run"
    lastProgress = None
    recentProgress: tuple[()] = ()

    def __init__(self, on_stop: Callable[[], BaseException | None] = lambda: None) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": False}
        self._on_stop = on_stop
        self._exception: BaseException | None = None

    def stop(self) -> None:
        self.fail(self._on_stop())

    def fail(self, error: BaseException | None) -> None:
        self.isActive = False
        self._exception = error

    def exception(self) -> BaseException | None:
        return self._exception

    def processAllAvailable(self) -> None:
        """Do nothing: no data is available."""


def stream(query: Query, run: StreamRun, directory: Path, *, ends: bool = False) -> Stream:
    setup = Setup("kept", "INSERT INTO kept ...", "kept", ends, True, True, (), ERRORS)
    checkpoint = Checkpoint(str(directory), 1, 1, "w", "id")
    LocalFiles().make_directory(checkpoint.end_of_input)
    return Stream(1, setup, cast(Any, query), run, checkpoint, Identity(""), LocalFiles())


def interruption(name: str = "java.lang.InterruptedException") -> Py4JJavaError:
    error = Py4JJavaError.__new__(Py4JJavaError)
    error.errmsg = ""
    error.java_exception = cast(Any, JavaThrowable(name, "interrupted"))
    return error


def failed_query(text: str) -> StreamingQueryException:
    return StreamingQueryException(message=text, errorClass=None)


RUN = {"name": "kept (1)", "checkpoint": "c", "trigger_us": 0, "writer": "w"}


def test_a_micro_batch_that_the_stop_interrupts_is_no_failure(tmp_path: Path) -> None:
    run = StreamRun(**cast(Any, RUN))

    def interrupted() -> None:
        run.error = interruption()

    stopped = stream(Query(interrupted), run, tmp_path)
    stopped.stop()
    assert stopped.state is StreamState.STOPPED
    assert stopped.failure() == ""
    assert stopped.wait()


@pytest.mark.parametrize(
    "error",
    [
        "Py4JJavaError: java.lang.InterruptedException",
        "java.nio.channels.ClosedByInterruptException",
        "java.io.InterruptedIOException: while waiting",
        "[SPARK_JOB_CANCELLED] Job 4 cancelled part of cancelled job group 2",
    ],
)
def test_nor_is_it_one_where_spark_takes_the_interruption_for_a_failure(
    error: str, tmp_path: Path
) -> None:
    stopped = stream(Query(lambda: failed_query(error)), StreamRun(**cast(Any, RUN)), tmp_path)
    stopped.stop()
    assert stopped.state is StreamState.STOPPED
    assert stopped.wait()


def test_finite_input_on_processing_time_ends(
    tmp_path: Path,
) -> None:
    run = StreamRun(**cast(Any, RUN))

    def interrupted() -> None:
        run.error = interruption()

    ended = stream(Query(interrupted), run, tmp_path, ends=True)
    assert ended.wait(180)
    assert ended.state is StreamState.ENDED


def test_other_failures_stay_failures(tmp_path: Path) -> None:
    run = StreamRun(**cast(Any, RUN))

    def full() -> BaseException:
        run.error = ExecutionError("no space left on the device")
        return failed_query("[STREAM_FAILED] Query failed")

    stopped = stream(Query(full), run, tmp_path)
    stopped.stop()
    assert stopped.state is StreamState.FAILED
    assert stopped.failure() == "no space left on the device"


def test_jobs_that_somebody_else_cancelled_have_failed(tmp_path: Path) -> None:
    query = Query()
    cancelled = stream(query, StreamRun(**cast(Any, RUN)), tmp_path)
    query.fail(failed_query("[SPARK_JOB_CANCELLED] Job 4 cancelled"))
    with pytest.raises(SqlwinError, match="the query was cancelled"):
        cancelled.wait(180)
    assert cancelled.state is StreamState.FAILED


def test_an_interrupted_stream_resumes_with_its_last_micro_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"id": 1}\n{"id": 2}\n')
    fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE events (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
          'format' = 'json', 'source.monitor-interval' = '1 s');
        CREATE TABLE kept (id INT) WITH ('connector' = 'memory');
    """)
    insert = "INSERT INTO kept SELECT id FROM events"
    is_writing = threading.Event()

    class SlowSink(StreamSink):
        def write(self, rows: DataFrame, batch: int) -> int:
            is_writing.set()
            latch = rows.sparkSession._jvm.java.util.concurrent.CountDownLatch(1)  # type: ignore[union-attr]
            getattr(latch, "await")()
            raise AssertionError("nobody has stopped it")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryTable, "open_sink", lambda *_: SlowSink())
        (result,) = fresh_session.execute(insert)
        assert result.stream is not None
        assert is_writing.wait(180)
        result.stream.stop(grace_s=0.0)
    assert isinstance(result.stream.run.error, Py4JJavaError)
    assert result.stream.state is StreamState.STOPPED
    assert result.stream.failure() == ""
    (again,) = fresh_session.execute(insert)
    assert again.stream is not None
    assert again.stream.checkpoint.writer == result.stream.checkpoint.writer
    wait_for_stream(again.stream, lambda: again.stream.run.n_rows)
    monkeypatch.undo()
    again.stream.stop()
    assert sorted(row.id for row in fresh_session.execute("SELECT * FROM kept")[0].rows) == [1, 2]
