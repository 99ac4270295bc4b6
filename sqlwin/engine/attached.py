"""Attach a process to a running JVM with Spark, and detach it again.

The process that starts the JVM never connects to it, so it has no threads and can be forked. Its
forks attach one after another. Each has its own gateway in the JVM, whose objects disappear with
it, a Python SparkContext that wraps the running one, and a Spark session with its own catalog,
cached tables, temporary views and settings.

Private APIs, as of PySpark 4.3: `SparkContext._gateway` and `_jvm`; the JVM's `Py4JServer`, the
gateway that PySpark itself starts, and `SharedState.statusStore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from runtime.spark.context import connect_to_java
from runtime.spark.jvm import process
from runtime.spark.private import unless_missing
from runtime.spark.session import build, forget_connection, quiet_python_loggers


class Attached:
    """Connection of this process to a JVM that another process started.

    Args:
        port: Port of the JVM's gateway.
        secret: Authentication secret of the gateway.
        settings: Spark configuration that the JVM was started with.
        is_first: Whether to start Spark in the JVM.

    Attributes:
        spark: Main Spark session of this process.
    """

    def __init__(
        self, port: int, secret: str, settings: Mapping[str, str], *, is_first: bool
    ) -> None:
        quiet_python_loggers()
        process.leave_to_parent()
        self._main: Any = ClientServer(
            java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        spark_package = self._main.jvm.org.apache.spark
        self._server = spark_package.api.python.Py4JServer(spark_package.SparkConf())
        self._server.start()
        with process.connecting_to(self._server.getListeningPort(), self._server.secret()):
            connect_to_java()
        if not is_first:
            _wrap_context()
        self.spark: SparkSession = build(settings)

    def begin(self, directory: Path) -> None:
        """Resolve relative paths in Spark's own SQL against a directory."""
        java: Any = SparkContext._jvm
        hadoop = java.org.apache.hadoop.fs
        # Apply it to new file systems and to those that Hadoop has already opened.
        java.java.lang.System.setProperty("user.dir", str(directory))
        files = hadoop.FileSystem.getLocal(self.spark.sparkContext._jsc.hadoopConfiguration())
        files.setWorkingDirectory(hadoop.Path(java.java.io.File(str(directory)).toURI()))

    def can_change(self, key: str) -> bool:
        """Return whether a Spark property can be set for a single session."""
        return self.spark.conf.isModifiable(key)

    def stop_all(self) -> None:
        """Stop all jobs and streams of this process in Spark."""
        # The connection may still be waiting for an interrupted call's answer.
        forget_connection(self.spark)
        self.spark.sparkContext.cancelAllJobs()
        for query in self.spark.streams.active:
            query.stop()

    def leave(self) -> None:
        """Remove the state of this process from the JVM."""
        java: Any = SparkContext._jvm
        self.spark.catalog.clearCache()
        unless_missing(
            "a Spark listener remains after each run of the engine", self._forget_listener, None
        )
        java.SparkSession.clearDefaultSession()
        self._server.shutdown()
        self._main.detach(self._server)

    def _forget_listener(self) -> None:
        """Remove the listener of the session's SQL tab, because Spark never removes it."""
        store = self.spark._jsparkSession.sharedState().statusStore()
        if store.listener().isDefined():
            bus = self.spark.sparkContext._jsc.sc().listenerBus()
            bus.removeListener(store.listener().get())


def _wrap_context() -> None:
    """Wrap the SparkContext that runs in the JVM in PySpark's SparkContext."""
    gateway: Any = SparkContext._gateway
    java: Any = SparkContext._jvm
    running = java.org.apache.spark.SparkContext.getOrCreate()
    SparkContext(
        conf=SparkConf(_jconf=running.conf()),
        gateway=gateway,
        jsc=java.JavaSparkContext(running),
    )
    # Make the next session a new one with its own catalog
    java.SparkSession.clearDefaultSession()
    java.SparkSession.clearActiveSession()
