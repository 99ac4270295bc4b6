"""Start Python workers before the first query needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runtime.spark.session import is_local_mode

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["start_workers"]


def start_workers(spark: SparkSession) -> threading.Thread | None:
    """Start a Python worker per core in the background, with sqlwin's modules imported.

    A worker takes a second to start, and Spark keeps it for the tasks of later jobs. Meanwhile the
    first statement is parsed and planned.

    Returns:
        Thread that waits for the workers. None if they run elsewhere.
    """
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    if context is None or not is_local_mode(spark):
        return None
    cores = context.defaultParallelism

    def start() -> None:
        # the session was closed, or the first statement will report the problem with Spark
        with suppress(Py4JError, PySparkException, OSError):
            context.setJobDescription("start Python workers")
            rows = spark.range(cores, numPartitions=cores)
            rows.mapInArrow(_import_first, rows.schema).count()

    thread = threading.Thread(target=start, name="sqlwin-workers", daemon=True)
    thread.start()
    return thread


def _import_first(batches: Iterator[Any]) -> Iterator[Any]:
    import runtime.engines.spark_batch.global_aggregate
    import runtime.local.arrow_scan  # noqa: F401

    yield from batches
