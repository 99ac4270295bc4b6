"""What a task of the local stage sees of its sources, for the control messages of key groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from runtime.compute.counters import count
from runtime.compute.kernels.columns import int64_values
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

# How many rows came from the source of this number, where somebody measures.
SOURCE_ROWS = "rows_of_source_"


class TaskProgress:
    """The watermarks of a task's sources, the processing time, and rows without a time.

    Args:
        n_sources: how many sources there are.
        numbers: the key groups' numbers.
        heads: those that come first in their tasks, and tell the others there.
    """

    def __init__(self, n_sources: int, numbers: Sequence[int], heads: Sequence[int]) -> None:
        self._numbers = numbers
        self._heads = heads
        # by what is in SOURCE: splits have figures of their own
        self._highest: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._n_rows = dict.fromkeys(range(n_sources), 0)
        self._n_null_times = 0
        self._has_ended = False
        self._now_us: int | None = None

    def observe(self, batch: pa.RecordBatch) -> None:
        """Note the watermarks of rows, how many rows each source had, and the processing time."""
        if self._now_us is None and PROCESSING_TIME in batch.schema.names:
            self._now_us = batch.column(PROCESSING_TIME)[0].as_py()
        # rows that come without a watermark have no source either
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
            # a row without a time says nothing of its source: an operator that is joined with this
            # one gets no mark of it, and would think the source idle
            n_rows = int((of_source & has_mark).sum())
            self._n_rows[source] = self._n_rows.get(source, 0) + n_rows
            known = values[of_source & has_mark]
            if len(known):
                self._widen(source, int(known.max()), int(known.min()))

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was seen."""
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
        """Note the watermarks of some rows of the only source.

        Args:
            n_rows: how many rows have a watermark.
            n_null_times: how many rows that count have no time.
            highest_us: the highest watermark; None: no row has one.
            lowest_us: the lowest.
            split: the split that they are of; None: it is not followed.
        """
        source = code_of(0, split)
        self._n_rows[source] = self._n_rows.get(source, 0) + n_rows
        self._n_null_times += n_null_times
        if highest_us is not None and lowest_us is not None:
            self._widen(source, highest_us, lowest_us)

    def _widen(self, source: int, high_us: int, low_us: int) -> None:
        self._highest[source] = max(high_us, self._highest.get(source, high_us))
        self._lowest[source] = min(low_us, self._lowest.get(source, low_us))

    def timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that count and have a time; the others are counted."""
        kept = batch.column(KEEP)
        if kept.true_count < batch.num_rows:
            batch = batch.filter(kept)
        count("rows_in", batch.num_rows)
        n_null_times = batch.column(TIME).null_count
        if n_null_times:
            count("rows_without_time", n_null_times)
            self._n_null_times += n_null_times
            batch = batch.filter(batch.column(TIME).is_valid())
        return batch

    def control(self, *, wakes: bool) -> pa.RecordBatch:
        """The control messages of this task.

        What it saw goes to one key group of each task behind the exchange: to all of them it would
        be as many rows as tasks times key groups.

        Args:
            wakes: whether each key group gets a message; one task of a micro-batch has to do that.
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
            (number, each) for number in self._heads for each in to_heads
        ]
        if wakes:
            addressed = {number for number, _ in messages}
            messages += [(number, NoRows()) for number in self._numbers if number not in addressed]
        if self._n_null_times:
            # one group counts for all
            messages.append((self._numbers[0], NullTimes(self._n_null_times)))
        return encode(messages)


def is_first_task() -> bool:
    """Whether it is the first of its stage, which there is whatever rows come."""
    context = TaskContext.get()
    return context is None or context.partitionId() == 0
