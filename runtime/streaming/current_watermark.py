"""The watermark that Spark keeps for a stream, for CURRENT_WATERMARK.

Spark takes the highest time of all rows so far and writes it to its offset log before the next
micro-batch runs, so a repeated micro-batch has the same one. In PySpark 4.3, the second line of
`offsets/N` has `batchWatermarkMs`: milliseconds since 1970, or 0 without a watermark.

Rows that a query filters out count too: Spark moves filters below a watermark, but not below a
metric.
"""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.files import Files
from runtime.frames.job_properties import current_watermark_us
from runtime.frames.user_functions import register_scalar
from runtime.names import quote_name
from runtime.plan.streams import WatermarkedRowsStep
from runtime.spec.stream import CURRENT_WATERMARK

_TIME = "$watermark_time"
_METRIC = "sqlwin-watermark"
# Spark's watermarks are never before 1970, so shift them by 10,000 years: the days of 25 cycles of
# 400 years.
_AHEAD_US = 25 * 146_097 * 86_400 * 1_000_000


def with_watermark(rows: DataFrame, step: WatermarkedRowsStep) -> DataFrame:
    """Let Spark keep the watermark of a step's rows. The rows stay the same.

    Spark SQL over the result may call CURRENT_WATERMARK.
    """
    register_scalar(rows.sparkSession, CURRENT_WATERMARK, _watermarks, "bigint")
    # a row without a time counts as the lowest: Spark would treat its watermark as 1970
    time_us = f"COALESCE({step.watermark_us} + {_AHEAD_US}, 0)"
    timed = rows.withColumn(_TIME, F.expr(f"TIMESTAMP_MICROS(GREATEST({time_us}, 0))"))
    marked = timed.withWatermark(quote_name(_TIME), "0 seconds")
    return marked.observe(_METRIC, F.lit(1).alias("one")).drop(_TIME)


def watermark_before(files: Files, checkpoint: str, batch: int) -> int | None:
    """Return the watermark in microseconds before a planned micro-batch; None without one.

    Args:
        files: File system of the checkpoint.
        checkpoint: Spark's part of the checkpoint.
        batch: Number of the micro-batch.
    """
    lines = files.read_text(f"{checkpoint}/offsets/{batch}").splitlines()
    ahead_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    return ahead_ms * 1_000 - _AHEAD_US if ahead_ms > 0 else None


def _watermarks(times: pa.Array) -> pa.Array:
    """Return the watermark before this task's micro-batch, once for each row."""
    return pa.repeat(pa.scalar(current_watermark_us(), pa.int64()), len(times))
