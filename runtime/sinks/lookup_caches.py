"""Caches of the bounded tables that a stream is joined with.

A cached table is a persisted DataFrame, which Spark's executors hold in memory, or on disk if it
does not fit. Spark plans each micro-batch anew and reads the persisted rows. When they expire they
are released, and the next micro-batch reads the table again. So a quiet stream does not read it.

Spark plans a micro-batch before it calls sqlwin. Rows can therefore only be released between two
micro-batches: at the end of one, and by a thread while none runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.compute.wall_clock import instants_us, wall_clock_us
from runtime.names import quote_name
from runtime.spark.jvm.file_indexes import list_files_again
from runtime.spec.table import PeriodicReload, Reload, TimedReload

_DAY_US = 86_400_000_000
# Maximum seconds between two looks at the clock
_POLL_SECONDS = 1.0


def now_us() -> int:
    """Return the time of the machine in microseconds since 1970."""
    return time.time_ns() // 1_000


def next_time_us(reload: TimedReload, after_us: int, zone: str) -> int:
    """Return the first time of a schedule after `after_us`, in microseconds since 1970.

    A time that a zone skips is at the end of the gap; one that it repeats is the earlier one.

    Args:
        reload: Schedule.
        after_us: Exclusive lower bound.
        zone: Time zone of a schedule without a zone.
    """
    at = reload.at
    of_day_us = ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond
    offset = at.utcoffset()
    shift_us = 0 if offset is None else round(offset.total_seconds() * 1_000_000)
    used_zone = zone if offset is None else "UTC"
    local_us = int(wall_clock_us(np.array([after_us]), used_zone)[0]) + shift_us
    day_us = local_us - local_us % _DAY_US
    while True:
        local = day_us + of_day_us - shift_us
        instant = int(instants_us(np.array([local]), used_zone)[0])
        if instant > after_us:
            return instant
        day_us += _DAY_US


@dataclass
class _Cache:
    """Cached rows of one table.

    Attributes:
        rows: Persisted rows.
        reload: When they expire.
        due_us: Time at which they expire. None: they have not been read yet.
    """

    rows: DataFrame
    reload: Reload
    due_us: int | None = None


@dataclass
class LookupCaches:
    """Caches of a stream's tables. Empty for most streams.

    Attributes:
        zone: Time zone of the session.
    """

    zone: str
    _caches: list[_Cache] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __bool__(self) -> bool:
        """Return whether a table is cached."""
        return bool(self._caches)

    def add(self, rows: DataFrame, reload: Reload) -> DataFrame:
        """Return the rows of a table, which are kept once they have been read."""
        # A column of its own keeps Spark from using these rows for other queries of the table.
        names = [F.col(quote_name(name)) for name in rows.columns]
        marked = rows.withColumn("__sqlwin_cache", F.lit(uuid4().hex))
        cached = marked.select(*names).persist()
        due_us = None
        if isinstance(reload, TimedReload):
            due_us = next_time_us(reload, now_us(), self.zone)
        self._caches.append(_Cache(cached, reload, due_us))
        return cached

    @contextmanager
    def shown_by_views(self, tables: Mapping[str, tuple[DataFrame, Reload]]) -> Iterator[None]:
        """Let temporary views read caches of their tables while a stream is made of them.

        Args:
            tables: Rows of the tables by the names of their views, and when they are read again.
                The DataFrames do not read the views: Spark releases the caches of a view that is
                replaced.
        """
        try:
            for view, (rows, reload) in tables.items():
                self.add(rows, reload).createOrReplaceTempView(quote_name(view))
            yield
        finally:
            for view, (rows, _) in tables.items():
                rows.createOrReplaceTempView(quote_name(view))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Wrap the work on a micro-batch that Spark has planned: it reads tables without rows."""
        with self._lock:
            for cache in self._caches:
                if isinstance(cache.reload, PeriodicReload) and cache.due_us is None:
                    cache.due_us = now_us() + cache.reload.interval_us
        yield
        self.release_expired()

    def release_expired(self) -> None:
        """Release the rows that have expired. No micro-batch may run."""
        with self._lock:
            now = now_us()
            for cache in self._caches:
                if cache.due_us is None or now < cache.due_us:
                    continue
                cache.rows.unpersist()
                list_files_again(cache.rows)
                cache.rows.persist()
                cache.due_us = _next_due_us(cache.reload, cache.due_us, now, self.zone)

    def follow(self, is_active: Callable[[], bool], runs_batch: Callable[[], bool]) -> None:
        """Release expired rows while the stream waits, in a thread that ends with the stream.

        Args:
            is_active: Returns whether the stream runs.
            runs_batch: Returns whether a micro-batch runs.
        """

        def release_while_active() -> None:
            while is_active():
                if not runs_batch():
                    self.release_expired()
                time.sleep(self._seconds_to_wait())
            self.release_all()

        if self:
            threading.Thread(target=release_while_active, name="lookup", daemon=True).start()

    def _seconds_to_wait(self) -> float:
        with self._lock:
            due = [cache.due_us for cache in self._caches if cache.due_us is not None]
        remaining = (min(due) - now_us()) / 1_000_000 if due else _POLL_SECONDS
        return min(max(remaining, 0.01), _POLL_SECONDS)

    def release_all(self) -> None:
        """Release all rows."""
        with self._lock:
            for cache in self._caches:
                cache.rows.unpersist()
            self._caches.clear()


def _next_due_us(reload: Reload, due_us: int, now: int, zone: str) -> int | None:
    if isinstance(reload, PeriodicReload):
        return None
    while due_us <= now:
        due_us = next_time_us(reload, due_us + (reload.days - 1) * _DAY_US, zone)
    return due_us
