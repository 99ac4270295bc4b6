"""What is set up in a Python worker of Spark before it computes."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from functools import cache

import pyarrow as pa

# Grouping and merging take about ten times what they work on for a moment, beside what is loaded
_PART_OF_LIMIT = 32
_n_modules_frozen = 0
# Options of glibc's mallopt. Arrays up to the first size are taken from the heap, and so much may
# lie free at its end: NumPy's arrays of a million rows are freed and taken again all the time.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_FROM_HEAP_BYTES = 32 << 20
_MOST_FREE_BYTES = 64 << 20


def prepare_worker() -> None:
    """To be called where a function begins that a worker runs, once its modules are loaded.

    Arrow computes on one thread, for Spark's tasks are what runs in parallel. And what modules have
    made is taken out of the garbage collector's sight: Spark's daemon collects after every task,
    which takes 40 ms where pandas and Arrow are loaded, more than a task of a small micro-batch.
    Memory that is freed is kept for what comes next: pages that the system has to give anew cost
    more than the arithmetic on them.
    """
    global _n_modules_frozen
    pa.set_cpu_count(1)
    _keep_freed_memory()
    if len(sys.modules) != _n_modules_frozen:
        # garbage that is there already would never be seen again
        gc.collect()
        gc.freeze()
        _n_modules_frozen = len(sys.modules)


@cache
def _keep_freed_memory() -> None:
    """Set this once for the process; other systems' allocators than glibc's stay as they are."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _MOST_FREE_BYTES)


def fitting_bytes(most_bytes: int) -> int:
    """As much of so many bytes as a worker may work on at a time.

    Where its memory is limited (`spark.executor.pyspark.memory`, which Spark sets as the limit of
    the process's addresses) that is a small part of it: what is loaded takes a third of 1 GB.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes == resource.RLIM_INFINITY:
        return most_bytes
    return min(most_bytes, limit_bytes // _PART_OF_LIMIT)
