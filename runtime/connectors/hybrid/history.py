"""Plan of the first table of a stream: its files in ranges of time, one per micro-batch.

The plan is stored in the checkpoint before the first micro-batch, so that a restarted stream reads
the same ranges, and does not read the table again to find them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from runtime.compute.kernels.conversions import int64_values
from runtime.connectors.hybrid.files import path_of_split, split_of
from runtime.files import is_local_path
from runtime.frames.arrow_tables import create_frame
from runtime.scan.ranges import FileRange, file_ranges
from runtime.scan.splits import RowGroupCriteria, SelectRowGroups, select_row_groups
from runtime.scan.stores import Store
from runtime.spark.versions.frames import to_arrow
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile
from runtime.spec.source import SplitReader
from runtime.spec.table import Column
from runtime.spec.text import FileSource, TextSource

_TIMES_DDL = "number INT, low BIGINT, high BIGINT"


@dataclass(frozen=True)
class HistoryPart:
    """Rows that a task reads at once.

    Attributes:
        split: Split of a HistoryReader.
        n_bytes: Its size in the file.
        times_us: First and last time of its rows. None without rows that have a time.
    """

    split: str
    n_bytes: int
    times_us: tuple[int, int] | None


@dataclass(frozen=True)
class HistoryRange:
    """Parts that a micro-batch reads.

    Attributes:
        tasks: Splits of each task.
        n_bytes: Size of the parts.
        until_us: Highest watermark while the range is read: with it, no window closes that a row
            of a later range or of the second table belongs to. None if it is not limited.
    """

    tasks: tuple[tuple[str, ...], ...]
    n_bytes: int
    until_us: int | None


@dataclass(frozen=True)
class HistoryPlan:
    """Plan of the first table.

    Attributes:
        ranges: Ranges in the order of their first times.
        newest_us: Newest time. None without rows that have a time.
        from_us: Rows of the second table before this time do not count. None if all count.
        overlap: Splits that may have rows from `from_us` on.
        then_options: Further options of the second table, at whose offsets it starts.
        is_copy: Whether the files are a copy in the checkpoint, see `copies`.
    """

    ranges: tuple[HistoryRange, ...]
    newest_us: int | None = None
    from_us: int | None = None
    overlap: tuple[str, ...] = ()
    is_copy: bool = False
    then_options: tuple[tuple[str, str], ...] = ()

    @property
    def origin(self) -> str:
        """Path of one of its files. Empty without files."""
        splits = (split for range_ in self.ranges for task in range_.tasks for split in task)
        return next(map(path_of_split, splits), "")


def plan_history(
    parts: Sequence[HistoryPart],
    range_bytes: int,
    n_tasks: int,
    overlap_us: int | None,
    others: Sequence[tuple[Sequence[HistoryPart], int]] = (),
) -> HistoryPlan:
    """Return the plan for the parts of a table.

    The histories that a stream reads together have the same number of ranges, and ranges with the
    same number begin at the same time. So rows of one do not wait long in state for another.

    Args:
        parts: All parts.
        range_bytes: Bytes of a range at least, if there are as many.
        n_tasks: Number of tasks that read a range.
        overlap_us: See `Parts.overlap_us`.
        others: Parts and bytes of a range of the other histories.
    """
    ends = [part.times_us[1] for part in parts if part.times_us is not None]
    newest_us = max(ends, default=None)
    from_us = None if overlap_us is None or newest_us is None else newest_us - overlap_us
    groups = _ranges([(parts, range_bytes), *others])
    starts = [
        min((part.times_us[0] for part in group if part.times_us is not None), default=None)
        for group in groups
    ]
    later = list(accumulate([from_us, *reversed(starts[1:])], _earlier))[: len(groups)]
    return HistoryPlan(
        tuple(
            HistoryRange(
                _tasks(group, n_tasks),
                sum(part.n_bytes for part in group),
                None if time_us is None else _watermark_before_us(time_us),
            )
            for group, time_us in zip(groups, reversed(later), strict=True)
        ),
        newest_us,
        from_us,
        tuple(
            part.split
            for group in groups
            for part in group
            if from_us is not None and part.times_us is not None and part.times_us[1] >= from_us
        ),
    )


def _ranges(histories: Sequence[tuple[Sequence[HistoryPart], int]]) -> list[list[HistoryPart]]:
    """Return the parts of the first of several histories, in ranges that all of them share.

    A range ends where one of the histories has as many bytes as it wants in a range.

    Args:
        histories: Parts of each, and bytes of a range.
    """
    # parts without times hold no watermark back, wherever they are read
    ordered = sorted(
        ((part, number) for number, (parts, _) in enumerate(histories) for part in parts),
        key=lambda numbered: (numbered[0].times_us or (-(1 << 63),) * 2, numbered[0].split),
    )
    groups: list[list[HistoryPart]] = []
    room: dict[int, int] = {}
    for part, number in ordered:
        if not groups or room[number] <= 0:
            groups.append([])
            room = {number: range_bytes for number, (_, range_bytes) in enumerate(histories)}
        room[number] -= part.n_bytes
        if number == 0:
            groups[-1].append(part)
    return groups


def _watermark_before_us(time_us: int) -> int:
    """Return the highest watermark that closes no window with a row of a time.

    Windows end at full milliseconds, and a watermark a millisecond before the end closes them.
    """
    return time_us // 1000 * 1000 - 1


def _earlier(one_us: int | None, other_us: int | None) -> int | None:
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return min(one_us, other_us)


def _tasks(parts: Sequence[HistoryPart], n_tasks: int) -> tuple[tuple[str, ...], ...]:
    """Distribute parts over tasks with about the same number of bytes."""
    total = sum(part.n_bytes for part in parts)
    tasks: list[list[str]] = [[] for _ in range(n_tasks)]
    before = 0
    for part in parts:
        middle = 2 * before + part.n_bytes
        tasks[min(middle * n_tasks // (2 * total), n_tasks - 1) if total else 0].append(part.split)
        before += part.n_bytes
    return tuple(tuple(task) for task in tasks if task)


# First and last time of each split, by its number. None without rows that have a time
Times = Mapping[int, tuple[int, int] | None]


def history_parts(
    source: FileSource,
    time: Column,
    part_bytes: int,
    read_times: Callable[[Mapping[int, str]], Times],
    store: Store | None = None,
    groups_of: SelectRowGroups = select_row_groups,
) -> list[HistoryPart]:
    """Return the parts of a table of files with their times, in no order.

    Args:
        source: Files, and all columns of the table.
        time: Time column.
        part_bytes: Size from which text files are cut.
        read_times: Reads the times of splits from their rows: of text files, and of Parquet whose
            footers lack them.
        store: Store of the files. None for this machine.
        groups_of: Reads the footers of Parquet.

    Raises:
        ExecutionError: A file cannot be read.
    """
    if isinstance(source, TextSource):
        parts = [
            HistoryPart(split_of(part, source), part.stop - part.start, None)
            for task in file_ranges(source.files, 1, part_bytes)
            for part in task
        ]
        unknown = list(range(len(parts)))
    else:
        criteria = RowGroupCriteria(source.without_files(), (), store, time.name)
        files = [_with_size(file) for file in source.files]
        parts = [
            HistoryPart(
                split_of(FileRange(file, group.middle, group.middle + 1), source),
                group.compressed_bytes,
                group.times_us,
            )
            for file, groups in zip(files, groups_of(source.files, criteria), strict=True)
            for group in groups.row_groups
        ]
        unknown = [number for number, part in enumerate(parts) if part.times_us is None]
    for number, times in read_times({n: parts[n].split for n in unknown}).items():
        parts[number] = replace(parts[number], times_us=times)
    return parts


def _with_size(file: ScanFile) -> ScanFile:
    """Add the size of a file of this machine, by which tasks detect that it has changed."""
    if file.n_bytes or not is_local_path(file.path):
        return file
    return replace(file, n_bytes=os.path.getsize(file.path))


def read_times(
    spark: SparkSession, reader: SplitReader, time: Column, splits: Mapping[int, str]
) -> Times:
    """Read the times of splits in a Spark job. `reader` reads the time column."""
    if not splits:
        return {}

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for number, split in zip(*map(pa.Array.to_pylist, batch.columns), strict=True):
                low, high = times_of_split(reader, time, split) or (None, None)
                yield pa.record_batch(
                    {
                        "number": pa.array([number], pa.int32()),
                        "low": pa.array([low], pa.int64()),
                        "high": pa.array([high], pa.int64()),
                    }
                )

    table = pa.table(
        {"number": pa.array(splits, pa.int32()), "split": pa.array(splits.values(), pa.string())}
    )
    rows = create_frame(spark, table).repartition(
        min(len(splits), 2 * spark.sparkContext.defaultParallelism)
    )
    return {
        row["number"]: None if row["low"] is None else (row["low"], row["high"])
        for row in to_arrow(rows.mapInArrow(run, _TIMES_DDL)).to_pylist()
    }


def times_of_split(reader: SplitReader, time: Column, split: str) -> tuple[int, int] | None:
    """Return the first and last time of a split, or None without rows that have a time."""
    spans = []
    for batch in reader.read([split], frozenset()):
        times = batch.column(time.name).drop_null()
        if len(times):
            bounds = pc.min_max(pa.array(int64_values(times)))
            spans.append((bounds["min"].as_py(), bounds["max"].as_py()))
    if not spans:
        return None
    return min(low for low, _ in spans), max(high for _, high in spans)
