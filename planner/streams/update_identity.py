"""Columns that identify the rows that a stream updates.

With early firing or allowed lateness, a window operator emits one row per key and window, and later
replaces it. A table that is updated by PRIMARY KEY must have a key that distinguishes these rows;
otherwise the rows of two windows would overwrite each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlglot import exp

from planner.nodes.logical import (
    Filter,
    Node,
    Project,
    ResultChanges,
    SqlQuery,
    WindowDeduplicate,
    WindowRank,
)
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    StreamRank,
)
from planner.sql.build import (
    bare_column,
    item_name,
    star_leaves_out,
)
from planner.streams.distinct_texts import column_of_text
from planner.streams.ranked_rows import ranking
from runtime.spec.sink import IdentityColumn


def update_identity(plan: Node) -> tuple[IdentityColumn, ...] | None:
    """Return the columns that identify the updated rows of a plan.

    Returns:
        One element per grouping key, and one for the window; for a Top-N, these of its
        rows. None if the plan is not a projection or filter of a single window aggregation or of a
        Top-N over it, so that the columns are unknown.
    """
    traced = _origins(plan)
    if traced is None:
        return None
    base, origins = traced
    if not isinstance(base, GlobalWindowAggregate):
        return _identity_of_rank(base, origins)
    aggregate = base
    if isinstance(aggregate, StreamRank):
        return _identity_of_first_rows(aggregate, origins)
    columns: _Equal = [(key, (key,)) for key in aggregate.keys]
    # Growing windows share their start, so only the end distinguishes them.
    is_growing = aggregate.window.grows
    roles = ("end", "time") if is_growing else ("end", "start", "time")
    names = {key.role: key.name for key in aggregate.window_keys}
    window = tuple(names[role] for role in roles if role in names)
    if window:
        columns.append((window[0], window))
    return _identity(columns, origins)


def _identity_of_first_rows(
    node: StreamRank, origins: list[str | None]
) -> tuple[IdentityColumn, ...]:
    """Return the columns that identify the first rows of each key.

    ROW_NUMBER can take the place of the other columns, and a single row needs neither. Of ranked
    results, the other columns are those that identify a result.
    """
    first = node.first
    columns: _Equal = [(key, (key,)) for key in first.by]
    if (first.function, first.last) != ("ROW_NUMBER", 1):
        by_rank = (node.schema[-1].name,) if first.function == "ROW_NUMBER" else ()
        others = _identity_of_ranked(node) or [(key, (key,)) for key in node.keys]
        columns += [
            (name, (*equals, *by_rank)) for name, equals in others if not {*equals} & {*first.by}
        ]
    return _identity(columns, origins)


def _identity_of_ranked(node: StreamRank) -> _Equal | None:
    """Return the keys of first rows that identify a row, or None if not all of these are keys."""
    exchange = node.input
    assert isinstance(exchange, Exchange) and isinstance(exchange.input, LocalWindowAggregate)
    rows = exchange.input.input
    identity = update_identity(rows)
    if identity is None:
        return None
    keys = {bare_column(key.expr): key.name for key in exchange.input.keys}
    columns: _Equal = []
    for part in identity:
        names = (rows.schema[place].name for place in part.positions)
        equals = tuple(keys[name] for name in names if name in keys)
        if not equals:
            return None
        columns.append((equals[0], equals))
    return columns


# Names of columns, each with the columns that are equal to it
_Equal: TypeAlias = list[tuple[str, tuple[str, ...]]]


def _identity(columns: _Equal, origins: list[str | None]) -> tuple[IdentityColumn, ...]:
    return tuple(
        IdentityColumn(name, tuple(i for i, origin in enumerate(origins) if origin in equals))
        for name, equals in columns
    )


def updated_aggregate(node: Node) -> GlobalWindowAggregate | None:
    """Return the aggregation that a node filters and projects. None if it does more."""
    traced = _origins(node)
    base = None if traced is None else traced[0]
    return base if isinstance(base, GlobalWindowAggregate) else None


def ranked_keys(node: WindowRank | WindowDeduplicate) -> tuple[str, ...]:
    """Return the grouping keys that are among the keys of a rank; empty if one is computed.

    Rows that are ranked together have equal values of these keys.
    """
    traced = _origins(node.input)
    if traced is None or not isinstance(traced[0], GlobalWindowAggregate):
        return ()
    names = [column.name for column in node.input.schema]
    origins = dict(zip(names, traced[1], strict=True))
    keys = (origins.get(name) for name in node.partition_by)
    return tuple(key for key in keys if key in traced[0].keys)


def _identity_of_rank(
    node: WindowRank | WindowDeduplicate, origins: list[str | None]
) -> tuple[IdentityColumn, ...] | None:
    """Return the columns that identify the rows of a Top-N.

    These are the window, the keys of PARTITION BY and the other grouping keys. ROW_NUMBER can take
    the place of the latter, and a single row needs neither.
    """
    aggregate = updated_aggregate(node.input)
    traced = _origins(node.input)
    if aggregate is None or traced is None:
        return None
    below = dict(zip((column.name for column in node.input.schema), traced[1], strict=True))
    roles = {key.name: key.role for key in aggregate.window_keys}
    is_growing = aggregate.window.grows
    window = tuple(
        name
        for name in node.window_columns
        if not (is_growing and roles.get(below.get(name) or "") == "start")
    )
    columns: _Equal = [(name, (name,)) for name in node.partition_by]
    columns.append((window[-1], window))
    function, first, last, _ = ranking(node)
    if function != "ROW_NUMBER" or first < last:
        by_rank = (node.rank_column,) if function == "ROW_NUMBER" else ()
        partition = {below.get(name) for name in node.partition_by}
        for key in aggregate.keys:
            if key not in partition:
                same = tuple(name for name, origin in below.items() if origin == key)
                columns.append((same[0] if same else key, (*same, *by_rank)))
    return _identity(columns, origins)


_Base: TypeAlias = GlobalWindowAggregate | WindowRank | WindowDeduplicate


def _origins(node: Node) -> tuple[_Base, list[str | None]] | None:
    """Return the aggregation or Top-N below a node, and the origin of each output column in it."""
    if isinstance(node, _Base):
        return node, [column.name for column in node.schema]
    match node:
        case Filter():
            return _origins(node.input)
        case Project() | ResultChanges():
            below = node.input
        case SqlQuery() if len(node.relations) == 1 and isinstance(node.query, exp.Select):
            below = node.relations[0][1]
        case _:
            return None
    traced = _origins(below)
    if traced is None:
        return None
    base, origins_below = traced
    names = [column.name.lower() for column in below.schema]
    columns = list(zip(names, origins_below, strict=True))
    if isinstance(node, ResultChanges):
        return base, [*origins_below, None]
    if isinstance(node, Project):
        items = [item.expr for item in node.items]
        return base, [origin for _, origin in _selected(items, columns, base) or ()]
    selected = _columns_of(node.query, node.relations[0][0], columns, base)
    return None if selected is None else (base, [origin for _, origin in selected])


# Name of a column in lower case, and its origin
_Columns: TypeAlias = Sequence[tuple[str, str | None]]


def _columns_of(query: exp.Expr, relation: str, columns: _Columns, base: _Base) -> _Columns | None:
    """Return the columns of a query with their origins. None if they are not known.

    Args:
        query: Query over a relation.
        relation: Name of the relation.
        columns: Its columns.
        base: Aggregation or Top-N that has their origins.
    """
    if not isinstance(query, exp.Select) or query.args.get("with_"):
        return None
    joins = [*(query.args.get("joins") or []), *(query.args.get("laterals") or [])]
    source = query.args.get("from_")
    tables = [*([] if source is None else [source.this]), *(join.this for join in joins)]
    read: _Columns | None = None
    for table in tables:
        if isinstance(table, exp.Table) and table.name == relation:
            read = columns
        elif isinstance(table, exp.Subquery) and not joins:
            read = _columns_of(table.this, relation, columns, base)
    if read is None or (joins and any(item.is_star for item in query.expressions)):
        return None
    return _selected(query.expressions, read, base)


def _selected(items: Sequence[exp.Expr], columns: _Columns, base: _Base) -> _Columns | None:
    """Return the columns of a select list over some columns. None if they are not known."""
    origins = dict(columns)
    selected: list[tuple[str, str | None]] = []
    for item in items:
        inner = item.unalias().unnest()
        if item.is_star:
            left_out = star_leaves_out(item)
            if left_out is None:
                return None
            selected += [pair for pair in columns if pair[0] not in left_out]
            continue
        name = (
            inner.name.lower() if isinstance(inner, exp.Column) else _of_text(inner, origins, base)
        )
        origin = None if name is None else origins.get(name)
        selected.append((item_name(item).lower(), origin))
    return selected


def _of_text(expr: exp.Expr, origins: dict[str, str | None], base: _Base) -> str | None:
    """Return the column whose values the text of an expression distinguishes, or None.

    A rank without a window is counted as BIGINT, so its INT is the same column.
    """
    if isinstance(base, StreamRank) and isinstance(expr, exp.Cast) and expr.is_type("int"):
        name = (bare_column(expr.this) or "").lower()
        return name if origins.get(name) == base.schema[-1].name else None
    aggregate = base if isinstance(base, GlobalWindowAggregate) else updated_aggregate(base.input)
    if aggregate is None:
        return None
    if isinstance(base, GlobalWindowAggregate):
        window_columns = {key.name for key in base.window_keys}
    else:
        window_columns = set(base.window_columns)
    types = {column.name: column.type for column in base.schema}
    return column_of_text(
        expr,
        aggregate.window,
        {name for name, origin in origins.items() if origin in window_columns},
        {name: types[origin] for name, origin in origins.items() if origin in types},
    )
