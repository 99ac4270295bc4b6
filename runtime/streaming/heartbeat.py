"""What lets an operator on processing time be called when no rows come.

Spark runs a micro-batch when a source has something new. Its own means to run one without, timers
of processing time, has two faults: with them a query under `availableNow` never ends, since a
further micro-batch is due after each; and they wake those keys alone that set one, so that key
groups would not advance in lockstep. So a source of our own has one row in every micro-batch, and
processing time goes with the rows: it is the time at which the micro-batch began, which is in
Spark's checkpoint, and the same when the micro-batch is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

# Under `availableNow` it has one row in all, and so lets the query end.
_OPTIONS = {"rowsPerBatch": "1", "numPartitions": "1", "advanceMillisPerBatch": "0"}
# How Spark's progress describes such a source
_DESCRIPTION = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


def heartbeats(spark: SparkSession) -> DataFrame:
    """A streaming DataFrame that has one row in every micro-batch; its columns say nothing."""
    return spark.readStream.format("rate-micro-batch").options(**_OPTIONS).load()


def is_heartbeat(source: Mapping[str, Any]) -> bool:
    """Whether a source in a progress of Spark's is one of these."""
    return bool(source.get("description") == _DESCRIPTION)
