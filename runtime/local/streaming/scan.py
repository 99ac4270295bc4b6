"""The local stage of a stream that reads new files itself, so that no row becomes a JVM row.

Spark's source of files hands on their paths, keeps which were read, and gives the same ones to a
micro-batch that is computed again. A task reads those that it was given, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.buffer import Rows
from runtime.compute.counters import count
from runtime.compute.kernels.columns import int64_values
from runtime.connectors.kafka.offsets import SPLIT, Range, Reading
from runtime.connectors.kafka.source import read_table
from runtime.local.messages import is_left, passing
from runtime.local.scan_rows import ScanRows
from runtime.local.streaming.messages import MESSAGE_SCHEMA, RowsRead, encode
from runtime.local.streaming.progress import SOURCE_ROWS
from runtime.local.streaming.stage import LocalPlan, LocalTask, received
from runtime.scan.read import typed_rows
from runtime.scan.splits import FileRange
from runtime.scan.stores import Store
from runtime.scan.stream_files import read_stream_file
from runtime.spec.local import FileStreamScan, LocalStep, MessageScan, Streaming
from runtime.spec.scan import ScanFile
from runtime.spec.stream import FINAL_US

# The absolute path of a file, or a `listed_part` of one, in rows that bring one; or a range of
# messages
PATH = "$path"
# In place of a split: of messages that are left to the second pass
LEFT = -1


def listed_part(part: FileRange) -> str:
    """A part of a file of a store as one text."""
    file = part.file
    return json.dumps([file.path, file.n_bytes, file.modified_ns, part.start, part.stop])


def part_of_text(text: str) -> FileRange:
    """The part that `listed_part` has made a text of."""
    path, n_bytes, modified_ns, start, stop = json.loads(text)
    return FileRange(ScanFile(path, (), (), n_bytes, modified_ns), start, stop)


class ScanTask:
    """The local stage of one task in one micro-batch.

    Args:
        plan: what is done with the rows.
        step: how they are read; it has a delay.
        store: where the files are; None: on this machine.
    """

    def __init__(
        self,
        plan: LocalPlan,
        step: LocalStep[FileStreamScan, Streaming],
        store: Store | None = None,
    ) -> None:
        self._plan = plan
        assert step.mode.delay_us is not None
        self._delay_us = step.mode.delay_us
        self._files = step.source.files
        self._store = store
        self._rows = ScanRows(step)
        self._local = LocalTask(plan)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of the task to messages of MESSAGE_SCHEMA.

        Args:
            batches: rows with PATH, a file each; where it is NULL, rows of all sources: the end of
                input and the processing time, as `sent_columns` has them.

        Raises:
            ExecutionError: a file cannot be read, an expression fails, a sum overflows its type.
        """
        return self._local.messages(self._rows_of(batches))

    def _rows_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows | pa.RecordBatch]:
        n_read = 0
        for batch in batches:
            paths = batch.column(PATH)
            control = batch.filter(pc.is_null(paths))
            if control.num_rows:
                self._local.progress.observe(received(control, delay_us=0))
            for path in paths.drop_null().to_pylist():
                for rows, split in self._read(path):
                    n_read += rows.num_rows
                    if split == LEFT:
                        yield rows
                    else:
                        yield from self._counted(rows, split)
        if n_read:
            yield encode([(self._plan.numbers[0], RowsRead(n_read))])

    def _read(self, path: str) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """The rows of what a row of the task brings, and their split if it is followed."""
        part = part_of_text(path) if path.startswith("[") else None
        path = path if part is None else part.file.path
        names = self._rows.dictionaries
        for rows in read_stream_file(path, self._files, names, self._store, part):
            yield rows, None

    def _counted(self, rows: pa.RecordBatch, split: int | None) -> Iterator[Rows]:
        counted = self._observed(rows, split)
        if counted.num_rows:
            yield self._plan.buffer.rows(self._rows.columns(counted))

    def _observed(self, batch: pa.RecordBatch, split: int | None) -> pa.RecordBatch:
        """Rows of a split, of which all carry their watermark: those that count and have a time."""
        count(f"{SOURCE_ROWS}0", batch.num_rows)
        batch = self._rows.timed(batch)
        times = self._rows.times(batch)
        before = self._rows.n_null_times
        n_timed = batch.num_rows - times.null_count
        highest = lowest = None
        if n_timed:
            bounds = pc.min_max(pa.array(int64_values(times.drop_null())))
            lowest, highest = (
                max(bounds[name].as_py() - self._delay_us, -FINAL_US) for name in ("min", "max")
            )
        counted = self._rows.counted(batch)
        n_null_times = self._rows.n_null_times - before
        count("rows_in", counted.num_rows + n_null_times)
        self._local.progress.observe_totals(n_timed, n_null_times, highest, lowest, split)
        return counted


class MessageTask(ScanTask):
    """The local stage of one task that consumes messages; for its passes see `local.messages`.

    Args:
        plan: what is done with the rows.
        step: how they are read; it has a delay.
        reading: which messages, and how they are decoded.
    """

    def __init__(
        self, plan: LocalPlan, step: LocalStep[MessageScan, Streaming], reading: Reading
    ) -> None:
        super().__init__(plan, step)
        self._reading = reading
        self._follows_splits = step.source.follows_splits

    def _read(self, path: str) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        split = self._reading.split_of(Range.of(path)) if self._follows_splits else None
        for rows in read_table(self._reading, [Range.of(path)]):
            if is_left(rows):
                yield rows, LEFT
            else:
                yield typed_rows(rows, self._files, self._rows.dictionaries), split

    def second(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the first pass made, and messages that Spark has decoded, to MESSAGE_SCHEMA."""
        return self._local.messages(self._rows_of_second(batches), is_second=True)

    def _rows_of_second(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows | pa.RecordBatch]:
        for batch, is_message in passing(batches, MESSAGE_SCHEMA.names):
            if not is_message:
                yield batch
                continue
            splits = batch.column(SPLIT) if self._follows_splits else pa.nulls(1)
            for split in splits.unique():
                found = split.as_py()
                of_split = batch if found is None else batch.filter(pc.equal(splits, split))
                rows = typed_rows(of_split, self._files, self._rows.dictionaries)
                yield from self._counted(rows, found)
