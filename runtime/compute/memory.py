"""Giving memory back: what allocators keep for later is memory that a worker is seen to hold."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa


def release_memory() -> None:
    """Hand memory that NumPy and Arrow have freed back to the operating system.

    Each of them keeps what it has freed for itself alone, and NumPy's holes lie between arrays that
    are still in use. It takes some milliseconds, and what is then allocated is paged in anew: for
    moments in which much has been freed, not for every batch.
    """
    _trim_heap()()
    pa.default_memory_pool().release_unused()


@cache
def _trim_heap() -> Callable[[], Any]:
    """The malloc_trim of glibc, which frees whole pages inside of the heap too; else no work."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda: None
    return lambda: trim(0)
