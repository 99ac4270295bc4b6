"""Find a column that does not exist, without Spark's analyser.

Anything uncertain is left to Spark, as in `output_schema`: a column that this module calls unknown
is unknown to Spark, which would suggest the same columns instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.scope import Scope, traverse_scope

from planner.catalog import Schema
from planner.sql.build import item_name
from planner.sql.nodes import TextSpan, span_of

# Constructs that introduce names which no relation has
_NAMING = (
    exp.Lambda,
    exp.Lateral,
    exp.Unnest,
    exp.Pivot,
    exp.Values,
    exp.TableAlias,
    exp.Cluster,
    exp.Distribute,
    exp.Sort,
)
# Clauses that see other columns than FROM has
_AFTER_FROM = (exp.Order, exp.Having, exp.Qualify, exp.Window)
# Functions without parentheses, and words that are not columns
_WORDS = re.compile(
    r"current_\w+|user|session_user|localtime\w*|grouping__id|_metadata|all|default|interval"
    r"|(micro|milli|nano)?seconds?|minutes?|hours?|days?|dayofyear|weeks?|months?|quarters?|years?",
    re.I,
)
_PLAIN = re.compile(r"[a-zA-Z_]\w*")
# Number of columns that Spark suggests
_MAX_SUGGESTIONS = 5


@dataclass(frozen=True)
class UnknownColumn:
    """A column that does not exist.

    Attributes:
        name: Its name as in Spark's error: quoted, with a qualifier if the query has one.
        suggestions: Quoted names of existing columns, the most similar first.
        span: Its first place in the text of the query; None if unknown.
    """

    name: str
    suggestions: tuple[str, ...]
    span: TextSpan | None


class _UncertainError(Exception):
    """Only Spark can tell whether all columns exist."""


def unknown_column(query: exp.Query, relations: Mapping[str, Schema]) -> UnknownColumn | None:
    """Return the only column of a query that certainly does not exist, or None.

    Args:
        query: Spark SQL.
        relations: Columns of all its tables by lower-case name.
    """
    try:
        unknown = list(_unknown_columns(query, relations))
    except (_UncertainError, OptimizeError):
        # sqlglot's scopes refuse two sources of one name, such as subqueries without an alias
        return None
    return unknown[0] if len({column.name.lower() for column in unknown}) == 1 else None


def _unknown_columns(query: exp.Query, relations: Mapping[str, Schema]) -> Iterator[UnknownColumn]:
    for node in query.find_all(*_NAMING):
        _require(isinstance(node, exp.TableAlias) and not node.columns)
    for scope in traverse_scope(query):
        select = scope.expression
        if not isinstance(select, exp.Select):
            continue
        visible = _visible(scope, relations)
        aliases = {item.alias.lower() for item in select.expressions if item.alias}
        for column in select.find_all(exp.Column):
            if column.find_ancestor(exp.Select) is not select or column.name.lower() in aliases:
                continue
            if not _exists(column, visible):
                _require(column.find_ancestor(*_AFTER_FROM, exp.Select) is select)
                _require(len(select.args.get("joins") or ()) < 2)
                by_source = _columns_by_source(scope, relations)
                yield _suggest(
                    column,
                    [(source, name) for source, names in by_source.items() for name in names],
                )


def _require(is_certain: bool) -> None:
    if not is_certain:
        raise _UncertainError


def _visible(scope: Scope, relations: Mapping[str, Schema]) -> dict[str, list[str]]:
    """Return the visible columns of a scope by source, including outer queries."""
    outer = _visible(scope.parent, relations) if scope.is_subquery and scope.parent else {}
    return {**outer, **_columns_by_source(scope, relations)}


def _columns_by_source(scope: Scope, relations: Mapping[str, Schema]) -> dict[str, list[str]]:
    return {
        name.lower(): _columns_of(source, relations)
        for name, (_, source) in scope.selected_sources.items()
    }


def _columns_of(source: exp.Expr | Scope, relations: Mapping[str, Schema]) -> list[str]:
    """Return the names of a source's columns."""
    if isinstance(source, exp.Table):
        _require(not source.db and source.name.lower() in relations)
        return [column.name for column in relations[source.name.lower()]]
    assert isinstance(source, Scope)
    query = source.expression
    if isinstance(query, exp.SetOperation):
        _require("*" not in query.named_selects)
        return list(query.named_selects)
    _require(isinstance(query, exp.Select))
    names: list[str] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            _require(not any(item.args.values()) and not query.args.get("joins"))
            for columns in _columns_by_source(source, relations).values():
                names += columns
        else:
            _require(item_name(item) not in ("", "*"))
            names.append(item_name(item))
    return names


def _exists(column: exp.Column, visible: Mapping[str, list[str]]) -> bool:
    """Return whether a column exists, or a struct column exists that may have it as a field."""
    _require(len(column.parts) <= 2 and _WORDS.fullmatch(column.name) is None)
    _require(not isinstance(column.this, exp.Star) and not isinstance(column.parent, exp.Dot))
    every = {name.lower() for columns in visible.values() for name in columns}
    qualifier = column.table.lower()
    if not qualifier:
        return column.name.lower() in every
    if qualifier in every:
        return True
    _require(qualifier in visible)
    return column.name.lower() in {name.lower() for name in visible[qualifier]}


def _suggest(column: exp.Column, existing: list[tuple[str, str]]) -> UnknownColumn:
    """Return an unknown column with suggestions, ordered as by Spark's StringUtils."""
    name = [part.name for part in column.parts]
    has_one_table = len({table for table, _ in existing}) == 1
    in_order = sorted(existing, key=lambda pair: pair[1])
    listed = [_quoted(pair[1:] if len(name) == 1 and has_one_table else pair) for pair in in_order]
    written = ".".join(part if _PLAIN.fullmatch(part) else _quoted([part]) for part in name)
    listed.sort(key=lambda text: _distance(text, written))
    return UnknownColumn(_quoted(name), tuple(listed[:_MAX_SUGGESTIONS]), span_of(column))


def _quoted(parts: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _distance(a: str, b: str) -> int:
    """Return the edit distance of two texts (Levenshtein, 1966)."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]
