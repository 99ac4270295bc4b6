"""The engines that streams are compared on, except those in separate processes.

Each is a streaming DataFrame over the same files, so that source, sink, trigger, state store and
measurements are the same for all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import DataType, StructType

import sqlwin
from runtime.frames.heartbeat import is_heartbeat
from runtime.frames.reports import report_of
from runtime.spark.clusters import stream_partitions
from runtime.streaming.source_reads import reads_of_sources, rows_read
from runtime.streaming.status import state_sizes
from sqlwin.execution.streams.options import await_sources, stream_settings
from tests.bench import cases
from tests.bench.cases import Case
from tests.bench.data import DISORDER_SECONDS
from tests.bench.memory import workers_peak
from tests.bench.streaming.formats import csv_files

CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "1000000",
    "spark.sql.session.timeZone": "UTC",
}

Digest = tuple[float, ...]


def connect(master: str) -> sqlwin.Session:
    """Return a session whose streams have as many state partitions as under `sqlwin run`."""
    session = sqlwin.connect(master=master, conf=CONF)
    partitions = stream_partitions(session.spark)
    session.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return session


@dataclass(frozen=True)
class Outcome:
    """Result, times and state of a run.

    Attributes:
        digest: Aggregates of the emitted rows.
        n_rows: Number of input rows that were timed.
        seconds: Duration of the query; only of the timed part if some was not timed.
        batch_seconds: Durations of the timed micro-batches with rows, except the first, which
            compiles the plan.
        later_seconds: Total duration of all micro-batches but the first, with rows or without.
        state_rows: Maximum number of rows in the state store. None if unknown.
        state_bytes: Size of keys and values in the state store after the last micro-batch with
            rows. None if unknown.
        worker_bytes: Peak memory of all Python workers together.
        jvm_bytes: Peak memory of the JVM, including RocksDB.
        partials: Number of partials (key and slice) in state after the last micro-batch with rows;
            0 if unknown.
        paced: For engines without micro-batches, the mean seconds between the windows of two
            successive minutes of event time.
    """

    digest: Digest
    n_rows: int
    seconds: float
    batch_seconds: tuple[float, ...]
    later_seconds: float
    state_rows: int | None
    state_bytes: int | None
    worker_bytes: int
    jvm_bytes: int
    partials: int
    paced: float | None = None

    @property
    def minute(self) -> float | None:
        """Mean seconds of a micro-batch, or of a minute of event time without micro-batches."""
        return float(np.mean(self.batch_seconds)) if self.batch_seconds else self.paced

    @property
    def bytes_per_partial(self) -> float:
        """Bytes of state for each key and slice."""
        return (self.state_bytes or 0) / self.partials if self.partials else 0.0

    @property
    def rows_per_second(self) -> float:
        """Rows per second over the whole run."""
        return self.n_rows / self.seconds

    def batch(self, percent: float) -> float:
        """Return a percentile of the micro-batches' seconds."""
        return float(np.percentile(self.batch_seconds, percent)) if self.batch_seconds else 0.0


@dataclass(frozen=True)
class Files:
    """The input: `n_rows` rows in files of one format, `per_batch` files per micro-batch.

    Files of a `history` come before and have been read. The first `settling` micro-batches are
    neither timed nor counted.
    """

    path: Path
    n_rows: int
    per_batch: int
    format: str = "parquet"
    history: Path | None = None
    settling: int = 0

    @property
    def pattern(self) -> str:
        """The files as a glob. Given a directory, Spark would not resume from another one's files."""
        return f"{self.path}/*.{self.format}"


@dataclass(frozen=True)
class Engine:
    """A way to compute a case: a streaming DataFrame of its columns, and the size of its state."""

    rows: Callable[[sqlwin.Session, Case, Files], DataFrame]
    state_bytes: Callable[[sqlwin.Session, Path, Mapping[str, Any]], int]


