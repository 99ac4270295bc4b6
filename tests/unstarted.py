"""A Spark session that must not start, for tests of planning without Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from runtime.errors import SqlwinError
from runtime.spark.on_demand import SparkOnDemand

SETTINGS = {"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "UTC"}


class NeedsSparkError(SqlwinError):
    """Something has started Spark."""


def unstarted_spark() -> SparkSession:
    """A session that raises `NeedsSparkError` when something starts it."""

    def start() -> SparkSession:
        raise NeedsSparkError("Spark has started")

    return SparkOnDemand(start, SETTINGS)
