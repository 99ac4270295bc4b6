"""What the sessions of sqlwin on one Spark session have in common: a lock, and temporary views.

Spark analyses SQL by the temporary views of its session, and sqlwin puts the tables of a statement
there under their own names. So one statement at a time is planned on a Spark session, whichever
thread or session of sqlwin it comes from. Jobs run without the lock: rows are read by plans that
are analysed already, and no longer by names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

# A setting that identifies a Spark session: there may be several objects in Python for one
_IDENTITY = "sqlwin.session.identity"


class SparkViews:
    """The lock of a Spark session, and who made the temporary views in it.

    A context manager that holds the lock; a thread may enter it again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = threading.local()
        # by the name of a view, who has shown it last
        self._owners: dict[str, object] = {}

    def __enter__(self) -> None:
        """Wait for the lock and hold it."""
        self._lock.acquire()
        self._held.depth = self._depth + 1

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self._held.depth = self._depth - 1
        self._lock.release()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Let other threads have the lock in this block, in which jobs run.

        Nothing happens in a thread that does not hold it.
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
    def _depth(self) -> int:
        return int(getattr(self._held, "depth", 0))

    def is_of(self, view: str, owner: object) -> bool:
        """Whether it was `owner` who has shown a view last."""
        return self._owners.get(view) is owner

    def is_sqlwins(self, view: str) -> bool:
        """Whether a view was shown by any session of sqlwin."""
        return view in self._owners

    def show(self, view: str, owner: object) -> None:
        """Note that `owner` shows a view from now on."""
        self._owners[view] = owner


_of_sessions: WeakValueDictionary[str, SparkViews] = WeakValueDictionary()
_of_sessions_lock = threading.Lock()


def spark_views(spark: SparkSession) -> SparkViews:
    """Those of a Spark session, the same for everybody who asks."""
    with _of_sessions_lock:
        identity = spark.conf.get(_IDENTITY, None)
        if identity is None:
            identity = uuid4().hex
            spark.conf.set(_IDENTITY, identity)
        found = _of_sessions.get(identity)
        if found is None:
            found = _of_sessions[identity] = SparkViews()
        return found
