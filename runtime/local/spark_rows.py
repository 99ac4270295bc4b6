"""The local stage over rows of Spark, for aggregates that Spark SQL cannot pre-aggregate.

Spark evaluates keys, arguments and conditions; a Python task groups the rows by key and slice in a
bounded buffer and hands on blobs of partials, as the scan does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.buffer import Rows, WindowBuffer
from runtime.compute.kernels.columns import int64_values, mask_of
from runtime.frames.blobs import BLOB_DDL, bucket_blobs, place_blobs
from runtime.frames.meter import Wrap, as_it_is
from runtime.frames.wall_clock import quoted, wall_clock_us_sql
from runtime.local.partials import partial_schema, session_times
from runtime.spark.workers import prepare_worker
from runtime.spec.local import RowsLocalStep
from runtime.spec.windows import local_window

_TIME = "$time_us"


def arrow_local_sql(step: RowsLocalStep, source: str) -> str:
    """Spark SQL of what the stage reads: the time, then keys, arguments and conditions.

    An argument is not evaluated where its FILTER does not hold: it could fail there.
    """
    time = wall_clock_us_sql(step.time_column, step.time_type)
    items = [f"{time} AS {quoted(_TIME)}"]
    items += [f"{sql} AS {quoted(name)}" for name, sql in step.source.keys]
    for number, partial in enumerate(step.source.partials):
        condition = partial.condition
        for place, arg in enumerate(partial.args):
            value = arg if condition is None else f"CASE WHEN {condition} THEN {arg} END"
            items.append(f"{value} AS {quoted(_argument(number, place))}")
        if condition is not None:
            items.append(f"{condition} AS {quoted(_condition(number))}")
    return f"SELECT {', '.join(items)} FROM {source} WHERE {quoted(step.time_column)} IS NOT NULL"


def arrow_local(
    rows: DataFrame,
    step: RowsLocalStep,
    keys: tuple[str, ...],
    buckets: int,
    partitions: int,
    wrap: Wrap = as_it_is,
) -> tuple[DataFrame, StructType]:
    """Blobs of partials, in the partition of their bucket, and the schema of the rows inside.

    Args:
        rows: what `arrow_local_sql` gives.
        step: the step.
        keys: the columns that decide on the bucket.
        buckets: how many buckets of keys there are.
        partitions: how many tasks they are spread over.
        wrap: what the stage is wrapped in, to measure it.

    Raises:
        ExecutionError: an argument is of a type that its function does not take.
    """
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    args = [[types[name] for name in names] for names in _arguments(step)]
    schema = partial_schema(step, [types[name] for name in step.keys], args)
    stage = wrap(_stage(step, schema, keys, buckets))
    return place_blobs(rows.mapInArrow(stage, BLOB_DDL), partitions), from_arrow_schema(schema)


def _stage(
    step: RowsLocalStep,
    schema: pa.Schema,
    keys: tuple[str, ...],
    buckets: int,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    times = session_times(step)
    args = [*_arguments(step), *((_TIME,) for _ in times)]
    conditions: list[str | None]
    conditions = [
        None if partial.condition is None else _condition(number)
        for number, partial in enumerate(step.source.partials)
    ]
    conditions += [None for _ in times]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        names = step.keys
        buffer = WindowBuffer(
            local_window(step.window),
            names,
            step.slice_end,
            (*step.accumulators, *times),
            schema,
            step.mode.buffer_bytes,
        )
        for batch in batches:
            rows = Rows(
                int64_values(batch.column(_TIME)),
                [batch.column(name) for name in names],
                [[batch.column(name) for name in of_one] for of_one in args],
                [None if name is None else mask_of(batch.column(name)) for name in conditions],
            )
            for table in buffer.add(rows):
                yield bucket_blobs(table, keys, buckets)
        for table in buffer.flush():
            yield bucket_blobs(table, keys, buckets)

    return run


def _arguments(step: RowsLocalStep) -> list[tuple[str, ...]]:
    """For each accumulator the columns with its arguments."""
    return [
        tuple(_argument(number, place) for place in range(len(partial.args)))
        for number, partial in enumerate(step.source.partials)
    ]


def _argument(number: int, place: int) -> str:
    return f"$arg{number}_{place}"


def _condition(number: int) -> str:
    return f"$if{number}"
