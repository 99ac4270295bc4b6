"""How deep trees may be: Python's limit on recursion while a statement is read and planned."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import SqlSyntaxError

# Enough for chains of thousands of operators, and for parentheses some hundred deep, each of which
# takes the parser 25 calls. As deep, even calls that all went through C would fit into a stack of
# 8 MB, which threads have.
_DEPTH = 8_000

_lock = threading.Lock()
_blocks = 0
_limit_before = 0


class TooDeepError(SqlSyntaxError):
    """A statement is nested more deeply than can be read or planned."""


@contextmanager
def deep_trees(sql: str) -> Iterator[None]:
    """A block that may recurse over deep trees; blocks may stand in each other and in threads.

    Args:
        sql: the statement's text.

    Raises:
        TooDeepError: a tree is too deep all the same.
    """
    global _blocks, _limit_before
    with _lock:
        if _blocks == 0:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit_before, _DEPTH))
        _blocks += 1
    try:
        yield
    except RecursionError as error:
        raise TooDeepError(
            "the statement is nested too deeply",
            sql=sql,
            hint="give parts of it names: CREATE VIEW, or WITH ... AS (...)",
        ) from error
    finally:
        with _lock:
            _blocks -= 1
            # unless it has been set by somebody else meanwhile
            if _blocks == 0 and sys.getrecursionlimit() == max(_limit_before, _DEPTH):
                sys.setrecursionlimit(_limit_before)
