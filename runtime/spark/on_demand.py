"""A Spark session that starts on first use.

Planning needs little from Spark, and most of it is known before Spark runs: its settings, and the
meaning of local paths. `runtime.spark.settings` and `runtime.spark.files` answer them for a session
that has not started. Everything else starts it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from runtime.errors import SqlwinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    _Session = SparkSession
else:
    _Session = object

# Held while Spark is started or stopped, or its number of users changes
spark_lock = threading.RLock()
# Whether this thread must not start Spark
_refusal = threading.local()
# Attributes that do not start Spark
_OWN = frozenset({"_demand"})


class _Demand:
    """State of a session that starts on demand.

    Attributes:
        is_chosen: Whether the user has named the Spark to start.
        start: Function that starts Spark.
        settings: Spark settings that the session will start with.
        changes: Settings that have changed since.
        session: Session once it has started.
        actions: Actions to run when it starts.
        waiting: Context in which it starts, such as a progress bar.
    """

    def __init__(
        self, start: Callable[[], SparkSession], settings: Mapping[str, str], *, is_chosen: bool
    ) -> None:
        self.is_chosen = is_chosen
        self.start = start
        self.settings = settings
        self.changes: dict[str, str] = {}
        self.session: SparkSession | None = None
        self.actions: list[Callable[[SparkSession], object]] = []
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext


class SparkOnDemand(_Session):
    """A session that starts when an attribute of it is first read, in the thread that reads it.

    `isinstance` takes it for a `SparkSession`. It does not inherit from it, because importing
    PySpark takes as long as a small query.

    Args:
        start: Function that starts Spark and returns its session.
        settings: Spark settings that it starts with.
        is_chosen: Whether the user has named the Spark to start.
    """

    def __init__(
        self,
        start: Callable[[], SparkSession],
        settings: Mapping[str, str],
        *,
        is_chosen: bool = False,
    ) -> None:
        self._demand = _Demand(start, settings, is_chosen=is_chosen)

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute of the session, which starts unless the attribute is special."""
        if name == "__class__":
            from pyspark.sql import SparkSession

            return SparkSession
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
            return object.__getattribute__(self, name)
        return getattr(start_spark(self), name)


def is_started(spark: SparkSession) -> bool:
    """Return whether a session runs. Sessions that are not on demand always do."""
    return not isinstance(spark, SparkOnDemand) or spark._demand.session is not None


def is_chosen(spark: SparkSession) -> bool:
    """Return whether the user has passed a session, or named the Spark to start."""
    return not isinstance(spark, SparkOnDemand) or spark._demand.is_chosen


def settings_at_start(spark: SparkSession) -> Mapping[str, str] | None:
    """Return the settings that a session will start with. None if it has started."""
    if isinstance(spark, SparkOnDemand) and spark._demand.session is None:
        return {**spark._demand.settings, **spark._demand.changes}
    return None


def change_at_start(spark: SparkSession, key: str, value: str | None) -> None:
    """Change a setting of a session that has not started; None: back to the value at its start."""
    assert isinstance(spark, SparkOnDemand), "other sessions have started"
    spark._demand.changes.pop(key, None)
    if value is not None:
        spark._demand.changes[key] = value


def start_spark(spark: SparkSession) -> SparkSession:
    """Return the running session, starting it if needed.

    Raises:
        SetupError: Spark cannot be started. The next call tries again.
        NotStartedError: Within `without_start`.
    """
    if not isinstance(spark, SparkOnDemand):
        return spark
    demand = spark._demand
    if demand.session is not None:
        return demand.session
    if getattr(_refusal, "is_set", False):
        raise NotStartedError("Spark is needed, but has not started")
    with spark_lock:
        if demand.session is None:
            with demand.waiting():
                session = _start(demand.start)
            actions, demand.actions = demand.actions, []
            demand.session = session
            for key, value in demand.changes.items():
                session.conf.set(key, value)
            for action in actions:
                action(session)
        return demand.session


class NotStartedError(SqlwinError):
    """Error when work that must not start Spark needs it."""


@contextmanager
def without_start() -> Iterator[None]:
    """Within the block, make this thread fail instead of starting Spark."""
    _refusal.is_set = True
    try:
        yield
    finally:
        _refusal.is_set = False


def when_started(spark: SparkSession, action: Callable[[SparkSession], object]) -> None:
    """Call an action with the session once it has started, or now if it has."""
    if isinstance(spark, SparkOnDemand):
        with spark_lock:
            if spark._demand.session is None:
                spark._demand.actions.append(action)
                return
    action(start_spark(spark))


def show_start(spark: SparkSession, waiting: Callable[[], AbstractContextManager[None]]) -> None:
    """Let a session start within a context, such as a progress bar, if it has not started."""
    if isinstance(spark, SparkOnDemand):
        spark._demand.waiting = waiting


def _start(start: Callable[[], SparkSession]) -> SparkSession:
    """Start Spark and restore the program's handler of Ctrl-C, which PySpark replaces."""
    if threading.current_thread() is not threading.main_thread():
        return start()
    handler = signal.getsignal(signal.SIGINT)
    try:
        return start()
    finally:
        signal.signal(signal.SIGINT, handler)
