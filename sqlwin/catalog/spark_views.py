"""State shared by all sqlwin sessions on one Spark session: a lock and temporary views.

Spark resolves names through the temporary views of its session, where sqlwin puts the tables of a
statement under their own names. Therefore only one statement at a time is planned on a Spark
session, across all threads and sqlwin sessions. Jobs run without the lock, because their plans have
already been analysed and no longer refer to names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakValueDictionary

from runtime.spark.on_demand import is_started, when_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Setting that identifies a Spark session, which may have several Python objects
_IDENTITY = "sqlwin.session.identity"


class SparkViews:
    """Lock of a Spark session and owners of its temporary views.

    Context manager that holds the reentrant lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = threading.local()
        # by view name: the owner that created it last
        self._owners: dict[str, object] = {}

    def __enter__(self) -> None:
        """Acquire the lock."""
        self._lock.acquire()
        self._held.depth = self._depth + 1

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._held.depth = self._depth - 1
        self._lock.release()

    @contextmanager
    def release(self) -> Iterator[None]:
        """Release the lock within the block, so that jobs run without it.

        Does nothing in a thread that does not hold the lock.
        """
        depth = self._depth
        self._held.depth = 0
        for _ in range(depth):
            self._lock.release()
        try:
            yield
        finally:
            for _ in range(depth):
                self._lock.acquire()
            self._held.depth = depth

    @property
    def is_held(self) -> bool:
        """Return whether this thread holds the lock."""
        return self._depth > 0

    @property
    def _depth(self) -> int:
        return int(getattr(self._held, "depth", 0))

    def is_of(self, view: str, owner: object) -> bool:
        """Return whether `owner` was the last to create a view."""
        return self._owners.get(view) is owner

    def is_sqlwins(self, view: str) -> bool:
        """Return whether any sqlwin session created a view."""
        return view in self._owners

    def show(self, view: str, owner: object) -> None:
        """Record that `owner` has created a view."""
        self._owners[view] = owner


_of_sessions: WeakValueDictionary[str, SparkViews] = WeakValueDictionary()
_of_sessions_lock = threading.Lock()


def spark_views(spark: SparkSession) -> SparkViews:
    """Return the Spark session's view registry, shared by all callers.

    A session that starts on demand is new, so nothing else uses it yet.
    """
    if is_started(spark):
        return _register(spark, SparkViews())
    views = SparkViews()
    when_started(spark, lambda session: _register(session, views))
    return views


def _register(spark: SparkSession, new: SparkViews) -> SparkViews:
    """Return the registry of a running Spark session, which becomes `new` if it had none."""
    with _of_sessions_lock:
        identity = spark.conf.get(_IDENTITY, None)
        if identity is None:
            identity = uuid4().hex
            spark.conf.set(_IDENTITY, identity)
        return _of_sessions.setdefault(identity, new)
