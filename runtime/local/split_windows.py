"""Windows whose rows are all in one split: their task emits them without an exchange.

In files that were written in order of time, nearly all windows are like this. File statistics tell
when other splits have rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_values, one_chunk
from runtime.errors import ExecutionError
from runtime.frames.blobs import Emit
from runtime.local.stage import Cut
from runtime.plan.local import FileLocalStep
from runtime.scan.splits import ExclusiveTimes
from runtime.spec.expressions import ColumnRef


def exclusive_time_column(step: FileLocalStep) -> str | None:
    """Return the column whose statistics identify windows with all rows in one split, or None.

    Each window must be a single slice, because a shared slice may be needed elsewhere too, and
    windows must be on the wall clock of the files.
    """
    window, time = step.window, step.source.time
    if not window.has_slices or window.assigner().is_shared:
        return None
    if not isinstance(time, ColumnRef) or step.time_type != "timestamp_ntz":
        return None
    # rows that Spark reads may have any time
    return None if step.source.files.others else time.name


@dataclass(frozen=True)
class SplitWindows:
    """Output of a split's partials once the split has been read.

    Attributes:
        step: Step of the partials.
        exclusive_times: Times for which only this split has rows.
        cut: Converts partials for the global stage to output batches.
        emit: Converts the partials of complete windows to output batches.
    """

    step: FileLocalStep
    exclusive_times: ExclusiveTimes
    cut: Cut
    emit: Emit

    def remaining_batches(
        self, tables: Iterable[pa.Table], sent_ends: Int64Array
    ) -> Iterator[pa.RecordBatch]:
        """Yield the output batches of the remaining partials.

        Args:
            tables: Partials in the buffer.
            sent_ends: int64[n], ends of slices with partials that were sent before.

        Raises:
            ExecutionError: The time of a row contradicts the statistics of its file.
        """
        complete = []
        for table in tables:
            slice_end = int64_values(one_chunk(table.column(self.step.slice_end)))
            is_whole = self._is_complete(slice_end)
            if len(sent_ends):
                is_whole &= ~np.isin(slice_end, sent_ends)
            if is_whole.all():
                complete.append(table)
                continue
            if is_whole.any():
                mask = pa.array(is_whole)
                complete.append(table.filter(mask))
                table = table.filter(pa.array(~is_whole))
            yield from self.cut(table)
        if complete:
            yield from self.emit(pa.concat_tables(complete))

    def _is_complete(self, slice_end: Int64Array) -> BoolArray:
        assigner = self.step.window.cells.assigner()
        first, last = assigner.slice_end(
            np.array([self.exclusive_times.first_us, self.exclusive_times.last_us])
        )
        if len(slice_end) and (slice_end.min() < first or slice_end.max() > last):
            raise ExecutionError(
                f"files of {self.step.source.files.path} contain times outside their statistics",
                hint="write the files again with correct statistics",
            )
        is_after = assigner.window_start(slice_end) > self.exclusive_times.after_us
        is_whole: BoolArray = is_after & (slice_end <= self.exclusive_times.until_us)
        return is_whole