def run(
    engine: Engine, session: sqlwin.Session, case: Case, files: Files, start: Path | None = None
) -> Outcome:
    """Process all files, micro-batch by micro-batch. Windows that are open at the end stay open.

    Args:
        engine: Engine.
        session: Session of `connect`.
        case: Query.
        files: Input.
        start: Checkpoint to resume from; it is copied. None starts from the beginning.
    """

    def state_bytes(checkpoint: Path, progress: Sequence[Any]) -> int:
        last = [p for p in progress if p["stateOperators"]][-1]
        return engine.state_bytes(session, checkpoint, last)

    rows = engine.rows(session, case, files)
    return measure(rows, case.digest.split(", "), state_bytes, files.settling, start)


def measure(
    rows: DataFrame,
    digest: Sequence[str],
    state_bytes: Callable[[Path, Sequence[Any]], int],
    settling: int = 0,
    start: Path | None = None,
) -> Outcome:
    """Run a stream until its input is used up, and discard its rows.

    Args:
        rows: Streaming DataFrame.
        digest: Aggregates in Spark SQL that distinguish one result from another.
        state_bytes: Function from the checkpoint and the progress of each micro-batch to the
            state's size.
        settling: Number of micro-batches that are not timed.
        start: Checkpoint to resume from; it is copied. None starts from the beginning.
    """
    observed = [F.expr(item).alias(f"d{i}") for i, item in enumerate(digest)]
    checkpoint = Path(tempfile.mkdtemp(prefix="stream-"))
    if start is not None:
        # Spark writes new files next to the existing ones and never rewrites these
        shutil.copytree(start, checkpoint, copy_function=_link, dirs_exist_ok=True)
    try:
        with workers_peak() as memory:
            started = time.monotonic()
            query = drain(rows.observe("digest", *observed), checkpoint)
            seconds = time.monotonic() - started
        progress = list(query.recentProgress)
        reads = reads_of_sources(rows)
        n_rows = [rows_read(report_of(p), reads, is_heartbeat) for p in progress]
        timed = slice(max(settling, 1), None)
        batch_seconds = tuple(
            _seconds(p) for p, n in zip(progress[timed], n_rows[timed], strict=True) if n
        )
        return Outcome(
            digest=_digest(progress, len(digest)),
            n_rows=sum(n_rows[settling:]),
            seconds=sum(batch_seconds) if settling else seconds,
            batch_seconds=batch_seconds,
            later_seconds=sum(map(_seconds, progress[1:])),
            state_rows=max(
                sum(operator["numRowsTotal"] for operator in p["stateOperators"]) for p in progress
            ),
            state_bytes=state_bytes(checkpoint, progress),
            worker_bytes=memory.together,
            jvm_bytes=memory.jvm,
            partials=_partials(progress),
        )
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def drain(rows: DataFrame, checkpoint: Path, may_die: bool = False) -> StreamingQuery:
    """Run a stream until its input is used up, and discard its rows.

    Args:
        rows: Streaming DataFrame.
        checkpoint: Directory of the checkpoint.
        may_die: Whether to resume where a killed process stopped.
    """
    spark, writer = rows.sparkSession, rows.writeStream.format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    # all engines use the settings of streams that sqlwin starts
    with stream_settings(spark.conf, stream_partitions(spark), is_local=not may_die):
        query = writer.start()
        await_sources(query)
    query.awaitTermination()
    return query


def same(left: Digest, right: Digest) -> bool:
    """Return whether two results are equal except for the rounding of sums."""
    return all(
        abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1) for a, b in zip(left, right, strict=True)
    )


def _link(origin: str, copy: str) -> str:
    try:
        os.link(origin, copy)
    except OSError:
        # another file system
        shutil.copy2(origin, copy)
    return copy


def _digest(progress: Sequence[Any], n_parts: int) -> Digest:
    result = [p["observedMetrics"]["digest"] for p in progress if "digest" in p["observedMetrics"]]
    return tuple(float(sum(row[i] or 0 for row in result)) for i in range(n_parts))


def _partials(progress: Sequence[Any]) -> int:
    result = [size for p in progress for size in state_sizes(report_of(p), 1) if size is not None]
    return result[-1][0] if result else 0


