"""Listener for Spark's reports of micro-batches.

Private API, as of Spark 4.3: `PythonStreamingQueryListener` and PySpark's wrapper for it. Without
either, PySpark transfers reports field by field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from runtime.spark.private import unless_missing
from sqlwin.execution.streams.history import History


def take_reports(spark: SparkSession, run_id: str, history: History) -> None:
    """Add every micro-batch of a run to its history, as Spark keeps only a hundred reports.

    All sessions and streams share one listener, which does not keep histories alive.
    """
    listener = _listeners.get(spark)
    if listener is None:
        listener = _listeners[spark] = _Listener()
        spark.streams.addListener(listener)
    listener.histories[run_id] = history


class _OfProgress:
    """Listener methods that do nothing. Subclasses handle the end of a micro-batch."""

    def onQueryStarted(self, event: Any) -> None:
        """Ignore the event."""

    def onQueryIdle(self, event: Any) -> None:
        """Ignore the event."""

    def onQueryTerminated(self, event: Any) -> None:
        """Ignore the event."""


class _Listener(_OfProgress, StreamingQueryListener):
    """Adds each report to the history of its run."""

    def __init__(self) -> None:
        self.histories: WeakValueDictionary[str, History] = WeakValueDictionary()

    @property
    def _jlistener(self) -> Any:
        """Java object that PySpark registers with Spark."""
        wrapped = unless_missing("reports as one text", lambda: _wrap(self), None)
        return super()._jlistener if wrapped is None else wrapped

    def onQueryProgress(self, event: Any) -> None:
        """Handle the report of a micro-batch."""
        self.take(event.progress)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Add a report."""
        history = self.histories.get(str(progress["runId"]))
        if history is not None:
            history.take(progress)


def _wrap(listener: _Listener) -> Any:
    """Return a Spark listener that passes reports to one of ours."""
    jvm: Any = SparkContext._jvm
    return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(InJava(listener))


class InJava(_OfProgress):
    """Java listener that transfers a report as one text.

    PySpark transfers it field by field, with about 750 calls to the JVM per micro-batch.
    """

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    def onQueryProgress(self, event: Any) -> None:
        """Pass on the report of a micro-batch."""
        text = event.progress().json()
        self._listener.take(StreamingQueryProgress.fromJson(json.loads(text)))

    class Java:
        """Java interface, for py4j."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()
