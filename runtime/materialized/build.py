"""Write files of partials, merged by key and slice from base rows and from stored partials.

    base files -> local stage -> \
                                  -> partials to the task of their time -> merged, sorted, written
    data files of the table    -> /

Tasks write the files and send only their descriptions to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.buffer import BufferRows
from runtime.compute.kernels.conversions import int64_values, one_chunk
from runtime.compute.kernels.roll_up import merge_to
from runtime.errors import ExecutionError
from runtime.frames.blobs import BLOB_DDL, place_blobs, split_to_blobs
from runtime.frames.meter import ArrowFunction
from runtime.frames.scan_source import store_of_scan
from runtime.lake.delta_log import hive_directory
from runtime.local.arrow_scan import (
    SPLIT,
    item_rows,
    planned_splits,
)
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import BufferPlan, aggregate, buffer_plan
from runtime.materialized.changes import Intervals, even_bounds
from runtime.materialized.store import SliceFile, StoredSlices, stored_schema
from runtime.materialized.tiers import apply_tiers, cuts_of
from runtime.plan.local import FileLocalStep
from runtime.refusal import Refusal, tried
from runtime.scan.metadata import column_indices, read_footer
from runtime.scan.pruning import column_range
from runtime.scan.splits import Split
from runtime.scan.stores import STORE_READERS, Store, open_stored, why_of
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.errors import translate_spark_errors
from runtime.spark.jobs import run_interruptibly
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.workers import prepare_worker
from runtime.spec.expressions import ColumnRef
from runtime.spec.materialized import SLICE_END, UNTOUCHED, LocalForm, Reached
from runtime.spec.scan import ScanFile
from runtime.writing.files import FILE_DDL, NewFiles, NotWritten, file_task, records_of
from runtime.writing.places import unwritable
from runtime.writing.written import WrittenFile

JobsRun = Callable[[], AbstractContextManager[None]]

# Minimum number of rows or partials for each time bucket
_ROWS_PER_BUCKET = 2_000_000
_MAX_BUCKETS = 64
# Maximum number of footers read to choose the bounds of the time buckets
_FOOTERS_ASKED = 64
_BATCH_ROWS = 1 << 16
# Bytes of data files that a task reads at a time, as row groups or whole files
_BYTES_PER_TASK = 64 << 20


@dataclass(frozen=True)
class BaseRows:
    """Files of the base table and the local stage that turns their rows into partials.

    Attributes:
        step: Local stage over the files, into the stored slices.
        columns: Local-stage column name of each stored column.
    """

    step: FileLocalStep
    columns: Mapping[str, str]

    def of(self, files: Iterable[str]) -> BaseRows:
        """Return the same local stage restricted to some of the files."""
        source = self.step.source
        paths = set(files)
        selected = tuple(file for file in source.files.files if file.path in paths)
        scan = replace(source, files=replace(source.files, files=selected))
        return replace(self, step=replace(self.step, source=scan))


@dataclass(frozen=True)
class Inputs:
    """Inputs of a build.

    Attributes:
        added: Base files to read completely.
        again: Base files. Only their rows in `intervals` are read.
        slice_files: Files of the slice table. Only their partials outside `intervals` are read.
        intervals: Slices to recompute.
        reached: Extent to which old slices are merged and dropped.
    """

    added: BaseRows | None = None
    again: BaseRows | None = None
    slice_files: Sequence[SliceFile] = ()
    intervals: Intervals = ()
    reached: Reached = UNTOUCHED


@dataclass(frozen=True)
class UncommittedFiles:
    """Files that are written but not committed yet.

    Attributes:
        mark: Unique part of the file names.
        files: Written files.
        ranges: First and last slice of each file of `Inputs.added` that has rows.
        n_read: Number of rows read from base files.
    """

    mark: str
    files: tuple[WrittenFile, ...]
    ranges: Mapping[str, tuple[int, int]]
    n_read: int

    @property
    def n_rows(self) -> int:
        """Number of partials written."""
        return sum(file.n_rows for file in self.files)


@dataclass(frozen=True)
class _Portion:
    """Unit of reading of a task: row groups of base files, or data files of slices."""

    split: Split = ()
    is_again: bool = False
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadRanges:
    """First and last slice of each file that a task read, and the number of rows."""

    ranges: dict[str, tuple[int, int]]
    n_read: int


def build(
    spark: SparkSession,
    table: StoredSlices,
    inputs: Inputs,
    mark: str,
    buffer_bytes: int,
    jobs_run: JobsRun = nullcontext,
) -> UncommittedFiles:
    """Write partials to new data files of a table. They take effect when committed.

    Args:
        spark: Spark session.
        table: Target table.
        inputs: Files to build from.
        mark: Unique part of the file names.
        buffer_bytes: Maximum bytes of partials that a task buffers before it sends them.
        jobs_run: Context manager in which Spark jobs run.

    Raises:
        ExecutionError: A file changed since the query was planned, a sum overflows, or the files
            cannot be written.
    """
    check_seen_by_all(
        spark,
        table.path,
        f"the files of materialized table `{table.name}`",
        "set 'path' to a directory that all hosts share",
    )
    form = table.form
    portions: list[_Portion] = []
    bases = [(base, base is inputs.again) for base in (inputs.added, inputs.again) if base]
    store, plan, columns = None, None, None
    for base, is_again in bases:
        source = base.step.source
        if source.files.others:
            raise ExecutionError(
                f"slices cannot be built from {source.files.others[0].path}, which only Spark "
                "can read",
                hint="write the file again with another program or other settings",
            )
        store = store_of_scan(spark, source.files.path)
        splits = planned_splits(spark, base.step, store)
        portions += [_Portion(split, is_again) for split in splits]
        plan = buffer_plan(base.step, *scan_projection(source), buffer_bytes)
        columns = base.columns
    for paths in _path_groups(inputs.slice_files):
        portions.append(_Portion(paths=tuple(f"{table.path}/{path}" for path in paths)))
    if not portions:
        return UncommittedFiles(mark, (), {}, 0)
    n_rows = sum(part.n_rows for portion in portions for part in portion.split)
    n_rows += sum(file.n_rows for file in inputs.slice_files)
    n_buckets = max(1, min(n_rows // _ROWS_PER_BUCKET, _MAX_BUCKETS))
    bounds = _bounds(bases, inputs.slice_files, n_buckets, store)
    if bounds or n_buckets == 1:
        bounds = tuple(sorted({*bounds, *cuts_of(inputs.reached)}))
        n_buckets = len(bounds) + 1
    cuts = TimeCuts(form, n_buckets, bounds, inputs.reached)
    numbers, shipped = item_rows(spark, portions)
    step = None if not bases else without_files(bases[0][0].step)
    stores = store, table.place.store
    read = _read(step, plan, columns, shipped, stores, cuts, inputs.intervals)
    return write_partials(table, numbers.mapInArrow(read, BLOB_DDL), mark, n_buckets, jobs_run)


def write_partials(
    table: StoredSlices,
    partials: DataFrame,
    mark: str,
    n_buckets: int,
    jobs_run: JobsRun = nullcontext,
) -> UncommittedFiles:
    """Write partials by time bucket, one or more files per bucket.

    Args:
        table: Target table.
        partials: Rows of `BLOB_DDL` from `TimeCuts`, with the `ReadRanges` blobs of the tasks.
        mark: Unique part of the file names.
        n_buckets: Number of time buckets.
        jobs_run: Context manager in which Spark jobs run.
    """
    spark, form = partials.sparkSession, table.form
    n_tasks = min(n_buckets, spark.sparkContext.defaultParallelism * 2)
    bucketed = place_blobs(partials, n_tasks)
    schema = to_arrow_schema(stored_schema(form))
    types = {f.name: f.dataType.simpleString() for f in stored_schema(form).fields}
    of_partitions = tuple((name, types[name]) for name in table.partitions)
    new = NewFiles(
        table.path,
        schema,
        table.partitions,
        partial(hive_directory, of_partitions),
        mark,
        keeps=True,
        store=table.place.store,
    )
    files = bucketed.mapInArrow(_write(form, new, n_buckets), FILE_DDL)
    with jobs_run(), translate_spark_errors():
        try:
            records = run_interruptibly(spark, lambda: records_of(files))
        except NotWritten as error:
            raise unwritable(table.path, error) from error
    ranges: dict[str, tuple[int, int]] = {}
    for read_ranges in records:
        if isinstance(read_ranges, ReadRanges):
            _widen(ranges, read_ranges.ranges)
    return UncommittedFiles(
        mark,
        tuple(record for record in records if isinstance(record, WrittenFile)),
        ranges,
        sum(record.n_read for record in records if isinstance(record, ReadRanges)),
    )


@dataclass(frozen=True)
class TimeCuts:
    """Splitter of partials into time buckets.

    Attributes:
        form: Form of the stored slices.
        n_buckets: Number of buckets.
        bounds: Last slice end of each bucket except the last one. Empty if times are unknown:
            stretches of slices then go to the buckets in turn.
        reached: Extent to which old slices are merged and dropped.
    """

    form: LocalForm
    n_buckets: int
    bounds: tuple[int, ...]
    reached: Reached = UNTOUCHED

    def __call__(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the partials as blobs, by bucket."""
        table = apply_tiers(table, self.form.grid, self.reached)
        if table.num_rows == 0:
            return
        ends = int64_values(one_chunk(table.column(SLICE_END)))
        if self.bounds or self.n_buckets == 1:
            buckets = np.searchsorted(np.array(self.bounds, np.int64), ends)
        else:
            stretch_us = max(1, self.form.grid.slice_width_us) * 64
            buckets = (ends // stretch_us) % self.n_buckets
        yield split_to_blobs(table, buckets.astype(np.int32))


def _read(
    step: FileLocalStep | None,
    plan: BufferPlan | None,
    columns: Mapping[str, str] | None,
    portions: Sequence[_Portion],
    stores: tuple[Store | None, Store | None],
    cuts: TimeCuts,
    intervals: Intervals,
) -> ArrowFunction:
    """Return the task function that turns portions into partials by time, and a `ReadRanges`.

    `stores` holds the store of the base files and the store of the slices.
    """
    form = cuts.form
    store, kept_in = stores
    schema = to_arrow_schema(stored_schema(form))
    assigner = form.grid.assigner()

    def base_partials(portion: _Portion, seen: ReadRanges) -> Iterator[pa.RecordBatch]:
        assert step is not None and plan is not None and columns is not None
        scan = ScanRows(step, store)

        def rows() -> Iterator[BufferRows]:
            for part in portion.split:
                for batch in scan.rows_of_split((part,)):
                    buffer_rows = plan.rows(batch)
                    if len(buffer_rows.time_us) and not portion.is_again:
                        bounds = np.array([buffer_rows.time_us.min(), buffer_rows.time_us.max()])
                        first, last = assigner.slice_end(bounds).tolist()
                        _widen(seen.ranges, {part.file.path: (first, last)})
                    yield buffer_rows

        def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
            stored = to_stored_columns(table, columns, schema)
            if portion.is_again:
                stored = stored.filter(_is_inside(stored.column(SLICE_END), intervals))
            yield from cuts(stored)

        yield from aggregate(plan, rows(), cut)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1 if store is None and kept_in is None else STORE_READERS)
        seen, n_read = ReadRanges({}, 0), 0
        for row in (row for batch in batches for row in batch.to_pylist()):
            portion = portions[row[SPLIT]] if portions else pickle.loads(row["$files"])
            if portion.split:
                yield from base_partials(portion, seen)
            n_read += sum(part.n_rows for part in portion.split)
            for path in portion.paths:
                for batch in _stored_batches(path, kept_in, schema.names):
                    table = pa.Table.from_batches([batch])
                    is_gone = _is_inside(table.column(SLICE_END), intervals)
                    yield from cuts(table.filter(pc.invert(is_gone)).cast(schema))
        yield ranges_batch(ReadRanges(seen.ranges, n_read), cuts.n_buckets)

    return run


