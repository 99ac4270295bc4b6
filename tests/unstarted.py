"""A Spark session that must not start, for tests of planning without Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from runtime.errors import SqlwinError
from runtime.spark.defaults import OF_EACH_SESSION
from runtime.spark.on_demand import SparkOnDemand

SETTINGS = {
    **OF_EACH_SESSION,
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.session.timeZone": "UTC",
}


class NeedsSparkError(SqlwinError):
    """A test has started Spark."""


def unstarted_spark() -> SparkSession:
    """Return a session that raises `NeedsSparkError` when it is started."""

    def start() -> SparkSession:
        raise NeedsSparkError("Spark has started")

    return SparkOnDemand(start, SETTINGS)
