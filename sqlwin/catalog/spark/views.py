"""Temporary views through which Spark sees the tables of sqlwin's sessions, and their lock.

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

from planner.catalog import Schema
from runtime.names import quote_name
from runtime.spark.errors import translate
from runtime.spark.exceptions import spark_error
from runtime.spark.files import check_streams
from runtime.spark.on_demand import is_started, when_started
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Name, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    @contextmanager
    def hold(self, *, waits: bool) -> Iterator[bool]:
        """Hold the lock within the block, and yield whether it is held.

        Without waiting it is not held if another thread holds it.
        """
        if not self._lock.acquire(blocking=waits):
            yield False
            return
        try:
            with self:
                yield True
        finally:
            self._lock.release()

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


class StatementViews:
    """Temporary views of one session for the tables of the current statement.

    Creating a view starts Spark. A table whose columns are certain without Spark gets its view
    later, if Spark runs the statement.

    Args:
        spark: Spark session.
        shared: Views of all sessions on the Spark session.
    """

    def __init__(self, spark: SparkSession, shared: SparkViews) -> None:
        self._spark = spark
        self._shared = shared
        self._shown: dict[Name, DataFrame] = {}
        self._not_shown: dict[Name, tuple[TableSpec, Schema]] = {}

    def start_statement(self) -> None:
        """Forget the views of the last statement. The next one creates them again."""
        self._shown.clear()
        self._not_shown.clear()

    def forget(self, key: Name) -> None:
        """Forget the view of a table that has changed."""
        self._shown.pop(key, None)
        self._not_shown.pop(key, None)

    def drop(self, view: str) -> None:
        """Drop a temporary view, if it exists."""
        if is_started(self._spark):
            self._spark.catalog.dropTempView(view)

    def rows(self, view: str) -> DataFrame:
        """Return the rows of a view of this statement, which do not depend on the view."""
        return next(rows for key, rows in self._shown.items() if view_name(key) == view)

    def show(self, key: Name, dataframe: DataFrame, *, is_stream: bool) -> None:
        """Create the view of a table over its rows.

        Raises:
            SqlwinError: A Spark Connect server cannot read the table, which it opens only now.
        """
        view = view_name(key)
        try:
            dataframe.createOrReplaceTempView(quote_name(view))
        except spark_error() as error:
            if not is_remote(self._spark):
                raise
            if is_stream:
                check_streams(self._spark)
            raise translate(error) from error
        self._shared.show(view, self)
        self._shown[key] = dataframe
        self._not_shown.pop(key, None)

    def show_later(self, key: Name, spec: TableSpec, columns: Schema) -> None:
        """Record a table with certain columns, whose view Spark may need later."""
        self._not_shown[key] = spec, columns

    def is_recorded(self, key: Name) -> bool:
        """Return whether the statement has read a table, with or without a view."""
        return key in self._shown or key in self._not_shown

    def is_shown(self, key: Name) -> bool:
        """Return whether Spark's view of a name is this session's, of this statement."""
        return key in self._shown and self._shared.is_of(view_name(key), self)

    @property
    def without_view(self) -> dict[Name, tuple[TableSpec, Schema]]:
        """Copy of the tables that have no view yet, with their columns."""
        return dict(self._not_shown)

    def columns(self, view: str) -> Schema | None:
        """Return the columns of a table or view of this statement, given Spark's name for it."""
        for key, (_, columns) in self._not_shown.items():
            if view_name(key) == view.lower():
                return columns
        for key, dataframe in self._shown.items():
            if view_name(key) == view.lower() and self.is_shown(key):
                return columns_of(dataframe.schema)
        return None


def view_name(key: Name) -> str:
    """Return the one-part name of a table's temporary view."""
    return "__".join(key)
