"""Starting Python workers before the first query needs them."""

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
    """Have Spark start a Python worker for each core, with our imports done, in the background.

    A worker takes a second to come up, and Spark keeps it for the tasks of later jobs. Meanwhile
    the first statement is parsed and planned.

    Returns:
        The thread that waits for the workers; None where they are not on this machine.
    """
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    if context is None or not is_local_mode(spark):
        return None
    cores = context.defaultParallelism

    def start() -> None:
        # The session was closed, or what ails Spark shows in the first statement's own error.
        with suppress(Py4JError, PySparkException, OSError):
            context.setJobDescription("start Python workers")
            rows = spark.range(cores, numPartitions=cores)
            rows.mapInArrow(_with_imports, rows.schema).count()

    thread = threading.Thread(target=start, name="sqlwin-workers", daemon=True)
    thread.start()
    return thread


def _with_imports(batches: Iterator[Any]) -> Iterator[Any]:
    import runtime.batch.global_aggregate
    import runtime.local.arrow_scan  # noqa: F401

    yield from batches
