"""Bounds of gap filling, and keys that may have no rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from planner.binder.fill.fillers import constant_of
from planner.binder.relations import Relations, Scope
from planner.nodes.logical import Node
from planner.sql.build import (
    alias,
    cast_as,
    column,
    relation,
    select_all_from,
    union_all,
)
from planner.sql.nodes import error_at
from planner.streams.tables import streams_of
from runtime.shown_types import shown_type
from runtime.spec.filling import GapFilling
from runtime.spec.table import Column

# INTERVAL YEAR, MONTH or YEAR TO MONTH, on any level of a type
_MONTHS = re.compile(r"interval (year|month)")


def bounds_us(
    between: tuple[exp.Expr | None, exp.Expr | None], sql: str, zone: str
) -> tuple[int | None, int | None]:
    """Return FROM and TO in microseconds on the wall clock of the windows.

    Args:
        between: FROM and TO, as written.
        sql: Text of the statement.
        zone: Session time zone.

    Raises:
        AnalysisError: One is not a constant time, or FROM is after TO.
    """
    bounds: list[int | None] = []
    for word, bound in zip(("FROM", "TO"), between, strict=True):
        constant = None if bound is None else constant_of(bound, "timestamp_ntz", zone)
        if bound is not None and (constant is None or not isinstance(constant.value, int)):
            raise error_at(
                sql,
                f"{word} of FILL must be a constant time",
                bound,
                hint="for example TIMESTAMP '2026-01-31 10:00:00'",
            )
        bounds.append(None if constant is None else int(constant.value))  # type: ignore[arg-type]
    from_us, to_us = bounds
    if from_us is not None and to_us is not None and from_us > to_us:
        raise error_at(
            sql,
            "FROM of FILL is after TO",
            between[0],
            hint="FROM is where the first window starts, TO is where the last one ends",
        )
    return from_us, to_us


def check_filled_types(
    keys: Sequence[str], schema: Iterable[Column], place: exp.Expr, sql: str
) -> None:
    """Refuse keys with a map, whose entries have no order, and intervals of months.

    Args:
        keys: Names of the keys.
        schema: All columns of the rows to fill.
        place: Clause or call, for error positions.
        sql: Text of the statement.

    Raises:
        AnalysisError: A column has such a type, or contains one.
    """
    for column_ in schema:
        if _MONTHS.search(column_.type):
            raise error_at(
                sql,
                f"FILL does not support column `{column_.name}` of type {shown_type(column_.type)}",
                place,
                hint="leave the column out, or use the number of its months",
            )
        if column_.name in keys and "map<" in column_.type:
            raise error_at(
                sql,
                f"a key of FILL cannot be `{column_.name}`, because it has type "
                f"{shown_type(column_.type)}",
                place,
                hint="use MAP_ENTRIES, an array of the entries, as the key",
            )


def with_declared_keys(
    node: Node,
    filling: GapFilling,
    keys: exp.Expr | None,
    relations: Relations,
    scope: Scope,
    bind: Callable[[exp.Query, Scope], Node],
) -> Node:
    """Return the rows to fill, with a row without a window for each declared key.

    Without keys, one such row ensures that the only key exists even without rows. A stream has no
    such rows: its keys begin with their first row.

    Args:
        node: Rows with the columns of `filling`.
        filling: Windows, keys and bounds.
        keys: The query of KEYS, an `exp.Subquery`.
        relations: Placeholders of the query.
        scope: CTEs in scope.
        bind: Binds a query to a node.

    Raises:
        AnalysisError: KEYS has other columns than the keys, or a bound is missing.
    """
    has_bounds = filling.from_us is not None and filling.to_us is not None
    values: dict[str, exp.Expr] = {}
    declared = None
    if keys is not None:
        if not has_bounds:
            raise error_at(
                relations.sql,
                "KEYS of FILL needs FROM and TO",
                keys,
                hint="a key without rows has no first and last window: add FROM and TO",
            )
        declared = bind(keys.this.copy(), scope)
        if len(declared.schema) != len(filling.keys):
            raise error_at(
                relations.sql,
                "KEYS of FILL must have one column for each key",
                keys,
                hint=f"keys: {', '.join(filling.keys)}" if filling.keys else "remove KEYS",
            )
        types = {c.name: c.type for c in node.schema}
        for key, own in zip(filling.keys, declared.schema, strict=True):
            value = column(own.name)
            values[key] = value if own.type == types[key] else cast_as(value, types[key])
    elif filling.keys or not has_bounds or streams_of(node, relations.catalog):
        return node
    items = [alias(values.get(c.name, cast_as(exp.Null(), c.type)), c.name) for c in node.schema]
    every = select_all_from(relation(relations.placeholder(node)))
    added = exp.Select(expressions=items)
    if declared is not None:
        added = relations.select(items, declared)
    return relations.sql_query(union_all([every, added]), scope, node.schema)
