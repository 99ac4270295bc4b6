"""Rows of a file's batches as a buffer takes them: through filters and expressions."""

from __future__ import annotations

import pyarrow as pa

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.buffer import Rows
from runtime.compute.counters import count
from runtime.compute.kernels.columns import Int64Array, int64_values, mask_of
from runtime.scan.wall_clock import wall_clock_us
from runtime.spec.aggregates import CollectSet
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, can_fail, columns_of
from runtime.spec.local import ArrowBuffer, FileScan, LocalStep, Streaming
from runtime.spec.windows import SessionWindow

# The column with the rows' time where it is computed
TIME = "$time"


class ScanRows:
    """What a step makes of the rows that it reads, before they are aggregated.

    Args:
        step: the step.

    Attributes:
        dictionaries: names of columns of strings or binaries that are only distinguished: their
            codes will do.
        n_null_times: how many rows that passed the filters had no time, and were dropped.
    """

    def __init__(self, step: LocalStep[FileScan, ArrowBuffer | Streaming]) -> None:
        self.dictionaries = _dictionary_columns(step.source)
        self.n_null_times = 0
        self._step = step

    def timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with TIME if windows are on no column of theirs.

        Raises:
            ExecutionError: the time cannot be computed.
        """
        time = self._step.source.time
        if isinstance(time, ColumnRef) or TIME in batch.schema.names:
            return batch
        return batch.append_column(TIME, evaluate(time, batch))

    def times(self, batch: pa.RecordBatch) -> pa.Array:
        """The times of rows that are `timed`, timestamps."""
        time = self._step.source.time
        return batch.column(time.name if isinstance(time, ColumnRef) else TIME)

    def counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass the filters and have a time, `timed`.

        Raises:
            ExecutionError: a filter or the time cannot be computed.
        """
        step = self._step
        if step.source.filters:
            mask = filter_mask(step.source.filters, batch)
            if mask.true_count < batch.num_rows:
                count("rows_filtered_out", batch.num_rows - mask.true_count)
                batch = batch.filter(mask)
        batch = self.timed(batch)
        times = self.times(batch)
        if times.null_count:
            self.n_null_times += times.null_count
            count("rows_without_time", times.null_count)
            batch = batch.filter(times.is_valid())
        return batch

    def values(self, batch: pa.RecordBatch) -> Rows:
        """Times, keys, arguments and conditions of rows that are `counted`.

        Raises:
            ExecutionError: an expression fails.
        """
        step = self._step
        values: dict[Expression, pa.Array] = {}

        def value(expression: Expression) -> pa.Array:
            if isinstance(expression, ColumnRef):
                return batch.column(expression.name)
            if expression not in values:
                values[expression] = evaluate(expression, batch)
            return values[expression]

        args = [
            [value(_guarded(arg, partial.condition)) for arg in partial.args]
            for partial in step.source.partials
        ]
        conditions = [
            None if partial.condition is None else mask_of(value(partial.condition))
            for partial in step.source.partials
        ]
        time_us = self._time_us(batch)
        if isinstance(step.window, SessionWindow):
            times = pa.array(time_us)
            args += [[times], [times]]
            conditions += [None, None]
        return Rows(time_us, [value(key) for _, key in step.source.keys], args, conditions)

    def _time_us(self, batch: pa.RecordBatch) -> Int64Array:
        time_us = int64_values(self.times(batch))
        if self._step.time_type == "timestamp":
            return wall_clock_us(time_us, self._step.source.time_zone)
        return time_us


def _guarded(arg: Expression, condition: Expression | None) -> Expression:
    """The argument, evaluated only where the condition holds if it can fail elsewhere."""
    if condition is None or not can_fail(arg):
        return arg
    return Call("case", (condition, arg, Constant(None, arg.type)), arg.type)


def _dictionary_columns(scan: FileScan) -> frozenset[str]:
    """Keys and DISTINCT values that nothing else reads."""
    distinguished = [key for _, key in scan.keys]
    read = [*scan.filters, scan.time]
    for partial in scan.partials:
        (distinguished if isinstance(partial.into, CollectSet) else read).extend(partial.args)
        read += [] if partial.condition is None else [partial.condition]
    read += [expression for expression in distinguished if not isinstance(expression, ColumnRef)]
    names = {
        expression.name
        for expression in distinguished
        if isinstance(expression, ColumnRef) and expression.type in ("string", "binary")
    }
    return frozenset(names.difference(*map(columns_of, read)))
