"""Spark's reports of micro-batches, as they come.

Private API, seen in Spark 4.3: `PythonStreamingQueryListener`, and what PySpark wraps it in. Where
one is missing, PySpark reads reports over field by field.
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
    """Add every micro-batch of a run to its history: Spark itself keeps the last hundred reports.

    There is one listener for all sessions and streams, and it keeps no history alive.
    """
    listener = _listeners.get(spark)
    if listener is None:
        listener = _listeners[spark] = _Listener()
        spark.streams.addListener(listener)
    listener.histories[run_id] = history


class _OfProgress:
    """What is called by Spark, and does nothing but at the end of a micro-batch."""

    def onQueryStarted(self, event: Any) -> None:
        """Called by Spark."""

    def onQueryIdle(self, event: Any) -> None:
        """Called by Spark."""

    def onQueryTerminated(self, event: Any) -> None:
        """Called by Spark."""


class _Listener(_OfProgress, StreamingQueryListener):
    """Adds each report to the history of its run."""

    def __init__(self) -> None:
        self.histories: WeakValueDictionary[str, History] = WeakValueDictionary()

    @property
    def _jlistener(self) -> Any:
        """What PySpark gives to Spark, once it is ready to be called."""
        wrapped = unless_missing("reports as one text", lambda: _wrapped(self), None)
        return super()._jlistener if wrapped is None else wrapped

    def onQueryProgress(self, event: Any) -> None:
        """Called by PySpark after each micro-batch."""
        self.take(event.progress)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Add a report."""
        history = self.histories.get(str(progress["runId"]))
        if history is not None:
            history.take(progress)


def _wrapped(listener: _Listener) -> Any:
    """A listener of Spark's that hands reports to one of ours."""
    jvm: Any = SparkContext._jvm
    return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(InJava(listener))


class InJava(_OfProgress):
    """What Spark calls: it takes a report as one text.

    PySpark takes it field by field: some 750 calls to the JVM for each micro-batch.
    """

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    def onQueryProgress(self, event: Any) -> None:
        """Called by Spark after each micro-batch."""
        text = event.progress().json()
        self._listener.take(StreamingQueryProgress.fromJson(json.loads(text)))

    class Java:
        """The interface, for py4j."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()
