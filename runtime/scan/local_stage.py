"""The local stage of a task: the rows of a split through filters and expressions into a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.arrow.evaluate import evaluate, filter_mask
from runtime.arrow.types import arrow_type
from runtime.buffers import Rows, WindowBuffer
from runtime.counters import count
from runtime.expressions import Call, ColumnRef, Constant, Expression, can_fail, columns_of
from runtime.kernels.columns import BoolArray, Int64Array, int64_values, one_chunk
from runtime.scan.read import read_batches
from runtime.scan.splits import Split
from runtime.scan.wall_clock import wall_clock_us
from runtime.scan_spec import ScanLocalStep
from runtime.spec import FIRST_TIME, LAST_TIME, Accumulator, Session, local_window


def partial_schema(step: ScanLocalStep) -> pa.Schema:
    """The partials as Arrow has them: keys, slice end, partial columns."""
    fields = [pa.field(name, arrow_type(key.type)) for name, key in step.keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for partial in step.partials:
        fields += [
            pa.field(column.name, arrow_type(column.type), column.nullable)
            for column in partial.columns
        ]
    if isinstance(step.window, Session):
        fields += [pa.field(name, pa.int64(), nullable=False) for name in (FIRST_TIME, LAST_TIME)]
    return pa.schema(fields)


class LocalStage:
    """Aggregates splits of a step's source, one after the other.

    Args:
        step: the step.

    Attributes:
        n_rows: how many rows were read.
        n_null_times: how many of those that passed the filters had no time, and were dropped.
    """

    def __init__(self, step: ScanLocalStep) -> None:
        self.n_rows = 0
        self.n_null_times = 0
        self._step = step
        self._dictionaries = _dictionary_columns(step)
        accumulators = tuple(
            Accumulator(partial.function, tuple(column.name for column in partial.columns))
            for partial in step.partials
        )
        self._is_session = isinstance(step.window, Session)
        if self._is_session:
            accumulators += (Accumulator("min", (FIRST_TIME,)), Accumulator("max", (LAST_TIME,)))
        self._buffer = WindowBuffer(
            local_window(step.window),
            tuple(name for name, _ in step.keys),
            step.slice_end,
            accumulators,
            partial_schema(step),
            step.buffer_bytes,
        )

    def run(self, split: Split) -> Iterator[pa.Table]:
        """The partials of a split, in tables of `partial_schema`.

        Raises:
            ExecutionError: a file cannot be read, an expression or a sum fails.
        """
        for batch in read_batches(split, self._step.source, self._dictionaries):
            self.n_rows += batch.num_rows
            count("rows_scanned", batch.num_rows)
            yield from self._buffer.add(self._rows(batch))
        yield from self._buffer.flush()

    def _rows(self, batch: pa.RecordBatch) -> Rows:
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
        if self._is_session:
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
    """Columns of strings or binaries that are only told apart: their codes will do.

    Those are keys and DISTINCT values that nothing else reads.
    """
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
