"""Spark's errors: their conditions, which PySpark 3.5 calls classes, and their places in SQL.

Private APIs, checked with PySpark 3.5 and 4.3: `_desc`, `_stackTrace` and `_cause` of JVM
exceptions, and in 3.5 their `_origin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.spark.versions.capabilities import ERROR_CONDITIONS, has

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.captured import CapturedException


@dataclass(frozen=True)
class Fragment:
    """Part of the SQL text that an error refers to: Spark's query context."""

    start: int
    stop: int
    text: str


def condition_of(error: PySparkException) -> str | None:
    """Return the condition of an error, such as `DIVIDE_BY_ZERO`, if Spark names one."""
    if has(ERROR_CONDITIONS):
        return error.getCondition()
    return error.getErrorClass()


def raised_message(java_class: str, text: str) -> str | None:
    """Return the message with which the query called RAISE_ERROR, if the error has no condition."""
    is_raised = not has(ERROR_CONDITIONS) and java_class == "java.lang.RuntimeException"
    return text if is_raised else None


def fragments_of(error: PySparkException) -> tuple[Fragment, ...]:
    """Return the parts of the SQL text that an error refers to."""
    if has(ERROR_CONDITIONS):
        # contexts of DataFrame calls refer to lines of Python instead of SQL
        contexts: list[Any] = [
            context
            for context in error.getQueryContext() or []
            if context.contextType().name == "SQL"
        ]
    else:
        contexts = list(_java_contexts(getattr(error, "_origin", None)))
    return tuple(
        Fragment(context.startIndex(), context.stopIndex(), context.fragment())
        for context in contexts
        if context.startIndex() >= 0 and context.fragment()
    )


def text_of(error: PySparkException) -> str:
    """Return the message of an error without its Java stack."""
    return str(_captured(error, "desc") or error)


def stack_of(error: CapturedException) -> str:
    """Return the Java stack that PySpark has fetched with an error."""
    return str(_captured(error, "stackTrace"))


def cause_of(error: CapturedException) -> object:
    """Return the cause that PySpark has fetched with an error."""
    return _captured(error, "cause")


def _captured(error: PySparkException, name: str) -> object:
    """Return a field of an exception of Java, None for an exception of Python."""
    return getattr(error, f"_{name}" if has(ERROR_CONDITIONS) else name, None)


def _java_contexts(thrown: Any) -> Any:
    """Return the contexts of an exception of Java, none if it has none."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if thrown is None or gateway is None:
        return ()
    has_contexts = is_instance_of(gateway, thrown, "org.apache.spark.SparkThrowable")
    return thrown.getQueryContext() if has_contexts else ()
