"""Guards around private Spark APIs: without one, a figure is missing but queries still work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError

from runtime.logs import append_once

T = TypeVar("T")
U = TypeVar("U")

# Raised by py4j and Python for missing classes and methods, or different parameters
MISSING = (AttributeError, TypeError, Py4JError)


def unless_missing(what: str, ask: Callable[[], T], otherwise: U) -> T | U:
    """Return the result of `ask`, which uses private APIs, or `otherwise` if one is missing.

    Args:
        what: Consequence of the missing API, logged once.
        ask: Calls the APIs.
        otherwise: Substitute for the result.
    """
    try:
        return ask()
    except MISSING as error:
        append_once(what, repr(error))
        return otherwise
