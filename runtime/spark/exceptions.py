"""Exception classes of PySpark and py4j, for `except` clauses.

Python evaluates an `except` clause only when an exception arrives, so a module that names these
functions there does not import PySpark, which takes as long as a small query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


def spark_error() -> type[PySparkException]:
    """Return the class of errors that Spark reports."""
    from pyspark.errors import PySparkException

    return PySparkException


def java_error() -> type[Exception]:
    """Return the class of errors of calls to Java, such as a lost connection."""
    from py4j.protocol import Py4JError

    error: type[Exception] = Py4JError
    return error


def spark_or_java_error() -> tuple[type[Exception], type[PySparkException]]:
    """Return the classes of all errors that a call to Spark can raise."""
    return java_error(), spark_error()
