"""Rows of a file's batches as a buffer takes them: through filters and expressions."""

from __future__ import annotations

import pyarrow as pa

from runtime.arrow.evaluate import evaluate, filter_mask
from runtime.buffers import Rows
from runtime.counters import count
from runtime.expressions import Call, ColumnRef, Constant, Expression, can_fail, columns_of
from runtime.kernels.columns import BoolArray, Int64Array, int64_values, one_chunk
from runtime.scan.wall_clock import wall_clock_us
from runtime.scan_spec import ScanLocalStep
from runtime.spec import Session


class ScanRows:
    """What a step makes of the rows that it reads, before they are aggregated.

    Args:
        step: the step.

    Attributes:
        dictionaries: names of columns of strings or binaries that are only told apart: their codes
            will do.
        n_null_times: how many rows that passed the filters had no time, and were dropped.
    """

    def __init__(self, step: ScanLocalStep) -> None:
        self.dictionaries = _dictionary_columns(step)
        self.n_null_times = 0
        self._step = step

    def counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass the filters and have a time."""
        step = self._step
        if step.filters:
            mask = filter_mask(step.filters, batch)
            if mask.true_count < batch.num_rows:
                count("rows_filtered_out", batch.num_rows - mask.true_count)
                batch = batch.filter(mask)
        n_null_times = batch.column(step.time_column).null_count
        if n_null_times:
            self.n_null_times += n_null_times
            count("rows_without_time", n_null_times)
            batch = batch.filter(batch.column(step.time_column).is_valid())
        return batch

    def values(self, batch: pa.RecordBatch) -> Rows:
        """Times, keys, arguments and conditions of rows that count.

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
            for partial in step.partials
        ]
        conditions = [
            None if partial.condition is None else _mask(value(partial.condition))
            for partial in step.partials
        ]
        time_us = self._time_us(batch)
        if isinstance(step.window, Session):
            times = pa.array(time_us)
            args += [[times], [times]]
            conditions += [None, None]
        return Rows(time_us, [value(key) for _, key in step.keys], args, conditions)

    def _time_us(self, batch: pa.RecordBatch) -> Int64Array:
        time_us = int64_values(batch.column(self._step.time_column))
        if self._step.time_type == "timestamp":
            return wall_clock_us(time_us, self._step.time_zone)
        return time_us


def _guarded(arg: Expression, condition: Expression | None) -> Expression:
    """The argument, evaluated only where the condition holds if it can fail elsewhere."""
    if condition is None or not can_fail(arg):
        return arg
    return Call("case", (condition, arg, Constant(None, arg.type)), arg.type)


def _mask(condition: pa.Array) -> BoolArray:
    mask: BoolArray = one_chunk(condition).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _dictionary_columns(step: ScanLocalStep) -> frozenset[str]:
    """Keys and DISTINCT values that nothing else reads."""
    told_apart = [key for _, key in step.keys]
    read = [*step.filters]
    for partial in step.partials:
        (told_apart if partial.function == "set" else read).extend(partial.args)
        read += [] if partial.condition is None else [partial.condition]
    read += [expression for expression in told_apart if not isinstance(expression, ColumnRef)]
    names = {
        expression.name
        for expression in told_apart
        if isinstance(expression, ColumnRef) and expression.type in ("string", "binary")
    }
    return frozenset(names.difference(*map(columns_of, read)))
