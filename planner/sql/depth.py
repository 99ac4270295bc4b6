"""Python's recursion limit while a statement is parsed and planned."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import Position, SqlSyntaxError

# Enough for chains of thousands of operators and for hundreds of nested parentheses; each takes
# 25 calls in the parser. Even if all calls went through C, this depth fits into the 8 MB
# stack of a thread.
_DEPTH = 8_000

_lock = threading.Lock()
_blocks = 0
_limit_before = 0

# Blanks, comments and quoted texts, then words and signs
_TOKEN = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|(\w+|.)", re.DOTALL
)
_OPENING, _CLOSING = frozenset("([{") | {"CASE"}, frozenset(")]}") | {"END"}
_PREFIXES = frozenset("-+~!") | {"NOT"}


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
            position=deepest_place(sql),
            sql=sql,
            hint="move parts of it into views, or into WITH ... AS (...)",
        ) from error
    finally:
        with _lock:
            _blocks -= 1
            # Do not undo a change of the limit by other code.
            if _blocks == 0 and sys.getrecursionlimit() == max(_limit_before, _DEPTH):
                sys.setrecursionlimit(_limit_before)


def deepest_place(sql: str) -> Position:
    """Return the place of the first word or sign that most others enclose or precede.

    Parentheses, CASE, and signs and NOT before an operand count. The text need not be valid.

    Example:
        >>> deepest_place("SELECT (1 + (2))").offset
        12
    """
    depth = deepest = prefixes = 0
    place: Position | None = None
    for match in _TOKEN.finditer(sql):
        token = (match[1] or "").upper()
        if not token:
            prefixes = prefixes if match[0][0] not in "'\"`" else 0
            continue
        if token in _CLOSING:
            depth = max(depth - 1, 0)
        prefixes = prefixes + 1 if token in _PREFIXES else 0
        if token in _OPENING:
            depth += 1
        # the first sign may stand between two operands
        nested = depth + max(prefixes - 1, 0)
        if place is None or nested > deepest:
            deepest = nested
            place = Position.at(sql, match.start(), len(token))
    return place or Position.at(sql, 0)
