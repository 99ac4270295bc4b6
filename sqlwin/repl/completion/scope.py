"""Scope of the query at the cursor: its tables, WITH queries and subqueries, with columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlwin.repl.completion.tokens import Typed, level_from, open_brackets
from sqlwin.repl.completion.words import WINDOW_FUNCTIONS

RELATION_STARTS = ("FROM", "JOIN")
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES")
_AFTER_TABLE = frozenset(
    """
    WHERE GROUP FILL HAVING ORDER LIMIT JOIN ASOF MATCH_CONDITION FOR LEFT RIGHT FULL INNER CROSS
    NATURAL SEMI ANTI ON USING UNION EXCEPT INTERSECT WINDOW TABLESAMPLE LATERAL PIVOT QUALIFY
    CLUSTER DISTRIBUTE SORT
    """.split()
)
# Words that end a SELECT list
_LIST_ENDS = frozenset("FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT ;".split())

Tables = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Derived:
    """A query in a table position.

    Attributes:
        name: Alias, or a name that cannot be typed if there is none.
        columns: Names in its SELECT list.
        tables: Tables that `*` in that list refers to. Empty without `*`.
        windowed: Whether `*` includes window columns.
    """

    name: str
    columns: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    windowed: bool = False


@dataclass(frozen=True)
class Scope:
    """Tables that a query reads.

    Attributes:
        tables: Alias (or name) and name of each table, WITH query or subquery.
        windowed: Whether it reads through a window function.
        derived: Queries among `tables`, and the queries that these read.
    """

    tables: Tables = ()
    windowed: bool = False
    derived: tuple[Derived, ...] = ()


def scope_at(tokens: list[Typed], following: Iterable[Typed]) -> Scope:
    """Return the scope of the innermost query at the cursor.

    Args:
        tokens: Tokens of the statement before the cursor.
        following: Tokens after the cursor.
    """
    every = [*tokens, *following]
    start = 0
    for bracket in reversed(open_brackets(tokens)):
        if bracket + 1 < len(every) and every[bracket + 1].word in _QUERY_STARTS:
            start = bracket + 1
            break
    end = _end_of(every, start - 1) if start else len(every)
    # by lower-case name, including queries that these read
    derived: dict[str, Derived] = {}
    for name, bracket in with_queries(every):
        _derive(every[bracket + 1 : _end_of(every, bracket)], name, derived)
    tables, windowed = _query(every[start:end], "", derived)
    return Scope(tables, windowed, tuple(derived.values()))


def with_queries(tokens: list[Typed]) -> Iterator[tuple[str, int]]:
    """Yield the name of each WITH query, and the position of its opening bracket."""
    if not any(token.word == "WITH" for token in tokens):
        return
    for i in range(2, len(tokens) - 1):
        if (
            tokens[i].word == "AS"
            and tokens[i + 1].word == "("
            and tokens[i - 1].kind == "name"
            and tokens[i - 2].word in ("WITH", ",", "RECURSIVE")
        ):
            yield tokens[i - 1].value, i + 1


def _derive(tokens: list[Typed], name: str, derived: dict[str, Derived]) -> None:
    tables, windowed = _query(tokens, name, derived)
    columns, has_star = _select_list(tokens)
    read = tuple(table for _, table in tables) if has_star else ()
    derived[name.lower()] = Derived(name, columns, read, windowed and has_star)


def _query(tokens: list[Typed], name: str, derived: dict[str, Derived]) -> tuple[Tables, bool]:
    """Return the tables of a query and whether it is windowed. Add its subqueries to `derived`."""
    tables: list[tuple[str, str]] = []
    windowed = False
    # alias of the window function being read, and the position of its end
    called_call, call_end = "", 0
    i = 0
    while i < len(tokens):
        token = tokens[i]
        before = tokens[i - 1].word if i else ""
        if before in RELATION_STARTS and token.word in ("TABLE", *WINDOW_FUNCTIONS):
            call_end = _end_of(tokens, i + 1)
            called_call = _alias(tokens, call_end + 1)
        of_call = called_call if i < call_end else ""
        if token.word == "(" and i + 1 < len(tokens) and tokens[i + 1].word in _QUERY_STARTS:
            end = _end_of(tokens, i)
            reads = before in RELATION_STARTS or is_data(tokens, i)
            if reads:
                alias = _alias(tokens, end + 1) if before in RELATION_STARTS else of_call
                called = alias or f"{name}({len(tables)})"
                _derive(tokens[i + 1 : end], called, derived)
                tables.append((called, called))
            i = end + 1
            continue
        if token.word in WINDOW_FUNCTIONS and i + 1 < len(tokens) and tokens[i + 1].word == "(":
            windowed = True
        is_relation = before in RELATION_STARTS
        if (is_relation or before == "TABLE" or is_data(tokens, i)) and names_table(tokens, i):
            full, end = dotted(tokens, i)
            alias = (_alias(tokens, end) if is_relation else of_call) or full.split(".")[-1]
            tables.append((alias, full))
        i += 1
    return tuple(dict.fromkeys(tables)), windowed


def names_table(tokens: list[Typed], i: int) -> bool:
    """Return whether a name or a string at `i`, where a relation may be, is a table or a file."""
    word = tokens[i].word
    is_name = tokens[i].kind == "name" and word not in ("TABLE", "LATERAL", *WINDOW_FUNCTIONS)
    return is_name or tokens[i].kind == "string"


def is_data(tokens: list[Typed], i: int) -> bool:
    """Return whether the first argument of a window function is at `i`, `HOP((SELECT ...`."""
    return i >= 2 and tokens[i - 1].word == "(" and tokens[i - 2].word in WINDOW_FUNCTIONS


def _alias(tokens: list[Typed], i: int) -> str:
    """Return the alias at `i`, or an empty string."""
    if i < len(tokens) and tokens[i].word == "AS":
        i += 1
    if i < len(tokens) and tokens[i].kind == "name" and tokens[i].word not in _AFTER_TABLE:
        return tokens[i].value
    return ""


def _select_list(tokens: list[Typed]) -> tuple[tuple[str, ...], bool]:
    """Return the output names of a SELECT list, and whether it contains `*`."""
    level = level_from(tokens, 0)
    start = next((i + 1 for i, token in enumerate(level) if token.word == "SELECT"), len(level))
    names: list[str] = []
    has_star = False
    last: Typed | None = None
    for token in [*level[start:], Typed("symbol", ";", 0)]:
        if token.word != "," and token.word not in _LIST_ENDS:
            last = token
            continue
        if last is not None and last.kind == "name" and last.word != "END":
            names.append(last.value)
        has_star = has_star or (last is not None and last.word == "*")
        if token.word != ",":
            break
        last = None
    return tuple(dict.fromkeys(names)), has_star


def _end_of(tokens: Sequence[Typed], bracket: int) -> int:
    """Return the position of the matching closing bracket, or the end."""
    depth = 0
    for i in range(bracket, len(tokens)):
        depth += (tokens[i].word == "(") - (tokens[i].word == ")")
        if depth == 0:
            return i
    return len(tokens)


def dotted(tokens: list[Typed], i: int) -> tuple[str, int]:
    """Return the table at `i`, and the position after it.

    A table is a dotted name, or the path of files in single quotes.
    """
    if tokens[i].kind == "string":
        return f"'{tokens[i].value}'", i + 1
    parts = [tokens[i].value]
    i += 1
    while i + 1 < len(tokens) and tokens[i].word == "." and tokens[i + 1].kind == "name":
        parts.append(tokens[i + 1].value)
        i += 2
    return ".".join(parts), i
