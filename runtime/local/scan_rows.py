"""Convert batches of a file to rows for a buffer: apply filters and evaluate expressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.counters import count
from runtime.compute.kernels.conversions import from_buffer, int64_values
from runtime.compute.wall_clock import wall_clock_us
from runtime.local.projection import Projection, projection
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, Streaming, TaskScan
from runtime.scan.read import convert_types, read_batches
from runtime.scan.splits import Split
from runtime.scan.stores import Store
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, can_fail, columns_of
from runtime.spec.stream import TIME
from runtime.spec.text import TextSource

if TYPE_CHECKING:
    from runtime.text.read import TextSplit

# Column with the rows' time as a timestamp, if it is computed
_TIMESTAMP = "$time"


class ScanRows:
    """Filters and expressions over the rows that a step reads, before they are aggregated.

    Args:
        step: Step.
        store: Object store with the files. None means this machine.

    Attributes:
        dictionaries: Names of string and binary columns whose values are only compared for
            equality, so dictionary codes suffice.
        n_rows: Number of rows read.
        n_null_times: Number of rows that passed the filters but were dropped because they have no
            time.
    """

    def __init__(
        self, step: LocalStep[TaskScan, ArrowBuffer | Streaming], store: Store | None = None
    ) -> None:
        self.dictionaries = _dictionary_columns(step.source)
        self.n_rows = 0
        self.n_null_times = 0
        self._step = step
        self._store = store
        self._items = scan_projection(step.source)[0].items

    def rows_of_split(self, split: Split | TextSplit) -> Iterator[dict[str, pa.Array]]:
        """Yield the rows of a split that count, as `columns`, batch by batch.

        Raises:
            ExecutionError: A file cannot be read, or an expression fails.
        """
        for batch, n_rows in self._read(split):
            self.n_rows += n_rows
            count("rows_scanned", n_rows)
            if n_rows > batch.num_rows:
                count("rows_filtered_out", n_rows - batch.num_rows)
            columns = self.columns(self.filter_rows(batch))
            del batch  # release it before the next batch is read
            yield columns
            del columns

    def _read(self, split: Any) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows of a split, with the number of rows read for them."""
        scan = self._step.source
        assert isinstance(scan, FileScan), "other tables have no such splits"
        if isinstance(scan.files, TextSource):
            from runtime.text.read import read_split

            yield from read_split(scan.files, split, scan.filters, self._store)
            return
        for batch in read_batches(split, scan.files, self.dictionaries, self._store):
            yield batch, batch.num_rows

    def rows_of_spark(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return rows of the source that Spark has read, as `columns`.

        Raises:
            ExecutionError: An expression fails.
        """
        self.n_rows += batch.num_rows
        count("rows_scanned", batch.num_rows)
        rows = convert_types(batch, self._step.source.columns, self.dictionaries)
        return self.columns(self.filter_rows(rows))

    def add_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add a time column if windows are not on a column of the rows.

        Raises:
            ExecutionError: The time cannot be computed.
        """
        time = self._step.source.time
        if isinstance(time, ColumnRef) or _TIMESTAMP in batch.schema.names:
            return batch
        return batch.append_column(_TIMESTAMP, evaluate(time, batch))

    def times(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the times of rows from `add_time`, as timestamps."""
        time = self._step.source.time
        return batch.column(time.name if isinstance(time, ColumnRef) else _TIMESTAMP)

    def filter_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass the filters and have a time, as from `add_time`.

        Raises:
            ExecutionError: A filter or the time cannot be computed.
        """
        step = self._step
        if step.source.filters:
            mask = filter_mask(step.source.filters, batch)
            if mask.true_count < batch.num_rows:
                count("rows_filtered_out", batch.num_rows - mask.true_count)
                batch = batch.filter(mask)
        batch = self.add_time(batch)
        times = self.times(batch)
        if times.null_count:
            self.n_null_times += times.null_count
            count("rows_without_time", times.null_count)
            batch = batch.filter(times.is_valid())
        return batch

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Evaluate TIME, keys, arguments and conditions of rows from `filter_rows`.

        Raises:
            ExecutionError: An expression fails.
        """
        time_us = int64_values(self.times(batch))
        if self._step.time_type == "timestamp":
            time_us = wall_clock_us(time_us, self._step.source.time_zone)
        return {TIME: from_buffer(time_us, None, pa.int64(), len(time_us))} | {
            name: batch.column(expression.name)
            if isinstance(expression, ColumnRef)
            else evaluate(expression, batch)
            for name, expression in self._items
        }


def scan_projection(scan: TaskScan) -> tuple[Projection[Expression], dict[str, str]]:
    """Return the expressions to evaluate for rows of files, and the types of the columns."""
    columns = projection(scan, _guard)
    return columns, {name: expression.type for name, expression in columns.items}


def _guard(arg: Expression, condition: Expression | None) -> Expression:
    """Evaluate an argument only where the condition holds, if it could fail elsewhere."""
    if condition is None or not can_fail(arg):
        return arg
    return Call("case", (condition, arg, Constant(None, arg.type)), arg.type)


def _dictionary_columns(scan: TaskScan) -> frozenset[str]:
    """Return the keys and DISTINCT values that no other expression reads."""
    distinguished = [key for _, key in scan.keys]
    read = [*scan.filters, scan.time]
    for partial in scan.partials:
        (distinguished if partial.into.compares_rows else read).extend(partial.args)
        read += [] if partial.condition is None else [partial.condition]
    read += [expression for expression in distinguished if not isinstance(expression, ColumnRef)]
    names = {
        expression.name
        for expression in distinguished
        if isinstance(expression, ColumnRef) and expression.type in ("string", "binary")
    }
    return frozenset(names.difference(*map(columns_of, read)))
