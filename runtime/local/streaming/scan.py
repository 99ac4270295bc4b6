"""The local stage of a stream whose tasks read its splits, so that no row becomes a JVM row.

Spark's source provides the splits, records in the checkpoint which were read, and provides the same
ones to a micro-batch that is run again. A task reads its splits one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.buffer import BufferRows
from runtime.compute.counters import count
from runtime.compute.kernels.conversions import int64_values
from runtime.local.messages import is_undecoded, separate_messages
from runtime.local.scan_rows import ScanRows
from runtime.local.streaming.messages import MESSAGE_SCHEMA, RowsRead, encode
from runtime.local.streaming.progress import SOURCE_ROWS
from runtime.local.streaming.stage import LocalPlan, LocalTask, decode_sent
from runtime.plan.local import LocalStep, SplitScan, Streaming
from runtime.scan.read import convert_types
from runtime.spec.source import WATERMARK_SPLIT, SplitReader
from runtime.spec.stream import FINAL_US

# Column with the text of a split
PATH = "$path"


class ScanTask:
    """The local stage of one task in one micro-batch. For its passes see `local.messages`.

    Args:
        plan: Plan of the stage.
        step: How rows are read. It has a watermark delay.
        reader: Reads the splits.
    """

    def __init__(
        self, plan: LocalPlan, step: LocalStep[SplitScan, Streaming], reader: SplitReader
    ) -> None:
        self._plan = plan
        assert step.mode.delay_us is not None
        self._delay_us = step.mode.delay_us
        self._columns = step.source.columns
        self._follows_splits = step.source.follows_splits
        self._reader = reader
        self._rows = ScanRows(step)
        self._local = LocalTask(plan)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the splits of the task and yield messages of MESSAGE_SCHEMA.

        Args:
            batches: Rows with PATH, one split each. Rows whose PATH is NULL are control rows: the
                end of input and the processing time, as from `encode_columns`.

        Raises:
            ExecutionError: A split cannot be read, an expression fails, a sum overflows its type.
        """
        return self._local.messages(self._rows_of(batches))

    def second(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield messages from the first pass's output and from rows that Spark has decoded."""
        return self._local.messages(self._rows_of_second(batches), is_second=True)

    def _rows_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[BufferRows | pa.RecordBatch]:
        n_read = 0
        for batch in batches:
            splits = batch.column(PATH)
            control = batch.filter(pc.is_null(splits))
            if control.num_rows:
                self._local.progress.observe(decode_sent(control, delay_us=0))
            for split in splits.drop_null().to_pylist():
                number = self._reader.watermark_split(split) if self._follows_splits else None
                limit_us = self._reader.watermark_limit_us(split)
                for rows in self._reader.read([split], self._rows.dictionaries):
                    n_read += rows.num_rows
                    if is_undecoded(rows):
                        yield rows
                    else:
                        yield from self._buffer_rows(rows, number, limit_us)
        if n_read:
            yield encode([(self._plan.numbers[0], RowsRead(n_read))])

    def _rows_of_second(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[BufferRows | pa.RecordBatch]:
        for batch, is_message in separate_messages(batches, MESSAGE_SCHEMA.names):
            if not is_message:
                yield batch
                continue
            splits = batch.column(WATERMARK_SPLIT) if self._follows_splits else pa.nulls(1)
            for split in splits.unique():
                number = split.as_py()
                of_split = batch if number is None else batch.filter(pc.equal(splits, split))
                rows = convert_types(of_split, self._columns, self._rows.dictionaries)
                yield from self._buffer_rows(rows, number)

    def _buffer_rows(
        self, rows: pa.RecordBatch, split: int | None, limit_us: int | None = None
    ) -> Iterator[BufferRows]:
        valid_rows = self._observe(rows, split, FINAL_US if limit_us is None else limit_us)
        if valid_rows.num_rows:
            yield self._plan.buffer.rows(self._rows.columns(valid_rows))

    def _observe(self, batch: pa.RecordBatch, split: int | None, limit_us: int) -> pa.RecordBatch:
        """Record the progress of a split's rows; return those that count and have a time.

        They advance the watermark to `limit_us` at most.
        """
        count(f"{SOURCE_ROWS}0", batch.num_rows)
        batch = self._rows.add_time(batch)
        times = self._rows.times(batch)
        before = self._rows.n_null_times
        n_timed = batch.num_rows - times.null_count
        highest = lowest = None
        if n_timed and self._plan.buffer.window.closes:
            bounds = pc.min_max(pa.array(int64_values(times.drop_null())))
            lowest, highest = (
                max(min(bounds[name].as_py() - self._delay_us, limit_us), -FINAL_US)
                for name in ("min", "max")
            )
        valid_rows = self._rows.filter_rows(batch)
        n_null_times = self._rows.n_null_times - before
        count("rows_in", valid_rows.num_rows + n_null_times)
        self._local.progress.observe_totals(n_timed, n_null_times, highest, lowest, split)
        return valid_rows
