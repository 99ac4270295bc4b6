"""Setup of a Python worker of Spark before it computes."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from functools import cache

import pyarrow as pa

# Grouping and merging briefly need ten times the memory of their input, besides loaded modules
_PART_OF_LIMIT = 32
_n_modules_frozen = 0
# Options of glibc's mallopt. Arrays up to the first size come from the heap, and up to the second
# size may stay free at its end, because NumPy allocates and frees arrays of a million rows all the
# time.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAX_FROM_HEAP_BYTES = 32 << 20
_MAX_FREE_BYTES = 64 << 20


def prepare_worker() -> None:
    """Prepare the process. Call this first in a function that a worker runs, after its imports.

    Arrow is limited to one thread because Spark's tasks provide the parallelism. Objects of loaded
    modules are hidden from the garbage collector: Spark's daemon collects after every task, which
    takes 40 ms with pandas and Arrow loaded, more than a task of a small micro-batch. Freed memory
    is kept, because getting new pages from the system costs more than computing on them.
    """
    global _n_modules_frozen
    pa.set_cpu_count(1)
    _keep_freed_memory()
    if len(sys.modules) != _n_modules_frozen:
        # frozen garbage would never be collected
        gc.collect()
        gc.freeze()
        _n_modules_frozen = len(sys.modules)


@cache
def _keep_freed_memory() -> None:
    """Configure the allocator once per process. Allocators other than glibc's are left alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _MAX_FROM_HEAP_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _MAX_FREE_BYTES)


def fitting_bytes(most_bytes: int) -> int:
    """Return how many of `most_bytes` a worker may process at a time.

    If `spark.executor.pyspark.memory` limits its memory (Spark sets it as the limit of the
    process's address space), that is a small part of it, because loaded modules take a third of 1
    GB.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes == resource.RLIM_INFINITY:
        return most_bytes
    return min(most_bytes, limit_bytes // _PART_OF_LIMIT)
