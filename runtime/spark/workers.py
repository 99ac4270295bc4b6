"""What is set up in a Python worker of Spark before it computes."""

from __future__ import annotations

import gc
import resource
import sys

import pyarrow as pa

# Grouping and merging take about ten times what they work on for a moment, beside what is loaded
_PART_OF_LIMIT = 32
_n_modules_frozen = 0


def prepare_worker() -> None:
    """To be called where a function begins that a worker runs, once its modules are loaded.

    Arrow computes on one thread, for Spark's tasks are what runs in parallel. And what modules have
    made is taken out of the garbage collector's sight: Spark's daemon collects after every task,
    which takes 40 ms where pandas and Arrow are loaded, more than a task of a small micro-batch.
    """
    global _n_modules_frozen
    pa.set_cpu_count(1)
    if len(sys.modules) != _n_modules_frozen:
        # garbage that is there already would never be seen again
        gc.collect()
        gc.freeze()
        _n_modules_frozen = len(sys.modules)


def fitting_bytes(most_bytes: int) -> int:
    """As much of so many bytes as a worker may work on at a time.

    Where its memory is limited (`spark.executor.pyspark.memory`, which Spark sets as the limit of
    the process's addresses) that is a small part of it: what is loaded takes a third of 1 GB.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes == resource.RLIM_INFINITY:
        return most_bytes
    return min(most_bytes, limit_bytes // _PART_OF_LIMIT)
