"""Detection of double-quoted strings that equal a column name in scope.

Spark reads double quotes as strings; standard SQL reads them as names. Confusing them returns a
wrong result without an error, so ambiguous text is rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from planner.sql.build import identifier, to_sql
from planner.sql.nodes import position_of
from planner.sql.render import RAW, quote_string
from runtime.errors import AnalysisError

# Clauses in which item names of a SELECT are visible
_SEES_ALIASES = frozenset({"cluster", "distribute", "group", "having", "order", "qualify", "sort"})
_NOT_READ = frozenset({"from_", "hint", "with_"})
_SETTING = "SET 'sqlwin.double-quotes' = 'identifier'"


def is_in_double_quotes(node: exp.Expr) -> bool:
    """Return whether a literal is a double-quoted string."""
    return node.is_string and str(node.meta.get(RAW, "")).startswith('"')


def has_double_quotes(query: exp.Query) -> bool:
    """Return whether a query contains double-quoted text outside its sources."""
    return any(is_in_double_quotes(node) for node, _ in _nodes(query))


def check_names(query: exp.Query, sql: str) -> None:
    """Reject double-quoted text where only a name makes sense, such as `t."k"`.

    Raises:
        AnalysisError: There is such text. Has a source position.
    """
    for node, _ in _nodes(query):
        parent = node.parent
        is_part = isinstance(parent, exp.Dot | exp.Column) or (
            isinstance(parent, exp.Join) and node.arg_key == "using"
        )
        if is_part and is_in_double_quotes(node):
            raise _error(
                f'"{node.name}" in double quotes is a string, but a name is expected here',
                node,
                sql,
                hint=f"use {_quote(node.name)}, or {_SETTING} to read double quotes as names",
            )


def check_texts(query: exp.Query, columns: Collection[str], sql: str) -> None:
    """Reject double-quoted text that equals the name of a column, ignoring case.

    Args:
        query: A SELECT or a set operation.
        columns: Names of its input columns.
        sql: Text of the statement. Empty for the text of a view.

    Raises:
        AnalysisError: There is such text. Has a source position and shows both spellings.
    """
    names = {name.lower(): name for name in columns}
    aliases = {}
    if isinstance(query, exp.Select):
        items = (item.alias for item in query.selects if isinstance(item, exp.Alias))
        aliases = {name.lower(): name for name in items}
    for node, clause in _nodes(query):
        if not is_in_double_quotes(node) or _has_type(node):
            continue
        key = node.name.lower()
        name = names.get(key) or (aliases.get(key) if clause in _SEES_ALIASES else None)
        if name is not None:
            raise double_quotes_error(node, name, sql)


def double_quotes_error(node: exp.Expr, name: str, sql: str) -> AnalysisError:
    """Return the error for a double-quoted string that could be the column `name`."""
    return _error(
        f'"{node.name}" in double quotes is a string, but there is also a column {_quote(name)}',
        node,
        sql,
        hint=f"use {_quote(name)} for the column or {quote_string(node.name)} for the string; "
        f"{_SETTING} (or 'string') gives double quotes one meaning",
    )


def _error(message: str, node: exp.Expr, sql: str, hint: str) -> AnalysisError:
    if not sql:
        return AnalysisError(message, hint=hint)
    return AnalysisError(message, position=position_of(node, sql), sql=sql, hint=hint)


def _nodes(query: exp.Query) -> Iterator[tuple[exp.Expr, str]]:
    """Yield the literals of a query, each with its clause of `query`.

    Includes subqueries in conditions and items, which see the columns of `query`, but not those in
    FROM.
    """
    operands = () if isinstance(query, exp.Select) else ("this", "expression")
    for part in query.iter_expressions():
        clause = str(part.arg_key)
        if clause in _NOT_READ or clause in operands:
            continue
        for node in part.walk(prune=_is_source):
            if isinstance(node, exp.Literal):
                yield node, clause


def _is_source(node: exp.Expr) -> bool:
    is_joined = isinstance(node.parent, exp.Join) and node.arg_key == "this"
    return isinstance(node, exp.From) or is_joined


def _has_type(node: exp.Expr) -> bool:
    """Return whether the literal is part of `INTERVAL "1" DAY` or `DATE "2024-01-31"`."""
    parent = node.parent
    return isinstance(parent, exp.Interval) or (
        isinstance(parent, exp.Cast) and parent.meta.get(RAW) is not None
    )


def _quote(name: str) -> str:
    return to_sql(identifier(name))
