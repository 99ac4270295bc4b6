"""Guards around private APIs of Spark: where one is missing, a figure is missing and no query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError

from runtime.logs import append_once

T = TypeVar("T")
U = TypeVar("U")

# What py4j and Python raise for a class or a method that is not there, or takes something else
MISSING = (AttributeError, TypeError, Py4JError)


def unless_missing(what: str, ask: Callable[[], T], otherwise: U) -> T | U:
    """What `ask` finds by private APIs; `otherwise`, and a line in the log, if one is missing.

    Args:
        what: what there is not without them, for the log; it is logged once.
        ask: calls them.
        otherwise: stands in for what it would find.
    """
    try:
        return ask()
    except MISSING as error:
        append_once(what, repr(error))
        return otherwise
