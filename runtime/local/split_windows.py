"""Windows whose rows are all in one split: their task emits them, and they need no exchange.

Of files that were written in the order of time nearly all windows are such. The statistics of the
files say when other splits have rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import BoolArray, Int64Array, int64_values, one_chunk
from runtime.compute.windows.aligned import slice_assigner
from runtime.errors import ExecutionError
from runtime.frames.blobs import Emit
from runtime.local.stage import Cut
from runtime.scan.splits import OwnTimes
from runtime.spec.expressions import ColumnRef
from runtime.spec.local import FileLocalStep
from runtime.spec.windows import SessionWindow, local_window


def own_time_column(step: FileLocalStep) -> str | None:
    """The column whose statistics tell the windows that one split has all rows of; None: none do.

    Windows have to be a slice each, for a slice of several may be needed elsewhere too, and on the
    wall clock that the files have.
    """
    window, time = step.window, step.source.time
    if isinstance(window, SessionWindow) or slice_assigner(window).is_shared:
        return None
    if not isinstance(time, ColumnRef) or step.time_type != "timestamp_ntz":
        return None
    # rows that Spark reads may be of any time
    return None if step.source.files.others else time.name


@dataclass(frozen=True)
class SplitWindows:
    """What becomes of the partials of one split when it has been read.

    Attributes:
        step: the step that the partials are of.
        own: when this split alone has rows.
        cut: what becomes of partials that the global stage needs.
        emit: what becomes of all partials of windows that are whole.
    """

    step: FileLocalStep
    own: OwnTimes
    cut: Cut
    emit: Emit

    def at_end(self, tables: Iterable[pa.Table], sent_ends: Int64Array) -> Iterator[pa.RecordBatch]:
        """What leaves the task.

        Args:
            tables: the partials that are in its buffer.
            sent_ends: int64[n], the slices of which it has sent partials before.

        Raises:
            ExecutionError: a row is of another time than the statistics of the files say.
        """
        whole = []
        for table in tables:
            slice_end = int64_values(one_chunk(table.column(self.step.slice_end)))
            is_whole = self._is_whole(slice_end)
            if len(sent_ends):
                is_whole &= ~np.isin(slice_end, sent_ends)
            if is_whole.all():
                whole.append(table)
                continue
            if is_whole.any():
                mask = pa.array(is_whole)
                whole.append(table.filter(mask))
                table = table.filter(pa.array(~is_whole))
            yield from self.cut(table)
        if whole:
            yield from self.emit(pa.concat_tables(whole))

    def _is_whole(self, slice_end: Int64Array) -> BoolArray:
        assigner = slice_assigner(local_window(self.step.window))
        first, last = assigner.slice_end(np.array([self.own.first_us, self.own.last_us]))
        if len(slice_end) and (slice_end.min() < first or slice_end.max() > last):
            raise ExecutionError(
                f"files of {self.step.source.files.path} have rows of other times than their "
                "statistics say",
                hint="write them again with a program whose statistics are right",
            )
        is_after = assigner.window_start(slice_end) > self.own.after_us
        is_whole: BoolArray = is_after & (slice_end <= self.own.until_us)
        return is_whole
