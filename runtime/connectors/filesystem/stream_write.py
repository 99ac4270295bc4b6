"""Files from a stream: every row once, whatever is killed when, and plain files for any reader.

A micro-batch is written to a hidden directory first. Its files then move below the table's path,
under names that identify the stream and the micro-batch; `runtime.commits` says which of them
count meanwhile. A micro-batch that was cut short is computed again by Spark, from the same input
and the same state: if its files had begun to move they stay, else they are written again. So there
is no log that every reader has to know, as Spark's own sink has it: batch and stream may write to
one directory, and so may several streams.

With `auto-compaction` a micro-batch is kept in Parquet files in a hidden directory of its own. When
those of several are large together, or old, or many, they become files of the table. Nothing that
was to be seen goes away for that, as it would if small files were merged where readers see them: a
reader that has listed the small ones would miss them, and one that reads a directory as a stream
would get their rows twice. A row is written twice, and never more often.
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

from runtime.commits import Commit, Held, read_commit, write_commit
from runtime.connectors.connector import StreamWriter, WriteBatch
from runtime.connectors.filesystem.publish import (
    Writer,
    finish,
    publish,
    retract,
)
from runtime.connectors.filesystem.text import allow_encoding
from runtime.connectors.filesystem.write import (
    all_written,
    check_directory,
    file_writer_options,
    partition_columns,
    unwritable,
)
from runtime.connectors.options.checks import bytes_of, duration_us, option_values
from runtime.connectors.options.formats import format_of
from runtime.connectors.writing import (
    as_declared,
    check_shared,
    compute,
    count_written,
    declared_types,
    naming_output,
)
from runtime.files import Files, as_uri
from runtime.names import quoted
from runtime.spark.files import files_at, resolve, writable_files_at
from runtime.spec.table import TableSpec

# How soon it is tried again to publish what has waited
_LEAST_WAIT_S = 0.1


@dataclass(frozen=True)
class Compaction:
    """When micro-batches that are held are published.

    Attributes:
        n_bytes: when they have so many together.
        wait_s: when the first of them has waited so long.
        n_batches: when there are so many.
    """

    # Flink's, of a file that is rolled by its size
    n_bytes: int = 128 << 20
    wait_s: float = 60.0
    # however small they are: listing them and saying which they are costs something too
    n_batches: int = 256

    def is_due(self, held: tuple[Held, ...], now_s: float) -> bool:
        """Whether it is time."""
        return bool(held) and (
            sum(each.n_bytes for each in held) >= self.n_bytes
            or now_s - held[0].since_s >= self.wait_s
            or len(held) >= self.n_batches
        )


def compaction(values: Mapping[str, str]) -> Compaction | None:
    """What the options of a table say of it; None: each micro-batch is published by itself."""
    if values.get("auto-compaction", "false").lower() != "true":
        return None
    n_bytes = bytes_of(values.get("compaction.file-size", "128 mb"))
    wait_us = duration_us(values.get("sink.rolling-policy.rollover-interval", "1 min"))
    assert n_bytes is not None and wait_us is not None, "validate_table() has seen to it"
    return Compaction(n_bytes, wait_us / 1e6)


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: StreamWriter) -> WriteBatch:
    """What writes the micro-batches of a stream, each once, and returns how many rows they have."""
    with naming_output(spec):
        sink = FileSink(dataframe, spec, writer)
    types = declared_types(spec)

    def write(rows: DataFrame, batch: int) -> int:
        with naming_output(spec):
            return sink.write(as_declared(rows, spec, types), batch)

    def end() -> None:
        with naming_output(spec):
            sink.end()

    writer.at_end(end)
    return write


class FileSink:
    """Writes the micro-batches of one stream below the path of a table.

    Args:
        dataframe: the stream, for its session and columns.
        spec: the table.
        writer: the stream.
        files: the file system of the table's path; None: the session knows it.

    Raises:
        CatalogError: the path is a file or a glob, or no column is left beside the partitions.
    """

    def __init__(
        self,
        dataframe: DataFrame,
        spec: TableSpec,
        writer: StreamWriter,
        files: Files | None = None,
    ) -> None:
        self._spark = dataframe.sparkSession
        self._spec = spec
        values = option_values(spec)
        self._format = str(format_of(values))
        self._options = file_writer_options(spec, self._format)
        allow_encoding(self._spark, self._options)
        self._parallelism = values.get("sink.parallelism")
        self._compaction = compaction(values)
        self._partitions = partition_columns(dataframe.columns, spec)
        path = resolve(self._spark, values["path"])
        files = files or writable_files_at(self._spark, path)
        check_directory(path, spec, files)
        check_shared(self._spark, path, spec)
        self._writer = Writer(files, path, writer.name)
        checkpoint = resolve(self._spark, writer.checkpoint)
        self._checkpoint = Progress(files_at(self._spark, checkpoint), checkpoint)
        # a timer publishes too what is held
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._is_first = True
        self._commit: Commit | None = None
        # whether what is there may be more than `_commit` says
        self._is_stale = True
        with self._changing():
            pass  # a move that was cut short is finished, whether a micro-batch comes or not

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write one micro-batch; how many rows it has."""
        with self._lock, self._changing():
            self._stop_timer()
            if self._failure is not None:
                raise self._failure
            plan = self._checkpoint.plan(batch)
            if self._is_first:
                # Only the first one after a start can have been cut short before.
                is_there = self._resume(batch, plan)
                self._is_first = False
                if is_there:
                    return compute(rows)
            held = () if self._commit is None else self._commit.held
            if self._compaction is None or self._compaction.is_due(held, time.time()):
                self._publish_held(batch - 1)
            if self._parallelism is not None:
                rows = rows.repartition(int(self._parallelism))
            if self._compaction is None:
                return self._publish(rows, Commit(batch, True, plan=plan))
            n_rows = self._hold(rows, batch, plan)
            self._start_timer()
            return n_rows

    def end(self) -> None:
        """Publish what is held, the stream being over."""
        with self._lock, self._changing():
            self._stop_timer()
            self._publish_held(self._checkpoint.committed())

    def _resume(self, batch: int, plan: str) -> bool:
        """Go on where an earlier run was; whether this micro-batch is published already."""
        writer, commit = self._writer, self._commit
        if commit is not None and any(each.batch >= batch for each in commit.held):
            # not seen by anybody, and computed again
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
        kept = {f"{each.batch:08d}" for each in held}
        for name in writer.files.names_in(f"{writer.hidden}.held"):
            if name not in kept:
                writer.files.delete(f"{writer.hidden}.held/{name}")
        writer.files.delete(writer.hidden)
        # of another run, and so maybe with other columns
        self._publish_held(batch - 1)
        return is_there

    def _publish(self, rows: DataFrame, commit: Commit) -> int:
        """Write the rows of a micro-batch, or of several, to where readers see them."""
        writer = self._writer
        hidden = writer.hidden
        writer.files.delete(hidden)
        counted, count = count_written(rows)
        save = counted.write.format(self._format).options(**self._options).mode("overwrite")
        if self._partitions:
            save = save.partitionBy(*self._partitions)
        save.save(as_uri(hidden))
        n_rows = count()
        found = self._written(hidden, self._format, n_rows)
        if n_rows:
            is_merged = self._commit is not None and self._commit.is_merged
            commit = replace(commit, is_merged=commit.is_merged or is_merged)
            self._commit = publish(writer, found, hidden, commit)
        writer.files.delete(hidden)
        return n_rows

    def _hold(self, rows: DataFrame, batch: int, plan: str) -> int:
        """Write the rows of a micro-batch to where nobody sees them."""
        writer = self._writer
        writer.files.delete(writer.hidden)
        counted, count = count_written(rows)
        # whatever the table's format is: values come back from it as they were
        counted.write.mode("overwrite").parquet(as_uri(writer.hidden))
        n_rows = count()
        self._written(writer.hidden, "parquet", n_rows)
        if not n_rows:
            writer.files.delete(writer.hidden)
            return 0
        n_bytes = writer.files.size(writer.hidden)
        place = f"{writer.hidden}.held/{batch:08d}"
        writer.files.make_directory(f"{writer.hidden}.held")
        writer.files.delete(place)
        writer.files.rename(writer.hidden, place)
        # what is there already counts, of versions that said nothing of it too
        commit = self._commit or Commit(batch - 1, is_whole=True)
        held = (*commit.held, Held(batch, n_rows, n_bytes, time.time(), plan))
        self._commit = replace(commit, held=held)
        write_commit(writer.files, writer.path, writer.name, self._commit)
        return n_rows

    def _publish_held(self, last: int) -> None:
        """Publish what is held up to a micro-batch, which is committed: it never runs again."""
        writer, commit = self._writer, self._commit
        ready = [] if commit is None else [each for each in commit.held if each.batch <= last]
        if not ready or commit is None:
            return
        if not commit.is_whole and commit.files:
            # cut short, and not to be finished as it was
            for name in commit.files:
                writer.files.delete(f"{writer.path}/{name}")
        places = [f"{writer.hidden}.held/{each.batch:08d}" for each in ready]
        rows = self._spark.read.parquet(*map(as_uri, places))
        chosen = self._compaction or Compaction()
        n_files = math.ceil(sum(each.n_bytes for each in ready) / chosen.n_bytes)
        if n_files == 1:
            rows = rows.coalesce(1)
        else:
            rows = rows.repartition(n_files, *(F.col(quoted(name)) for name in self._partitions))
        newest = ready[-1]
        self._publish(
            rows, Commit(newest.batch, True, plan=newest.plan, held=commit.held, is_merged=True)
        )
        everything = len(ready) == len(commit.held)
        for place in [f"{writer.hidden}.held"] if everything else places:
            writer.files.delete(place)

    def _written(self, hidden: str, file_format: str, n_rows: int) -> list[str]:
        files, path = self._writer.files, self._writer.path
        return all_written(self._spark, self._spec, files, path, hidden, file_format, n_rows)

    # -- what waits for no further micro-batch -----------------------------------------------------

    def _start_timer(self) -> None:
        """Have what is held published when it has waited long enough, if nothing else comes."""
        if self._compaction is None or self._commit is None or not self._commit.held:
            return
        waited = time.time() - self._commit.held[0].since_s
        wait_s = max(_LEAST_WAIT_S, self._compaction.wait_s - waited)
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
                with self._changing():
                    self._publish_held(self._checkpoint.committed())
            except Exception as error:
                # raised by the next micro-batch; at the end it is tried again
                self._failure = error
                return
            # the last micro-batch may be about to be committed
            self._start_timer()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change of what is there; after one that failed it is looked at anew.

        Raises:
            ExecutionError: the file system takes it not.
        """
        writer = self._writer
        try:
            if self._is_stale:
                begun = read_commit(writer.files, writer.path, writer.name)
                plan = "" if begun is None else self._checkpoint.plan(begun.batch)
                self._commit = finish(writer, plan)
            self._is_stale = True
            yield
            self._is_stale = False
        except OSError as error:
            raise unwritable(writer.path, error) from error


class Progress:
    """What the checkpoint of a stream says of its micro-batches.

    Args:
        files: the file system.
        directory: Spark's part of the checkpoint.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def plan(self, batch: int) -> str:
        """Tells a micro-batch from another of its number: Spark plans one once, and says when."""
        path = f"{self._directory}/offsets/{batch}"
        if not self._files.exists(path):
            return ""
        return hashlib.sha256(self._files.read_text(path).encode()).hexdigest()[:16]

    def committed(self) -> int:
        """The last micro-batch that never runs again; -1: none."""
        names = self._files.names_in(f"{self._directory}/commits")
        return max((int(name) for name in names if name.isdecimal()), default=-1)
