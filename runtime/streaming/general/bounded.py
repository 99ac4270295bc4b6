"""Run the general window operator over a bounded DataFrame, each key in order of event time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampNTZType

from runtime.compute.kernels.conversions import int64_column
from runtime.frames.blobs import number_columns
from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.names import quote_name
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.streaming.general.operator import Emission, GeneralWindowOperator, WindowJob
from runtime.streaming.general.rows import function_key, results_batch
from runtime.windows.times import WINDOW_TIME_LAG_US

_TIME = "$time_us"
_NOW = "$now"
_NO_KEY = "$all"


def general_windows(
    rows: DataFrame,
    keys: Sequence[str],
    time: tuple[str, str] | None,
    job: WindowJob,
    output: StructType,
) -> DataFrame:
    """Run a window job over a bounded DataFrame.

    The operator processes rows key by key in order of their times, with the watermark right behind
    each row, so no row is late. All windows close at the end. All rows of a key are in the memory
    of one task. Rows whose time is NULL are dropped.

    Args:
        rows: Input rows.
        keys: Key columns. May be empty.
        time: Name and type (`timestamp` or `timestamp_ntz`) of the time column. None means windows
            on processing time, which stands still at the start of the query.
        job: Window job. It must be picklable.
        output: Columns of a result.

    Returns:
        The keys, `window_start` and `window_end` as TIMESTAMP_NTZ (NULL for a window without
        bounds), and the columns of `output`.
    """
    if time is None:
        timed = rows.withColumn(_NOW, F.current_timestamp())
        timed = timed.withColumn(_TIME, F.expr(wall_clock_us_sql(_NOW, "timestamp"))).drop(_NOW)
    else:
        timed = rows.withColumn(_TIME, F.expr(wall_clock_us_sql(*time)))
    timed = timed.where(F.col(quote_name(_TIME)).isNotNull())
    grouped = list(keys)
    if not grouped:
        timed = timed.withColumn(_NO_KEY, F.lit(0))
        grouped = [_NO_KEY]
    bounds = [StructField(name, TimestampNTZType()) for name in ("window_start", "window_end")]
    schema = StructType([*(rows.schema[key] for key in keys), *bounds, *output])
    names = timed.columns
    by = [f"_{names.index(key)}" for key in grouped]
    return (
        number_columns(timed).groupBy(*by).applyInArrow(_run(job, len(keys), schema, names), schema)
    )


def _run(
    job: WindowJob, n_keys: int, schema: StructType, names: list[str]
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    target = to_arrow_schema(schema)

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        key_value = function_key(tuple(part.as_py() for part in key)[:n_keys])
        emissions = list(_emissions(job, key_value, table.rename_columns(names)))
        return pa.Table.from_batches([results_batch(emissions, n_keys, target)])

    return run


def _emissions(job: WindowJob, key: Any, table: pa.Table) -> Iterator[Emission]:
    table = table.sort_by(_TIME)
    times_us = int64_column(table, _TIME).tolist()
    value_columns = [name for name in table.column_names if name not in (_TIME, _NO_KEY)]
    operator = GeneralWindowOperator(job)
    batches = table.select(value_columns).to_batches(max_chunksize=1024)
    values = (value for batch in batches for value in batch.to_pylist())
    for value, time_us in zip(values, times_us, strict=True):
        if job.is_processing_time:
            yield from operator.on_processing_time(time_us)
        else:
            # stop before this time: the row may extend a session that ends exactly here
            yield from operator.on_watermark(time_us - WINDOW_TIME_LAG_US - 1)
        yield from operator.on_row(key, value, time_us)
    yield from operator.on_end()
