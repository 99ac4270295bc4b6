"""The local stage of a task: the rows of a split through filters and expressions into a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.compute.buffer import WindowBuffer
from runtime.compute.counters import count
from runtime.local.partials import partial_schema, session_times
from runtime.scan.read import read_batches
from runtime.scan.rows import ScanRows
from runtime.scan.splits import Split
from runtime.spec.local import ScanLocalStep
from runtime.spec.windows import local_window


def scan_schema(step: ScanLocalStep) -> pa.Schema:
    """The partials as Arrow has them: keys, slice end, partial columns."""
    args = [[arg.type for arg in partial.args] for partial in step.source.partials]
    return partial_schema(step, [key.type for _, key in step.source.keys], args)


class ScanTask:
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
        self._buffer = WindowBuffer(
            local_window(step.window),
            step.keys,
            step.slice_end,
            (*step.accumulators, *session_times(step)),
            scan_schema(step),
            step.mode.buffer_bytes,
        )

    @property
    def n_null_times(self) -> int:
        """How many rows that passed the filters had no time, and were dropped."""
        return self._rows.n_null_times

    def run(self, split: Split) -> Iterator[pa.Table]:
        """The partials of a split, in tables of `scan_schema`.

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
