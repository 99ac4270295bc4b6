"""The SparkContext of this process, and its connection to Java.

Private APIs, checked with PySpark 4.3: `SparkContext._active_spark_context`, `_gateway`, `_jvm` and
`_ensure_initialized`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def active_context() -> SparkContext | None:
    """Return the SparkContext that runs in this process, if any."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def has_java() -> bool:
    """Return whether this process is connected to a JVM."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def connect_to_java() -> None:
    """Connect to the JVM given in the environment, or start one, unless connected."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()


def jvm_process(context: SparkContext) -> int:
    """Return the number of the JVM's process."""
    jvm: Any = context._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())
