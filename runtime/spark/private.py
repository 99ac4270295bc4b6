"""Guards around private Spark APIs: without one, a figure is missing but queries work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from runtime.logs import append_once
from runtime.spark.exceptions import java_error

T = TypeVar("T")
U = TypeVar("U")


def missing_api_errors() -> tuple[type[AttributeError], type[TypeError], type[Exception]]:
    """Return what py4j and Python raise for missing classes and methods, or other parameters."""
    return AttributeError, TypeError, java_error()


def unless_missing(what: str, ask: Callable[[], T], otherwise: U) -> T | U:
    """Return the result of `ask`, which uses private APIs, or `otherwise` if one is missing.

    Args:
        what: Consequence of the missing API, logged once.
        ask: Calls the APIs.
        otherwise: Substitute for the result.
    """
    try:
        return ask()
    except missing_api_errors() as error:
        append_once(what, repr(error))
        return otherwise