def _stored_batches(path: str, store: Store | None, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the partials of a data file.

    Raises:
        ExecutionError: The object store cannot read the file.
    """
    if store is None:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(_BATCH_ROWS * 4, columns=columns)
        return
    try:
        with pq.ParquetFile(open_stored(store, path), pre_buffer=True) as file:
            yield from file.iter_batches(_BATCH_ROWS * 4, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(f"cannot read {path}: {why_of(store, path, error)}") from error


def ranges_batch(record: ReadRanges, n_buckets: int) -> pa.RecordBatch:
    """Return a task's `ReadRanges` record as a blob, in one more bucket than the partials have."""
    blob = pa.array([pickle.dumps(record)], pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array([n_buckets], pa.int32()), blob], names=["bucket", "partials"]
    )


def _write(form: LocalForm, new: NewFiles, n_buckets: int) -> ArrowFunction:
    """Return the task function that writes buckets to files and passes `ReadRanges` records on."""
    keys = tuple(key.name for key in form.keys)
    accumulators = tuple(partial.into for partial in form.partials)
    flat = [name for name in keys if not pa.types.is_nested(new.schema.field(name).type)]
    order = [(name, "ascending") for name in (*new.partitions, SLICE_END, *flat)]
    write = file_task(new)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        rows = (
            (bucket, blob)
            for batch in batches
            for bucket, blob in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
        )
        for bucket, group in groupby(rows, lambda row: row[0]):
            blobs = [blob.as_buffer() for _, blob in group]
            if bucket == n_buckets:
                descriptions = pa.array([blob.to_pybytes() for blob in blobs], pa.binary())
                yield pa.RecordBatch.from_arrays([descriptions], names=["file"])
                continue
            table = from_blobs(blobs)
            merged = merge_to(table, keys, SLICE_END, accumulators, form.grid)
            merged = merged.select(new.schema.names).cast(new.schema)
            merged = merged.take(pc.sort_indices(merged, sort_keys=order))
            yield from write(merged.to_batches(_BATCH_ROWS))

    return run


