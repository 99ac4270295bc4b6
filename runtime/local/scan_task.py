"""The local stage of a task: the rows of a split through filters and expressions into a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.buffer import WindowBuffer
from runtime.compute.counters import count
from runtime.compute.kernels.partial_types import partial_types
from runtime.scan.read import read_batches
from runtime.scan.rows import ScanRows
from runtime.scan.splits import Split
from runtime.spec.aggregates import Accumulator, Merge, MergeOp
from runtime.spec.local import ScanLocalStep
from runtime.spec.windows import FIRST_TIME, LAST_TIME, SessionWindow, local_window


def partial_schema(step: ScanLocalStep) -> pa.Schema:
    """The partials as Arrow has them: keys, slice end, partial columns."""
    fields = [pa.field(name, arrow_type(key.type)) for name, key in step.source.keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for partial in step.source.partials:
        types = partial_types(partial.into, [arg.type for arg in partial.args])
        fields += map(pa.field, partial.columns, types)
    if isinstance(step.window, SessionWindow):
        fields += [pa.field(name, pa.int64(), nullable=False) for name in (FIRST_TIME, LAST_TIME)]
    return pa.schema(fields)


class LocalStage:
    """Aggregates splits of a step's source, one after the other.

    Args:
        step: the step.

    Attributes:
        n_rows: how many rows were read.
    """

    def __init__(self, step: ScanLocalStep) -> None:
        self.n_rows = 0
        self._step = step
        self._rows = ScanRows(step)
        accumulators: tuple[Accumulator, ...] = step.accumulators
        if isinstance(step.window, SessionWindow):
            accumulators += (Merge((FIRST_TIME,), MergeOp.MIN), Merge((LAST_TIME,), MergeOp.MAX))
        self._buffer = WindowBuffer(
            local_window(step.window),
            step.keys,
            step.slice_end,
            accumulators,
            partial_schema(step),
            step.mode.buffer_bytes,
        )

    @property
    def n_null_times(self) -> int:
        """How many rows that passed the filters had no time, and were dropped."""
        return self._rows.n_null_times

    def run(self, split: Split) -> Iterator[pa.Table]:
        """The partials of a split, in tables of `partial_schema`.

        Raises:
            ExecutionError: a file cannot be read, an expression or a sum fails.
        """
        rows = self._rows
        for batch in read_batches(split, self._step.source.files, rows.dictionaries):
            self.n_rows += batch.num_rows
            count("rows_scanned", batch.num_rows)
            values = rows.values(rows.counted(batch))
            del batch  # or it would still be held while the next one is read
            yield from self._buffer.add(values)
            del values
        yield from self._buffer.flush()
