"""Write a stream to files: every row exactly once across crashes, in plain files for any reader.

A micro-batch is first written to a hidden directory. Its files are then moved below the table's
path, under names that identify stream and micro-batch; meanwhile `runtime.commits` tells which of
them are committed. Spark recomputes an interrupted micro-batch from the same input and state: files
that had started to move are kept, others are written again. Readers need no log, unlike with
Spark's own sink, so batch queries and several streams may write to the same directory.

With `auto-compaction` a micro-batch is held in Parquet files in a hidden directory. Several of them
are published in common files when they are large together, old, or many. Published files are never
merged or removed: otherwise a reader that had listed the small files would miss them, and a stream
over the directory would get their rows twice. Each row is written twice at most.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.commits import Commit, HeldBatch, read_commit, write_commit
from runtime.connectors.filesystem.publish import (
    Writer,
    finish,
    publish,
    retract,
)
from runtime.connectors.filesystem.write import FileTarget, open_target
from runtime.connectors.writing import (
    check_shared,
    compute,
    declared_types,
    name_output_in_errors,
    to_declared_types,
)
from runtime.files import Files, as_uri, numbers_in
from runtime.frames.arrow_rows import BatchRows
from runtime.names import quote_name
from runtime.options.checks import bytes_of, duration_us, option_values
from runtime.spark.files import files_at, resolve
from runtime.spec.sink import StreamSink, StreamWriter
from runtime.spec.table import TableSpec
from runtime.writing.places import unwritable

# Minimum delay before held micro-batches are published again
_MIN_WAIT_S = 0.1


@dataclass(frozen=True)
class Compaction:
    """Limits at which held micro-batches are published.

    Attributes:
        n_bytes: Total size in bytes.
        wait_s: Age of the first one in seconds.
        n_batches: Number of micro-batches.
    """

    # Flink's default size of a rolled file
    n_bytes: int = 128 << 20
    wait_s: float = 60.0
    # limits the cost of listing many small ones in each commit
    n_batches: int = 256

    def is_due(self, held: tuple[HeldBatch, ...], now_s: float) -> bool:
        """Return whether any limit is reached."""
        return bool(held) and (
            sum(batch.n_bytes for batch in held) >= self.n_bytes
            or now_s - held[0].since_s >= self.wait_s
            or len(held) >= self.n_batches
        )


def compaction(values: Mapping[str, str]) -> Compaction | None:
    """Return the table's compaction options. None if each micro-batch is published separately."""
    if values.get("auto-compaction", "false").lower() != "true":
        return None
    n_bytes = bytes_of(values.get("compaction.file-size", "128 mb"))
    wait_us = duration_us(values.get("sink.rolling-policy.rollover-interval", "1 min"))
    assert n_bytes is not None and wait_us is not None, "the table has been checked"
    return Compaction(n_bytes, wait_us / 1e6)


