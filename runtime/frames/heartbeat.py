"""A source that triggers micro-batches without input, for operators on processing time.

Spark runs a micro-batch when a source has new data. Its own way to run one without new data,
processing-time timers, has two faults: a query under `availableNow` never ends, because each
micro-batch makes another one due; and only the keys that set a timer are called, so key groups
would not advance in lockstep. So this source has one row in every micro-batch. Processing time
travels with the rows: it is the time at which the micro-batch began. Spark stores it in its
checkpoint, so a repeated micro-batch has the same one.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.frames.reports import SourceReport

# Under `availableNow` the source has a single row, which lets the query end
_OPTIONS = {"rowsPerBatch": "1", "numPartitions": "1", "advanceMillisPerBatch": "0"}
# Option without effect that distinguishes the source from a user's
_MARK = "sqlwin.clock"
# Description of such a source in Spark's reports
_DESCRIPTION = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


def heartbeats(spark: SparkSession) -> DataFrame:
    """Return a streaming DataFrame with one row per micro-batch. Its columns have no meaning."""
    return spark.readStream.format("rate-micro-batch").options(**_OPTIONS, **{_MARK: "true"}).load()


def is_clock(leaf: Any) -> bool:
    """Return whether a leaf of Spark's analysed plan that reads a stream is one of these."""
    # only Spark's second source interface has these options
    is_second = leaf.getClass().getSimpleName() == "StreamingRelationV2"
    return is_second and bool(leaf.extraOptions().containsKey(_MARK))


def is_heartbeat(source: SourceReport) -> bool:
    """Return whether a source in a report is one of these."""
    return source.description == _DESCRIPTION
