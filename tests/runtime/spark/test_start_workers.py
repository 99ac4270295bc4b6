"""Python workers are started before the first query."""

from __future__ import annotations

import os
from types import SimpleNamespace

from pyspark.sql import SparkSession

from runtime.spark.start_workers import start_workers
from tests.observing import wait_until


def test_workers_are_reused_by_later_jobs(spark: SparkSession):
    def pids(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([os.getpid()])], names=["id"])

    def running_workers() -> set[int]:
        rows = spark.range(2, numPartitions=2).mapInArrow(pids, "id long").collect()
        return {row.id for row in rows}

    thread = start_workers(spark)
    assert thread is not None
    thread.join()
    assert not thread.is_alive()
    # Spark takes the worker that has been idle longest, so several jobs may come before a repetition
    seen: set[int] = set()

    def repeated_workers() -> set[int]:
        workers = running_workers()
        repeated = workers & seen
        seen.update(workers)
        return repeated

    wait_until(repeated_workers)


def test_a_cluster_and_a_connect_server_start_their_own_workers():
    connected = SimpleNamespace()
    assert start_workers(connected) is None  # type: ignore[arg-type]