def to_stored_columns(table: pa.Table, columns: Mapping[str, str], schema: pa.Schema) -> pa.Table:
    """Return partials of a local stage under their stored names and types."""
    arrays = [table.column(columns[name]) for name in schema.names]
    return pa.table(arrays, schema.names).cast(schema)


def _is_inside(ends: pa.ChunkedArray, intervals: Intervals) -> pa.Array:
    """Return a mask of the slice ends that are in the intervals."""
    if not intervals:
        return pa.array(np.zeros(len(ends), bool))
    values = int64_values(one_chunk(ends))
    firsts, lasts = (np.array(bounds, np.int64) for bounds in zip(*intervals, strict=True))
    place = np.searchsorted(firsts, values, side="right") - 1
    return pa.array((place >= 0) & (values <= lasts[np.maximum(place, 0)]))


def _widen(ranges: dict[str, tuple[int, int]], others: Mapping[str, tuple[int, int]]) -> None:
    for path, (first, last) in others.items():
        low, high = ranges.get(path, (first, last))
        ranges[path] = min(low, first), max(high, last)


def _path_groups(files: Sequence[SliceFile]) -> Iterator[list[str]]:
    """Yield paths of data files in groups of at most `_BYTES_PER_TASK` bytes."""
    paths: list[str] = []
    size = 0
    for file in files:
        if paths and size + file.n_bytes > _BYTES_PER_TASK:
            yield paths
            paths, size = [], 0
        paths.append(file.path)
        size += file.n_bytes
    if paths:
        yield paths