def _seconds(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"].get("triggerExecution", 0)) / 1_000


# -- sqlwin ----------------------------------------------------------------------------------------


def _sqlwin_rows(session: sqlwin.Session, case: Case, files: Files) -> DataFrame:
    session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE OR REPLACE TABLE events (
          ts TIMESTAMP(6), key BIGINT, price BIGINT, val DOUBLE,
          WATERMARK FOR ts AS ts - INTERVAL '{DISORDER_SECONDS}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{files.pattern}', 'format' = '{files.format}',
                'max-files-per-trigger' = '{files.per_batch}')
    """)
    return session.sql(cases.sqlwin_sql(case))


def _late_rows(session: sqlwin.Session, case: Case, files: Files) -> DataFrame:
    """Return sqlwin's rows with an allowed lateness of a day, which no row needs."""
    session.execute("SET 'table.exec.emit.allow-lateness' = '1 d'")
    try:
        return _sqlwin_rows(session, case, files)
    finally:
        session.execute("RESET 'table.exec.emit.allow-lateness'")


def _csv_rows(session: sqlwin.Session, case: Case, files: Files) -> DataFrame:
    """Return sqlwin's rows over the CSV files that Flink reads."""
    return _sqlwin_rows(session, case, replace(files, path=csv_files(files.path), format="csv"))


def _sqlwin_state(session: sqlwin.Session, checkpoint: Path, last: Mapping[str, Any]) -> int:
    """Return the size of all names and blobs."""
    states = session.spark.read.format("statestore").option("stateVarName", "blobs")
    size = F.sum(F.expr("length(user_map_key.name) + length(user_map_value.blob)"))
    (row,) = states.load(str(checkpoint)).select(size).collect()
    return int(row[0] or 0)


# -- Spark -----------------------------------------------------------------------------------------


def _spark_rows(session: sqlwin.Session, case: Case, files: Files) -> DataFrame:
    """Return the rows of Spark's window() or session_window(), with the same watermark."""
    spark = session.spark
    schema = spark.read.parquet(str(files.path)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files.per_batch)
    rows = reader.parquet(files.pattern).withColumn("ts", F.col("ts").cast("timestamp"))
    # the state's key is the group key and the window, a struct of two times
    step = f"{case.step_us // 1_000_000} seconds"
    window = F.window("ts", f"{case.size} minutes", step)
    if case.kind == "SESSION":
        window = F.session_window("ts", step)
    return (
        rows.withWatermark("ts", f"{DISORDER_SECONDS} seconds")
        .groupBy("key", window)
        .agg(
            F.sum("price").alias("s"),
            F.count("*").alias("n"),
            F.avg("val").alias("a"),
            F.max("price").alias("m"),
        )
    )


def _spark_state(session: sqlwin.Session, checkpoint: Path, last: Mapping[str, Any]) -> int:
    """Return the number of rows times the size of a row, which is fixed for these types."""
    states = session.spark.read.format("statestore").load(str(checkpoint))
    fields = {field.name: field.dataType for field in states.schema}
    row = _unsafe_row_bytes(fields["key"]) + _unsafe_row_bytes(fields["value"])
    return int(last["stateOperators"][0]["numRowsTotal"]) * row


def _unsafe_row_bytes(type_: DataType) -> int:
    """Return the bytes of an UnsafeRow: a bit per NULL, 8 bytes per field, then nested rows."""
    if not isinstance(type_, StructType):
        return 0
    bitmap = -(-len(type_) // 64) * 8
    return bitmap + 8 * len(type_) + sum(_unsafe_row_bytes(field.dataType) for field in type_)


ENGINES = {
    "sqlwin": Engine(_sqlwin_rows, _sqlwin_state),
    "lateness": Engine(_late_rows, _sqlwin_state),
    "sqlwin-csv": Engine(_csv_rows, _sqlwin_state),
    "spark": Engine(_spark_rows, _spark_state),
}
