"""The local stage over a source with rows that Spark may have to decode.

A task reads its splits into Arrow. Rows that Arrow and Spark may decode differently are left to
Spark, a record batch at a time: they leave the task along with its partials, Spark SQL decodes
them, and a second pass aggregates them. Most tasks leave no rows to Spark, and their partials pass
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from runtime.compute.buffer import BufferRows
from runtime.compute.counters import count
from runtime.frames.meter import ArrowFunction
from runtime.frames.scan_counts import ScanCounter
from runtime.local.arrow_scan import items_of
from runtime.local.scan_rows import ScanRows
from runtime.local.stage import BufferPlan, Cut, aggregate
from runtime.plan.local import ScanLocalStep
from runtime.spark.versions.casts import type_from_ddl
from runtime.spark.workers import prepare_worker
from runtime.spec.source import WATERMARK_SPLIT, SplitReader, SplitSource
from runtime.spec.table import Column

# Column with a message for Spark to decode
_MESSAGE = "$message"


def is_undecoded(batch: pa.RecordBatch) -> bool:
    """Return whether a batch contains messages for Spark to decode."""
    return WATERMARK_SPLIT in batch.schema.names


def run_two_passes(
    splits: DataFrame,
    ddl: str,
    first: ArrowFunction,
    second: ArrowFunction,
    source: SplitSource,
    reader: SplitReader,
    columns: Sequence[Column],
) -> DataFrame:
    """Run both passes of the local stage over splits. Nothing runs yet.

    Args:
        splits: Rows with the tasks' splits.
        ddl: Columns of the output.
        first: First pass. Yields batches of `ddl`, and rows that are left to Spark.
        second: Second pass. Receives batches of `ddl` with decoded rows among them, see
            `separate_messages`.
        source: Decodes the rows that are left.
        reader: Reads the splits.
        columns: Columns to read.

    Returns:
        Rows of `ddl`.
    """
    message = type_from_ddl(f"STRUCT<{reader.undecoded_ddl}>")
    fields = columns_of_ddl(ddl).fields
    schema = pa.schema([(f.name, to_arrow_type(f.dataType)) for f in fields])
    type_ = to_arrow_type(message)

    @wraps(first)
    def add_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in first(batches):
            n_rows = batch.num_rows
            if is_undecoded(batch):
                arrays = [pa.nulls(n_rows, field.type) for field in schema]
                messages = pa.StructArray.from_arrays(batch.columns, fields=list(type_))
            else:
                arrays, messages = batch.columns, pa.nulls(n_rows, type_)
            yield pa.RecordBatch.from_arrays([*arrays, messages], names=[*schema.names, _MESSAGE])

    both = StructType(fields).add(_MESSAGE, message)
    passed = splits.mapInArrow(add_messages, both)
    decoded = source.with_decoded(passed, _MESSAGE, columns)
    return decoded.mapInArrow(second, ddl)


def columns_of_ddl(ddl: str) -> StructType:
    """Parse a DDL text."""
    fields = cast(StructType, type_from_ddl(ddl))
    assert isinstance(fields, StructType)
    return fields


def separate_messages(
    batches: Iterable[pa.RecordBatch], names: list[str]
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Separate the input of the second pass into output of the first pass and decoded messages.

    Args:
        batches: Batches from `SplitSource.with_decoded`.
        names: Columns of the first pass's output.

    Yields:
        A batch, and whether it contains messages, with the table's columns and WATERMARK_SPLIT.
    """
    for batch in batches:
        numbers = [f"${number}" for number in range(len(names))]
        is_message = batch.column(WATERMARK_SPLIT).is_valid()
        rows = batch if not is_message.true_count else batch.filter(pc.invert(is_message))
        if rows.num_rows:
            arrays = [rows.column(number) for number in numbers]
            yield pa.RecordBatch.from_arrays(arrays, names=names), False
        if is_message.true_count:
            yield batch.filter(is_message).drop_columns(numbers), True


def message_partials(
    step: ScanLocalStep,
    plan: BufferPlan,
    reader: SplitReader,
    portions: Sequence[tuple[str, ...]],
    counter: ScanCounter | None,
) -> tuple[Callable[[Cut], ArrowFunction], Callable[[list[str], Cut], ArrowFunction]]:
    """Return the functions that tasks of a batch query run in the first and in the second pass.

    Args:
        step: What to evaluate.
        plan: What to aggregate.
        reader: Reads the splits.
        portions: Splits of each task. Empty if the rows contain them, see `item_rows`.
        counter: Counts the rows that are read, and those without a time.

    Returns:
        Functions that take a `Cut`. The second one also takes the column names of the first pass's
        output.
    """

    def first(cut: Cut) -> ArrowFunction:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            prepare_worker()
            rows = ScanRows(step)

            def read() -> Iterator[BufferRows | pa.RecordBatch]:
                for portion in items_of(batches, portions):
                    for batch in reader.read(portion, rows.dictionaries):
                        if is_undecoded(batch):
                            count("rows_scanned", batch.num_rows)
                            yield batch
                        else:
                            yield plan.rows(rows.rows_of_spark(batch))

            yield from aggregate(plan, read(), cut)
            _record(counter, rows, is_second=False)

        return run

    def second(names: list[str], cut: Cut) -> ArrowFunction:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            prepare_worker()
            rows = ScanRows(step)

            def read() -> Iterator[BufferRows | pa.RecordBatch]:
                for batch, is_message in separate_messages(batches, names):
                    yield plan.rows(rows.rows_of_spark(batch)) if is_message else batch

            yield from aggregate(plan, read(), cut)
            _record(counter, rows, is_second=True)

        return run

    return first, second


def _record(counter: ScanCounter | None, rows: ScanRows, *, is_second: bool) -> None:
    task = TaskContext.get()
    if counter is not None and task is not None:
        number = task.partitionId()
        counter.record(-1 - number if is_second else number, rows.n_rows, rows.n_null_times)