def without_files(step: FileLocalStep) -> FileLocalStep:
    """Return the step without its file list, for tasks that get files from their portions."""
    files = step.source.files.without_files()
    return replace(step, source=replace(step.source, files=files))


def _bounds(
    bases: Sequence[tuple[BaseRows, bool]],
    stored_files: Sequence[SliceFile],
    n_buckets: int,
    store: Store | None,
) -> tuple[int, ...]:
    """Return bucket bounds from footers and data file statistics; empty without any."""
    if n_buckets == 1:
        return ()
    times = [time for file in stored_files for time in (file.first_us, file.last_us)]
    for base, _ in bases:
        files = base.step.source.files.files
        for file in files[:: -(-len(files) // _FOOTERS_ASKED) or 1]:
            times += _times_in(base.step, file, store)
    return even_bounds(min(times), max(times), n_buckets) if times else ()


def _times_in(step: FileLocalStep, file: ScanFile, store: Store | None) -> list[int]:
    """Return the minimum and maximum time of a file in microseconds, if its footer has them."""
    time, source = step.source.time, step.source.files
    if not isinstance(time, ColumnRef):
        return []
    names = [column.name for column in source.columns]
    if time.name not in names:
        return []
    name = (file.names or tuple(names))[names.index(time.name)]
    footer = tried(read_footer, file, store)
    if name is None or isinstance(footer, Refusal):
        return []
    index = column_indices(footer).get(name.lower())
    times: list[int] = []
    for number in range(footer.num_row_groups if index is not None else 0):
        group = footer.row_group(number)
        column = footer.schema.column(index)
        range_ = column_range(group.column(index).statistics, column, time.type, group.num_rows)
        if range_ is not None and isinstance(range_.low, int) and isinstance(range_.high, int):
            times += [range_.low, range_.high]
    return times
