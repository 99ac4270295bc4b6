"""The watermark of a stream that Spark keeps, for CURRENT_WATERMARK.

Spark takes the highest time of all rows so far, and writes it to its log of offsets before the next
micro-batch runs, so that it is the same when that runs again. As PySpark 4.3 was seen to write it,
the second line of `offsets/N` has `batchWatermarkMs`: milliseconds since 1970, or 0 if there is no
watermark yet.

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
from runtime.names import quoted
from runtime.spec.stream import CURRENT_WATERMARK
from runtime.spec.stream_steps import WatermarkedRowsStep

_TIME = "$watermark_time"
_METRIC = "sqlwin-watermark"
# Spark's watermarks are never before 1970. Here they are ahead by 10,000 years, which are days of
# 25 cycles of 400 years.
_AHEAD_US = 25 * 146_097 * 86_400 * 1_000_000


def with_watermark(rows: DataFrame, step: WatermarkedRowsStep) -> DataFrame:
    """Let Spark keep the watermark of the rows of a step; they stay the same.

    Spark SQL over the result may call CURRENT_WATERMARK.
    """
    register_scalar(rows.sparkSession, CURRENT_WATERMARK, _watermarks, "bigint")
    # a row without a time counts as the lowest: Spark would take its watermark for that of 1970
    time_us = f"COALESCE({step.watermark_us} + {_AHEAD_US}, 0)"
    timed = rows.withColumn(_TIME, F.expr(f"TIMESTAMP_MICROS(GREATEST({time_us}, 0))"))
    marked = timed.withWatermark(quoted(_TIME), "0 seconds")
    return marked.observe(_METRIC, F.lit(1).alias("one")).drop(_TIME)


def watermark_before(files: Files, checkpoint: str, batch: int) -> int | None:
    """Return the watermark in microseconds before a planned micro-batch. None: none yet.

    Args:
        files: the file system of the checkpoint.
        checkpoint: Spark's part of it.
        batch: the number of the micro-batch.
    """
    lines = files.read_text(f"{checkpoint}/offsets/{batch}").splitlines()
    ahead_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    return ahead_ms * 1_000 - _AHEAD_US if ahead_ms > 0 else None


def _watermarks(times: pa.Array) -> pa.Array:
    """Return the watermark before the micro-batch of this task, once for each row."""
    return pa.repeat(pa.scalar(current_watermark_us(), pa.int64()), len(times))
