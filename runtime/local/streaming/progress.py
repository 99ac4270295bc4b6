"""Progress of a local stage's task in its sources, for the control messages to key groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from runtime.compute.counters import count
from runtime.compute.kernels.conversions import int64_values
from runtime.local.streaming.messages import (
    ControlMessage,
    EndOfInput,
    NoRows,
    NullTimes,
    ProcessingTime,
    SourceProgress,
    code_of,
    encode,
    split_of,
)
from runtime.spec.stream import ALL_SOURCES, KEEP, PROCESSING_TIME, SOURCE, TIME, WATERMARK

# Prefix of the metric that counts rows of a source; its number follows
SOURCE_ROWS = "rows_of_source_"


class TaskProgress:
    """A task's source watermarks, processing time, and number of rows without a time.

    Args:
        n_sources: Number of sources.
        numbers: Numbers of the key groups.
        heads: Numbers of the first key group in each task, which informs the others there.
    """

    def __init__(self, n_sources: int, numbers: Sequence[int], heads: Sequence[int]) -> None:
        self._numbers = numbers
        self._heads = heads
        # By the value in SOURCE, because splits have their own.
        self._highest: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._n_rows = dict.fromkeys(range(n_sources), 0)
        self._n_null_times = 0
        self._has_ended = False
        self._now_us: int | None = None

    def observe(self, batch: pa.RecordBatch) -> None:
        """Record the rows' watermarks, row counts per source, and the processing time."""
        if self._now_us is None and PROCESSING_TIME in batch.schema.names:
            self._now_us = batch.column(PROCESSING_TIME)[0].as_py()
        # rows without a watermark have no source either
        sources = int64_values(batch.column(SOURCE).fill_null(ALL_SOURCES))
        marks = batch.column(WATERMARK)
        has_mark = marks.is_valid().to_numpy(zero_copy_only=False)
        values = int64_values(marks)
        for source in np.unique(sources).tolist():
            of_source = sources == source
            if source == ALL_SOURCES:
                self._has_ended = self._has_ended or bool(has_mark[of_source].any())
                continue
            count(f"{SOURCE_ROWS}{split_of(source)[0]}", int(of_source.sum()))
            # a row without a time must not count: an operator that is joined with this one gets no
            # watermark from it, and would consider the source idle
            n_rows = int((of_source & has_mark).sum())
            self._n_rows[source] = self._n_rows.get(source, 0) + n_rows
            source_marks = values[of_source & has_mark]
            if len(source_marks):
                self._widen(source, int(source_marks.max()), int(source_marks.min()))

    @property
    def is_nothing(self) -> bool:
        """Return whether nothing was recorded."""
        is_silent = not any(self._n_rows.values()) and not self._highest
        return is_silent and not (self._n_null_times or self._has_ended or self._now_us)

    def observe_totals(
        self,
        n_rows: int,
        n_null_times: int,
        highest_us: int | None,
        lowest_us: int | None,
        split: int | None = None,
    ) -> None:
        """Record the watermarks of some rows of the only source.

        Args:
            n_rows: Number of rows with a watermark.
            n_null_times: Number of rows that count but have no time.
            highest_us: Highest watermark. None if no row has one.
            lowest_us: Lowest watermark.
            split: Split of the rows. None if splits are not tracked.
        """
        source = code_of(0, split)
        self._n_rows[source] = self._n_rows.get(source, 0) + n_rows
        self._n_null_times += n_null_times
        if highest_us is not None and lowest_us is not None:
            self._widen(source, highest_us, lowest_us)

    def _widen(self, source: int, high_us: int, low_us: int) -> None:
        self._highest[source] = max(high_us, self._highest.get(source, high_us))
        self._lowest[source] = min(low_us, self._lowest.get(source, low_us))

    def drop_untimed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that count and have a time, and record the number of those without."""
        is_kept = batch.column(KEEP)
        if is_kept.true_count < batch.num_rows:
            batch = batch.filter(is_kept)
        count("rows_in", batch.num_rows)
        n_null_times = batch.column(TIME).null_count
        if n_null_times:
            count("rows_without_time", n_null_times)
            self._n_null_times += n_null_times
            batch = batch.filter(batch.column(TIME).is_valid())
        return batch

    def control(self, *, wakes: bool) -> pa.RecordBatch:
        """Return the control messages of this task.

        Progress goes to one key group of each task after the exchange. Sending it to all key groups
        would take as many rows as tasks times key groups.

        Args:
            wakes: Whether each key group gets a message. One task of a micro-batch must do that.
        """
        to_heads: list[ControlMessage] = [
            SourceProgress(number, self._highest.get(code), self._lowest.get(code), n_rows, split)
            for code, n_rows in self._n_rows.items()
            if n_rows or code in self._highest
            for number, split in [split_of(code)]
        ]
        if self._has_ended:
            to_heads.append(EndOfInput())
        if self._now_us is not None:
            to_heads.append(ProcessingTime(self._now_us))
        messages: list[tuple[int, ControlMessage]] = [
            (number, message) for number in self._heads for message in to_heads
        ]
        if wakes:
            addressed = {number for number, _ in messages}
            messages += [(number, NoRows()) for number in self._numbers if number not in addressed]
        if self._n_null_times:
            # counted in one group for all
            messages.append((self._numbers[0], NullTimes(self._n_null_times)))
        return encode(messages)


def is_first_task() -> bool:
    """Return whether this is the first task of its stage, which exists even without rows."""
    context = TaskContext.get()
    return context is None or context.partitionId() == 0
