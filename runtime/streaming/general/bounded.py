"""The general window operator over the rows of a batch, each key's in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampNTZType

from runtime.compute.kernels.columns import int64_column
from runtime.frames.blobs import numbered
from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.names import quoted
from runtime.spec.windows import WINDOW_TIME_LAG_US
from runtime.streaming.general.operator import Emission, GeneralWindowOperator, WindowJob
from runtime.streaming.general.rows import own_key, results_batch

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
    """What a job gives for rows that are all there.

    Rows come to the operator key by key in the order of their times, with the watermark right
    behind them, so that none is late; at the end all windows close. All rows of a key are in the
    memory of one task. Rows without a time are left out.

    Args:
        rows: the rows.
        keys: the key columns, maybe none.
        time: name and type of the time column, `timestamp` or `timestamp_ntz`; None: windows are
            on processing time, which stands at the moment the query starts.
        job: what to do; it has to be something that can be pickled.
        output: the columns of a result.

    Returns:
        The keys, `window_start` and `window_end` as TIMESTAMP_NTZ (NULL for a window without
        bounds), the columns of `output`.
    """
    if time is None:
        timed = rows.withColumn(_NOW, F.current_timestamp())
        timed = timed.withColumn(_TIME, F.expr(wall_clock_us_sql(_NOW, "timestamp"))).drop(_NOW)
    else:
        timed = rows.withColumn(_TIME, F.expr(wall_clock_us_sql(*time)))
    timed = timed.where(F.col(quoted(_TIME)).isNotNull())
    grouped = list(keys)
    if not grouped:
        timed = timed.withColumn(_NO_KEY, F.lit(0))
        grouped = [_NO_KEY]
    bounds = [StructField(name, TimestampNTZType()) for name in ("window_start", "window_end")]
    schema = StructType([*(rows.schema[key] for key in keys), *bounds, *output])
    names = timed.columns
    by = [f"_{names.index(key)}" for key in grouped]
    return numbered(timed).groupBy(*by).applyInArrow(_run(job, len(keys), schema, names), schema)


def _run(
    job: WindowJob, n_keys: int, schema: StructType, names: list[str]
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    target = to_arrow_schema(schema, timezone="UTC")

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        own = own_key(tuple(part.as_py() for part in key)[:n_keys])
        found = list(_emissions(job, own, table.rename_columns(names)))
        return pa.Table.from_batches([results_batch(found, n_keys, target)])

    return run


def _emissions(job: WindowJob, key: Any, table: pa.Table) -> Iterator[Emission]:
    table = table.sort_by(_TIME)
    times_us = int64_column(table, _TIME).tolist()
    inside = [name for name in table.column_names if name not in (_TIME, _NO_KEY)]
    operator = GeneralWindowOperator(job)
    batches = table.select(inside).to_batches(max_chunksize=1024)
    values = (value for batch in batches for value in batch.to_pylist())
    for value, time_us in zip(values, times_us, strict=True):
        if job.is_processing_time:
            yield from operator.on_processing_time(time_us)
        else:
            # a window that ends right here is still open: the row may make a session longer
            yield from operator.on_watermark(time_us - WINDOW_TIME_LAG_US - 1)
        yield from operator.on_row(key, value, time_us)
    yield from operator.on_end()
