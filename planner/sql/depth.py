"""Python's recursion limit while a statement is parsed and planned."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import SqlSyntaxError

# Enough for chains of thousands of operators and for hundreds of nested parentheses; each takes
# 25 calls in the parser. Even if all calls went through C, this depth fits into the 8 MB
# stack of a thread.
_DEPTH = 8_000

_lock = threading.Lock()
_blocks = 0
_limit_before = 0


class TooDeepError(SqlSyntaxError):
    """A statement is nested too deeply to be parsed or planned."""


@contextmanager
def deep_trees(sql: str) -> Iterator[None]:
    """Raise the recursion limit within a block. Blocks may be nested and run in threads.

    Args:
        sql: Text of the statement.

    Raises:
        TooDeepError: A tree exceeds even the raised limit.
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
            hint="move parts of it into views, or into WITH ... AS (...)",
        ) from error
    finally:
        with _lock:
            _blocks -= 1
            # Do not undo a change of the limit by other code.
            if _blocks == 0 and sys.getrecursionlimit() == max(_limit_before, _DEPTH):
                sys.setrecursionlimit(_limit_before)
