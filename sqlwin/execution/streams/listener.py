"""What Spark reports of micro-batches, added up for each stream."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from runtime.streaming.status import Tally


def tally_batches(spark: SparkSession, run_id: str, tally: Tally) -> None:
    """Add every micro-batch of a run to its tally: Spark itself keeps the last hundred reports.

    Spark reads a whole report over to Python for each listener, which takes milliseconds; so there
    is one for all sessions and streams.

    Args:
        spark: the session that the stream runs in.
        run_id: Spark's name of the run.
        tally: what is added to, for as long as somebody holds it.
    """
    listener = _listeners.get(spark)
    if listener is None:
        listener = _listeners[spark] = _Listener()
        spark.streams.addListener(listener)
    listener.tallies[run_id] = tally


class _Listener(StreamingQueryListener):
    def __init__(self) -> None:
        self.tallies: WeakValueDictionary[str, Tally] = WeakValueDictionary()

    def onQueryStarted(self, event: Any) -> None:
        """Called by Spark."""

    def onQueryProgress(self, event: Any) -> None:
        """Called by Spark after each micro-batch."""
        tally = self.tallies.get(str(event.progress.runId))
        if tally is not None:
            tally.take(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        """Called by Spark."""

    def onQueryTerminated(self, event: Any) -> None:
        """Called by Spark."""


_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()
