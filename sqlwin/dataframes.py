"""Spark DataFrames that raise sqlwin's errors.

A DataFrame computes its rows when a method such as `collect` is called, long after the statement
that created it. PySpark would raise its own exceptions there, with internal markers in the text.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from runtime.errors import SqlwinError
from runtime.spark.errors import is_caused_by_stopped_spark
from runtime.spark.exceptions import spark_or_java_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

# PySpark repeats the error of `toPandas`, including internal text, in a warning
_REPEATED = r"(?s)\s*toPandas attempted Arrow.*can not continue"

# Classes of PySpark that start jobs or create other DataFrames
_WRAPPED = frozenset(
    {
        "DataFrame",
        "DataFrameNaFunctions",
        "DataFrameStatFunctions",
        "DataFrameWriter",
        "DataFrameWriterV2",
        "DataStreamWriter",
        "GroupedData",
        "MergeIntoWriter",
    }
)
# PySpark's errors about wrong arguments of a Python call, passed on unchanged
_MISUSE = (AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
_ERRORS = "_sqlwin_errors"
_PLAIN = "_sqlwin_plain"
_SPECIAL_METHODS = frozenset({"__getitem__", "__dir__", "__repr__"})


class Errors(Protocol):
    """Translator of Spark's errors for one statement."""

    def translate(self, error: BaseException) -> SqlwinError:
        """Translate an error that Spark raised to sqlwin's."""


def translate_errors_of(frame: DataFrame, errors: Errors) -> DataFrame:
    """Return the DataFrame with methods that raise SqlwinError where Spark fails.

    The same applies to DataFrames, groups and writers derived from it.

    Args:
        frame: DataFrame of Spark or Spark Connect. It is not changed.
        errors: Translator for the statement that created the DataFrame.
    """
    return cast("DataFrame", _wrap(plain(frame), errors))


def plain(frame: DataFrame) -> DataFrame:
    """Return the DataFrame inside a translating one, or `frame` if it is not one."""
    return cast("DataFrame", frame.__dict__.get(_PLAIN, frame))


def _wrap(value: Any, errors: Errors) -> Any:
    """Wrap a method's result if its own methods can raise Spark's errors."""
    from pyspark.sql import DataFrame

    if isinstance(value, list) and value and isinstance(value[0], DataFrame):
        return [_wrap(frame, errors) for frame in value]
    if isinstance(value, Iterator):
        return _iterate(value, errors)
    class_: type = type(value)
    if class_.__name__ not in _WRAPPED or not class_.__module__.startswith("pyspark.sql"):
        return value
    if _ERRORS in value.__dict__:
        return value
    wrapped: Any = object.__new__(_translating_class(class_))
    wrapped.__dict__.update(value.__dict__)
    wrapped.__dict__.update({_ERRORS: errors, _PLAIN: value})
    return wrapped


def _iterate(values: Iterator[T], errors: Errors) -> Iterator[T]:
    end = object()
    while (value := _call(errors, next, values, end)) is not end:
        yield cast(T, value)


@functools.cache
def _translating_class(class_: type) -> type:
    """Return a subclass whose public methods and properties translate Spark's errors."""
    namespace: dict[str, Any] = {"__module__": class_.__module__, "__doc__": class_.__doc__}
    for name in dir(class_):
        if name.startswith("_") and name not in _SPECIAL_METHODS:
            continue
        member = getattr(class_, name)
        if isinstance(member, property):
            namespace[name] = property(_translating_method(member.fget), doc=member.__doc__)
        elif callable(member):
            namespace[name] = _translating_method(member)
    return type(class_.__name__, (class_,), namespace)


def _translating_method(method: Callable[..., Any] | None) -> Callable[..., Any]:
    assert method is not None
    name = method.__name__

    @functools.wraps(method)
    def translating(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        errors = self.__dict__[_ERRORS]
        with warnings.catch_warnings() if name == "toPandas" else nullcontext():
            if name == "toPandas":
                warnings.filterwarnings("ignore", _REPEATED, UserWarning)
            value = _call(errors, method, self, *args, **kwargs)
        return _wrap(value, errors)

    return translating


def _is_failure(error: Exception) -> bool:
    """Return whether Spark failed, rather than a Python call having wrong arguments."""
    is_of_spark = isinstance(error, (*spark_or_java_error(), ConnectionError))
    return is_of_spark and not isinstance(error, _MISUSE)


def _call(errors: Errors, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except SqlwinError:
        raise
    except Exception as error:
        if not (_is_failure(error) or is_caused_by_stopped_spark(error)):
            raise
        raise errors.translate(error) from error