class FileSink(StreamSink):
    """Writer of one stream's micro-batches below the path of a table.

    Args:
        dataframe: Stream, for its session and columns.
        spec: Table specification.
        writer: Identity of the stream.
        files: File system of the table's path. None to use the session's.

    Raises:
        CatalogError: The path is a file or a glob, or there are only partition columns.
    """

    def __init__(
        self,
        dataframe: DataFrame,
        spec: TableSpec,
        writer: StreamWriter,
        files: Files | None = None,
    ) -> None:
        spark = dataframe.sparkSession
        self._spec = spec
        self._types = declared_types(spec)
        self._compaction = compaction(option_values(spec))
        with name_output_in_errors(spec):
            self._target = open_target(spark, dataframe.columns, spec, files)
        assert self._target.files is not None, "streams are refused on Spark Connect"
        check_shared(spark, self._target.path, spec)
        self._writer = Writer(self._target.files, self._target.path, writer.name)
        checkpoint = resolve(spark, writer.checkpoint)
        self._checkpoint = files_at(spark, checkpoint), checkpoint
        # The timer that publishes held micro-batches holds it too.
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._is_first = True
        self._commit: Commit | None = None
        # whether the files may differ from `_commit`
        self._is_stale = True
        with self._changes():
            pass  # Complete an interrupted move even if no micro-batch follows.

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write one micro-batch and return its number of rows."""
        with self._lock, self._changes():
            self._stop_timer()
            if self._failure is not None:
                raise self._failure
            plan = self._plan(batch)
            if self._is_first:
                # Only the first micro-batch after a start can have been interrupted before.
                is_there = self._resume(batch, plan)
                self._is_first = False
                if is_there:
                    return compute(rows)
            rows = to_declared_types(rows, self._spec, self._types)
            held = () if self._commit is None else self._commit.held
            if self._compaction is None or self._compaction.is_due(held, time.time()):
                self._publish_held(batch - 1)
            if self._compaction is None:
                return self._publish(self._target, rows, Commit(batch, True, plan=plan))
            n_rows = self._hold(rows, batch, plan)
            self._start_timer()
            return n_rows

    def commit(self) -> None:
        """Publish held micro-batches at the end of the stream."""
        with self._lock, self._changes():
            self._stop_timer()
            self._publish_held(self._last_committed())

    def _resume(self, batch: int, plan: str) -> bool:
        """Continue after an earlier run. Return whether this micro-batch is already published."""
        writer, commit = self._writer, self._commit
        if commit is not None and any(held_batch.batch >= batch for held_batch in commit.held):
            # No reader has seen them, and they are recomputed.
            commit = replace(commit, held=tuple(h for h in commit.held if h.batch < batch))
            write_commit(writer.files, writer.path, writer.name, commit)
        is_there = (
            commit is not None
            and (commit.batch, commit.is_whole, commit.plan) == (batch, True, plan)
            and plan != ""
        )
        if not is_there:
            retract(writer, batch)
            commit = read_commit(writer.files, writer.path, writer.name)
        self._commit = commit
        held = () if commit is None else commit.held
        held_names = {f"{held_batch.batch:08d}" for held_batch in held}
        for name in writer.files.names_in(f"{writer.hidden}.held"):
            if name not in held_names:
                writer.files.delete(f"{writer.hidden}.held/{name}")
        writer.files.delete(writer.hidden)
        # from another run, and possibly with other columns
        self._publish_held(batch - 1)
        return is_there

    def _publish(self, target: FileTarget, rows: DataFrame, commit: Commit) -> int:
        """Write the rows of one or several micro-batches to where readers see them."""
        writer = self._writer
        paths, n_rows = self._write(target, rows)
        if n_rows:
            is_merged = self._commit is not None and self._commit.is_merged
            commit = replace(commit, is_merged=commit.is_merged or is_merged)
            self._commit = publish(writer, paths, writer.hidden, commit)
        writer.files.delete(writer.hidden)
        return n_rows

    def _write(self, target: FileTarget, rows: DataFrame) -> tuple[list[str], int]:
        """Write rows to the hidden directory, see `FileTarget.write`."""
        self._writer.files.delete(self._writer.hidden)
        return target.write(BatchRows.of(rows), self._writer.hidden)

    def _hold(self, rows: DataFrame, batch: int, plan: str) -> int:
        """Write the rows of a micro-batch to a hidden directory."""
        writer = self._writer
        # Parquet for any table format, because it preserves all values
        target = replace(self._target, file_format="parquet", options={}, partitions=())
        _, n_rows = self._write(target, rows)
        if not n_rows:
            writer.files.delete(writer.hidden)
            return 0
        n_bytes = writer.files.size(writer.hidden)
        place = f"{writer.hidden}.held/{batch:08d}"
        writer.files.make_directory(f"{writer.hidden}.held")
        writer.files.delete(place)
        writer.files.rename(writer.hidden, place)
        # existing files count, even if an older version published them without a commit
        commit = self._commit or Commit(batch - 1, is_whole=True)
        held = (*commit.held, HeldBatch(batch, n_rows, n_bytes, time.time(), plan))
        self._commit = replace(commit, held=held)
        write_commit(writer.files, writer.path, writer.name, self._commit)
        return n_rows

    def _publish_held(self, last: int) -> None:
        """Publish held micro-batches up to a committed one, which never runs again."""
        writer, commit = self._writer, self._commit
        ready = [] if commit is None else [batch for batch in commit.held if batch.batch <= last]
        if not ready or commit is None:
            return
        if not commit.is_whole and commit.files:
            # interrupted, and replaced by this publication
            for name in commit.files:
                writer.files.delete(f"{writer.path}/{name}")
        places = [f"{writer.hidden}.held/{batch.batch:08d}" for batch in ready]
        target = replace(self._target, parallelism=None)
        rows = target.spark.read.parquet(*map(as_uri, places))
        limits = self._compaction or Compaction()
        n_files = math.ceil(sum(batch.n_bytes for batch in ready) / limits.n_bytes)
        if n_files == 1:
            rows = rows.coalesce(1)
        else:
            rows = rows.repartition(
                n_files, *(F.col(quote_name(name)) for name in target.partitions)
            )
        newest = ready[-1]
        merged = Commit(newest.batch, True, plan=newest.plan, held=commit.held, is_merged=True)
        self._publish(target, rows, merged)
        everything = len(ready) == len(commit.held)
        for place in [f"{writer.hidden}.held"] if everything else places:
            writer.files.delete(place)

    # -- publishing without a further micro-batch
    # ---------------------------------------------------

    def _start_timer(self) -> None:
        """Schedule publication for when held micro-batches reach their maximum age."""
        if self._compaction is None or self._commit is None or not self._commit.held:
            return
        waited = time.time() - self._commit.held[0].since_s
        wait_s = max(_MIN_WAIT_S, self._compaction.wait_s - waited)
        self._timer = threading.Timer(wait_s, self._on_time)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            try:
                with self._changes():
                    self._publish_held(self._last_committed())
            except Exception as error:
                # raised by the next micro-batch; the end of the stream tries again
                self._failure = error
                return
            # the last micro-batch may be about to be committed
            self._start_timer()

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Mark a block that changes files. After a failure, their state is read again first.

        Raises:
            ExecutionError: The file system rejects a change.
        """
        writer = self._writer
        with name_output_in_errors(self._spec):
            try:
                if self._is_stale:
                    stored = read_commit(writer.files, writer.path, writer.name)
                    plan = "" if stored is None else self._plan(stored.batch)
                    self._commit = finish(writer, plan)
                self._is_stale = True
                yield
                self._is_stale = False
            except OSError as error:
                raise unwritable(writer.path, error) from error

    # -- checkpoint of the stream
    # ---------------------------------------------------

    def _plan(self, batch: int) -> str:
        """Return a hash that distinguishes a micro-batch's plan from others of the same number."""
        files, directory = self._checkpoint
        path = f"{directory}/offsets/{batch}"
        if not files.exists(path):
            return ""
        return hashlib.sha256(files.read_text(path).encode()).hexdigest()[:16]

    def _last_committed(self) -> int:
        """Return the last micro-batch that never runs again, or -1."""
        files, directory = self._checkpoint
        return max(numbers_in(files, f"{directory}/commits"), default=-1)
