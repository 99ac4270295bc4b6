"""One Spark for processes that come one after another: each attaches to its JVM, and leaves again.

The process that starts the JVM never connects to it, so that it has no threads and can be forked.
What is forked of it attaches: it has a gateway of its own in the JVM, whose objects go away with
it, a Python SparkContext around the running one, and a Spark session that shares nothing with that
of the process before: a catalog, cached tables, temporary views and settings of its own.

Private APIs, seen in PySpark 4.3: `SparkContext._ensure_initialized`, `_gateway` and `_jvm`; the
JVM's `Py4JServer`, the gateway that PySpark itself starts, and `SharedState.statusStore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from runtime.spark.jvm import process
from runtime.spark.private import unless_missing
from runtime.spark.session import built, forget_connection, quiet_python_loggers


class Attached:
    """This process on a JVM that another one has started.

    Args:
        port: the gateway of the JVM.
        secret: what it expects as proof.
        settings: Spark's configuration, as the JVM was started with it.
        is_first: whether Spark itself is to be started.

    Attributes:
        spark: the session; other sessions of this process are beside it.
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
            SparkContext._ensure_initialized()
        if not is_first:
            _wrap_context()
        self.spark: SparkSession = built(settings)

    def begin(self, directory: Path) -> None:
        """Let relative paths in Spark's own SQL start at a directory."""
        java: Any = SparkContext._jvm
        hadoop = java.org.apache.hadoop.fs
        # New file systems start there, and those that Hadoop has opened already are moved
        java.java.lang.System.setProperty("user.dir", str(directory))
        files = hadoop.FileSystem.getLocal(self.spark.sparkContext._jsc.hadoopConfiguration())
        files.setWorkingDirectory(hadoop.Path(java.java.io.File(str(directory)).toURI()))

    def can_change(self, key: str) -> bool:
        """Whether a property of Spark's configuration can be set for a session alone."""
        return self.spark.conf.isModifiable(key)

    def stop_all(self) -> None:
        """Let nothing of this process run on in Spark."""
        # A call that was interrupted is still to be answered on the connection it was made on
        forget_connection(self.spark)
        self.spark.sparkContext.cancelAllJobs()
        for query in self.spark.streams.active:
            query.stop()

    def leave(self) -> None:
        """Let the JVM forget this process."""
        java: Any = SparkContext._jvm
        self.spark.catalog.clearCache()
        unless_missing(
            "a listener of Spark's stays behind each run of the engine", self._forget_listener, None
        )
        java.SparkSession.clearDefaultSession()
        self._server.shutdown()
        self._main.detach(self._server)

    def _forget_listener(self) -> None:
        """Take the listener of the session's SQL tab out: Spark never does."""
        store = self.spark._jsparkSession.sharedState().statusStore()
        if store.listener().isDefined():
            bus = self.spark.sparkContext._jsc.sc().listenerBus()
            bus.removeListener(store.listener().get())


def _wrap_context() -> None:
    """Make PySpark's SparkContext of the one that runs in the JVM."""
    gateway: Any = SparkContext._gateway
    java: Any = SparkContext._jvm
    running = java.org.apache.spark.SparkContext.getOrCreate()
    SparkContext(
        conf=SparkConf(_jconf=running.conf()),
        gateway=gateway,
        jsc=java.JavaSparkContext(running),
    )
    # The next session is to be one with a catalog of its own
    java.SparkSession.clearDefaultSession()
    java.SparkSession.clearActiveSession()
