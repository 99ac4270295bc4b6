"""Result rows on one machine: tasks write Arrow files that this process maps into its memory.

Through the JVM, a partition would be a task result, a block and a fetched copy of it, each as large
as the partition, and its heap would have to hold them. Here the JVM sees only a job without rows.

A file's name contains the task attempt, and the job returns the names, so files of attempts that
failed are never read. To read partitions, in order, while later ones are still computed, tasks also
report the names in an accumulator: Spark updates it once per partition, when the first attempt
succeeds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, Row, SparkSession

from runtime.errors import ExecutionError
from runtime.frames.arrow_rows import Stage
from runtime.frames.scan_counts import new_accumulator
from runtime.results.pieces import pieces
from runtime.spark.jobs import BackgroundWork
from runtime.spark.workers import prepare_worker
from runtime.temporary import new_directory

NAMES_DDL = "part int, name string"
_NAMES = pa.schema([("part", pa.int32()), ("name", pa.string())])
# Function that runs two stages on rows in their tasks: the first per source of rows, the second per
# task
RunStages = Callable[[Stage, Stage], DataFrame]
# (run number, partition) -> names of the partition's files
_Names = dict[tuple[int, int], list[str]]
# Partition and names of its files
_Report = tuple[int, list[str]]
# A consumer that keeps only its current batch refers to one file, and the next one is open
_FILES_IN_MEMORY = 2
# Interval between checks that the job's thread is alive
_CHECK_S = 1.0
# Numbers of this process's files, and of this process's runs
_file_numbers = count()
_run_numbers = count()


def batches_from_files(
    spark: SparkSession, run_stages: RunStages, most_bytes: int
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a job as batches over mapped files, in the order of partitions.

    Each file is deleted when it is mapped, so its disk space is free once its batches are.

    Args:
        spark: Session on a local master.
        run_stages: Returns the DataFrame of the job.
        most_bytes: Maximum bytes of the files mapped at a time, if the caller keeps only the
            current batch.

    Raises:
        Exception: Spark's error, if the job fails.
    """
    reports = _reports(spark.sparkContext)
    number = next(_run_numbers)
    directory = new_directory("rows")
    try:
        write = _write(str(directory), max(1, most_bytes // _FILES_IN_MEMORY))
        with reports.receive_run(number) as received:
            job = run_stages(write, _report(reports.accumulator, number))
            work = BackgroundWork(spark, job.collect, lambda: received.put(None))
            try:
                for names in _ordered_names(received, work):
                    for name in names:
                        yield from _read_mapped(directory / name)
            finally:
                work.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _ordered_names(
    received: SimpleQueue[_Report | None], work: BackgroundWork[list[Row]]
) -> Iterator[list[str]]:
    """Yield the file names of each partition in order, as soon as they are known."""
    waiting: dict[int, list[str]] = {}
    following = 0
    while not work.is_over or not received.empty():
        try:
            report = received.get(timeout=_CHECK_S)
        except Empty:
            continue
        if report is None:
            break
        part, names = report
        waiting[part] = names
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    left: dict[int, list[str]] = {}
    for part, name in work.result():
        if part >= following:
            left.setdefault(part, []).append(name)
    for part in sorted(left):
        yield left[part]


def _read_mapped(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file without copying them, and delete the file."""
    with pa.memory_map(str(path)) as file:
        with suppress(PermissionError):  # Windows keeps mapped files; the directory goes later
            path.unlink()
        with pa.ipc.open_stream(file) as reader:
            yield from reader


# -- reports of tasks ------------------------------------------------------------------------------


class _NamesParam(AccumulatorParam[_Names]):
    """Accumulator of file names: merges them in a task, and passes them to `take` in the driver.

    Args:
        take: Receives the names of a finished task. None in a task.
    """

    def __init__(self, take: Callable[[_Names], None] | None = None) -> None:
        self._take = take

    def __reduce__(self) -> tuple[type[_NamesParam], tuple[()]]:
        """Pickle without the driver's function."""
        return _NamesParam, ()

    def zero(self, value: _Names) -> _Names:
        return {}

    def addInPlace(self, value1: _Names, value2: _Names) -> _Names:
        if self._take is None:
            value1.update(value2)
        else:
            self._take(value2)
        return value1


class _Reports:
    """Reports of all runs of a SparkContext, in one accumulator because Spark never frees one."""

    def __init__(self, context: SparkContext) -> None:
        self._runs: dict[int, SimpleQueue[_Report | None]] = {}
        self.accumulator = new_accumulator(context, {}, _NamesParam(self._take))

    @contextmanager
    def receive_run(self, number: int) -> Iterator[SimpleQueue[_Report | None]]:
        """Receive the reports of a run within the block."""
        queue = self._runs[number] = SimpleQueue()
        try:
            yield queue
        finally:
            del self._runs[number]

    def _take(self, names: _Names) -> None:
        for (number, partition), of_partition in names.items():
            queue = self._runs.get(number)
            if queue is not None:  # None: the run was closed early
                queue.put((partition, of_partition))


_reports_of: WeakKeyDictionary[SparkContext, _Reports] = WeakKeyDictionary()
_reports_lock = Lock()


def _reports(context: SparkContext) -> _Reports:
    with _reports_lock:
        if context not in _reports_of:
            _reports_of[context] = _Reports(context)
        return _reports_of[context]


# -- in tasks --------------------------------------------------------------------------------------


def _write(directory: str, file_bytes: int) -> Stage:
    """Return a stage that writes its rows to files of at most `file_bytes`, and yields the names.

    A batch that is larger than a file is cut.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        context = TaskContext.get()
        assert context is not None
        rows = pieces(batches, file_bytes)
        batch = next(rows, None)
        while batch is not None:
            name = f"{context.taskAttemptId()}-{next(_file_numbers)}.arrow"
            file = _ArrowFile(directory, name, batch.schema)
            try:
                while batch is not None and (
                    not file.n_bytes or file.n_bytes + batch.nbytes <= file_bytes
                ):
                    file.write(batch)
                    batch = next(rows, None)
            finally:
                file.close()
            row = {"part": context.partitionId(), "name": name}
            yield pa.RecordBatch.from_pylist([row], schema=_NAMES)

    return write


class _ArrowFile:
    """An Arrow IPC stream in a file.

    Attributes:
        n_bytes: Bytes of the batches written so far.
    """

    def __init__(self, directory: str, name: str, schema: pa.Schema) -> None:
        self.n_bytes = 0
        self._directory = directory
        with self._disk_errors():
            self._file = pa.OSFile(os.path.join(directory, name), "wb")
            options = pa.ipc.IpcWriteOptions(use_threads=False)
            self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        with self._disk_errors():
            self._writer.write_batch(batch)
        self.n_bytes += batch.nbytes

    def close(self) -> None:
        with self._disk_errors():
            self._writer.close()
            self._file.close()

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ExecutionError(
                f"the rows of the result cannot be written to {self._directory}: {why}",
                hint="set the environment variable TMPDIR to another directory",
            ) from error


def _report(accumulator: Accumulator[_Names], number: int) -> Stage:
    """Return a stage that reports all names of a task, and returns them as of its partition."""

    def report(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        # tasks of the local stage have written some of the files
        names = [name for batch in batches for name in batch.column("name").to_pylist()]
        part = context.partitionId()
        accumulator.add({(number, part): names})
        rows = [{"part": part, "name": name} for name in names]
        yield pa.RecordBatch.from_pylist(rows, schema=_NAMES)

    return report
