"""Exceptions of Spark and their causes as plain data.

Uses private APIs, checked with PySpark 4.3: `_origin` of JVM exceptions, and the details of
exceptions about JSON fields. Without them the exception's text is used.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import kind_in_words
from runtime.logs import append_trace
from runtime.spark.messages import condition_in
from runtime.spark.private import unless_missing
from runtime.spark.versions.errors import (
    Fragment,
    cause_of,
    condition_of,
    fragments_of,
    raised_message,
    stack_of,
    text_of,
)

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_MAX_CAUSES = 20
# Exception without text for a JSON value that does not fit the type of its column
_JSON_FIELD = "org.apache.spark.sql.catalyst.util.CannotParseJSONFieldException"


@dataclass(frozen=True)
class Failure:
    """Link of a chain of causes, outermost first, as plain data."""

    text: str
    condition: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fragments: tuple[Fragment, ...] = ()
    java_class: str = ""
    stack: str = ""


def failures_of(error: BaseException) -> list[Failure]:
    """Return an exception and its causes, outermost first."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        if isinstance(error, Py4JJavaError):
            return _java_chain(error.java_exception)
        if isinstance(error, CapturedException) and error._origin is not None:
            return _java_chain(error._origin)
        if isinstance(error, PySparkException):
            return [_failure(error)]
    except Exception as secondary:
        # the JVM that could explain the error may have died
        traces = [*traceback.format_exception(error), *traceback.format_exception(secondary)]
        append_trace("an error could not be explained", "".join(traces))
    return [Failure(str(error) or kind_in_words(error))]


def _java_chain(throwable: object) -> list[Failure]:
    from pyspark.errors.exceptions.captured import CapturedException

    chain: list[Failure] = []
    current = throwable
    while current is not None and len(chain) < _MAX_CAUSES:
        captured = CapturedException(origin=current)
        name = current.getClass().getName()  # type: ignore[attr-defined]  # a py4j object
        failure = _failure(captured, name)
        if name == _JSON_FIELD:
            failure = replace(failure, text=_json_field(current) or failure.text)
        chain.append(failure)
        current = current.getCause()  # type: ignore[attr-defined]  # a py4j object
    return chain


def _json_field(thrown: Any) -> str:
    """Return field, value and expected type of a JSON misfit, or an empty text if unknown."""

    def spark_message() -> str:
        type_ = thrown.dataType().sql()
        return (
            f"field `{thrown.fieldName()}` is {thrown.fieldValue()!r}, which is not a valid {type_}"
        )

    return unless_missing("JSON fields that do not fit are not named in errors", spark_message, "")


def _failure(error: PySparkException, java_class: str = "") -> Failure:
    text = text_of(error)
    condition = condition_of(error) or condition_in(text)
    # not always a dict of Python
    parameters = dict(error.getMessageParameters() or {})
    if condition is None and (raised := raised_message(java_class, text)) is not None:
        condition, parameters = "USER_RAISED_EXCEPTION", {"errorMessage": raised}
    return Failure(
        text=text,
        condition=condition,
        parameters=parameters,
        fragments=fragments_of(error),
        java_class=java_class,
        stack=_stacks(error),
    )


def _stacks(error: BaseException) -> str:
    """Return the Java stacks of an error and its causes, as far as PySpark has fetched them."""
    from pyspark.errors.exceptions.captured import CapturedException

    stacks: list[str] = []
    current: object = error
    while isinstance(current, CapturedException) and len(stacks) < _MAX_CAUSES:
        stacks.append(stack_of(current))
        current = cause_of(current)
    return "\n".join(stacks)
