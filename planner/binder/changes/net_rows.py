"""Rows that remain after changes, and changes below the expressions of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, read_call
from planner.nodes.logical import (
    CHANGE,
    CHANGE_KIND,
    COPIES,
    Aggregate,
    ChangelogTable,
    Filter,
    NamedExpr,
    NetRows,
    Node,
    Project,
    ResultChanges,
    SqlQuery,
    WindowRank,
    plain_items,
)
from planner.nodes.window_columns import window_properties
from planner.sql.build import (
    alias,
    cast_as,
    column,
    function_call,
    has_only,
    item_name,
    literal,
    star_leaves_out,
    union_all,
)
from planner.sql.flink_functions import current_watermarks
from planner.sql.nodes import TextSpan
from planner.sql.parts import PLAIN_SELECT, has_other_parts, makes_rows, operands
from runtime.spec.table import Column

_CHANGE = Column(CHANGE, "bigint", False)
_KIND = Column(CHANGE_KIND, "string", False)
# Parts of UNION ALL
_UNION = frozenset(("this", "expression", "distinct"))
# The functions without arguments that have one value. Others may have another one for a row when
# the row is deleted: the time, a file's name, a number
_CONSTANT = frozenset(("E", "PI"))
# Such functions with arguments
_VARYING = frozenset(
    "CURRENT_WATERMARK RAND RANDN RANDOM RANDSTR RAND_INTEGER SHUFFLE UNIFORM UUID".split()
)


def net_rows(changes: Node, place: TextSpan | None) -> NetRows:
    """Return the rows that remain after changes, each once per insertion without a deletion.

    Args:
        changes: Rows with their `CHANGE`.
        place: Part of the text that the rows correspond to.
    """
    schema = tuple(c for c in changes.schema if c.name != CHANGE)
    total = replace(read_call(function_call("SUM", column(CHANGE)), COPIES, ""), type="bigint")
    groups = Aggregate(
        (*schema, Column(COPIES, "bigint", True)),
        changes,
        plain_items(schema),
        (total,),
        place=place,
    )
    remains = exp.GT(this=column(COPIES), expression=literal(0))
    return NetRows(schema, Filter(groups.schema, groups, (remains,)), place=place)


def signed_rows(
    node: Node, *, windows_change: bool = False, has_kinds: bool = False
) -> Node | None:
    """Return the changes of a node's rows, with `CHANGE` or `CHANGE_KIND` as last column.

    Expressions and conditions on single rows apply to each change. Groups and ranks without a
    window change with the rows of their stream.

    Args:
        node: Rows.
        windows_change: Whether windows in it are emitted more than once.
        has_kinds: Whether the last column is `CHANGE_KIND`.

    Returns:
        None if the node does not read changes, or does more than that with them.
    """
    mark = _KIND if has_kinds else _CHANGE
    signed_below = partial(signed_rows, windows_change=windows_change, has_kinds=has_kinds)
    match node:
        case ChangelogTable():
            return _with_kinds(node) if has_kinds else node.input
        case WindowRank() if not node.attached.spec.closes:
            return ResultChanges((*node.schema, mark), node)
        case Aggregate():
            windows = window_properties(node.input)
            if windows is None or (windows.spec.closes and not windows_change):
                return None
            return ResultChanges((*node.schema, mark), node)
        case Filter() | Project():
            below = signed_below(node.input)
            if below is None:
                return None
            schema = (*node.schema, mark)
            if isinstance(node, Filter):
                return replace(node, schema=schema, input=below)
            items = (*node.items, NamedExpr(mark.name, column(mark.name)))
            return replace(node, schema=schema, input=below, items=items)
        case SqlQuery():
            relations = {name: signed_below(below) for name, below in node.relations}
            signed = {name: below for name, below in relations.items() if below is not None}
            select = _signed_query(node.query, signed, {}, mark.name)
            if select is None:
                return None
            read = tuple((name, signed.get(name, plain)) for name, plain in node.relations)
            return SqlQuery((*node.schema, mark), select.query, read)
    return None


def _with_kinds(table: ChangelogTable) -> Project:
    """Return the changes that describe a table, with `CHANGE_KIND` as last column."""
    changes = table.input
    assert isinstance(changes, Project), "the changes of a table are projected"
    items = (*changes.items[:-1], NamedExpr(CHANGE_KIND, table.kind))
    return replace(changes, schema=(*table.schema, _KIND), items=items)


@dataclass(frozen=True)
class _Signed:
    """A query over changes, and the names of its columns without their mark, the last one."""

    query: exp.Query
    names: tuple[str, ...]


def _signed_query(
    query: exp.Expr, signed: Mapping[str, Node], ctes: Mapping[str, exp.CTE], mark: str
) -> _Signed | None:
    """Return a SELECT over changes, or UNION ALL with one, with their mark, else None.

    Args:
        query: The query.
        signed: Changes by the names of the relations that it reads. It may read others.
        ctes: CTEs that it may read, by lower-case name.
        mark: Their last column: `CHANGE` or `CHANGE_KIND`.
    """
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Union):
        return _signed_select(query, signed, ctes, mark)
    if query.args.get("distinct") or query.ctes or not has_only(query, _UNION):
        return None
    sides: list[_Signed] = []
    for side in operands(query):
        names = [table.name for table in side.find_all(exp.Table)]
        is_signed = any(name in signed or name.lower() in ctes for name in names)
        of_side = _signed_select(side, signed, ctes, mark) if is_signed else _inserted(side, mark)
        if of_side is None:
            return None
        sides.append(of_side)
    union = union_all([side.query for side in sides])
    if not any(table.name in signed for table in union.find_all(exp.Table)):
        return None
    return _Signed(union, sides[0].names)


def _inserted(side: exp.Expr, mark: str) -> _Signed | None:
    """Return rows that stay, each inserted once; None if their columns are not known."""
    query = side.unnest()
    names = [item_name(item) for item in query.selects] if isinstance(query, exp.Select) else []
    if not names or not all(names) or "*" in names:
        return None
    insertion = literal("+I") if mark == CHANGE_KIND else cast_as(literal(1), "bigint")
    one = alias(insertion, mark)
    rows = exp.From(this=exp.Subquery(this=query.copy()))
    return _Signed(exp.Select(expressions=[*map(column, names), one], from_=rows), tuple(names))


def _signed_select(
    query: exp.Expr, relations: Mapping[str, Node], ctes: Mapping[str, exp.CTE], mark: str
) -> _Signed | None:
    """Return a SELECT of expressions and conditions over changes with their mark, else None."""
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select) or not has_only(query, PLAIN_SELECT | {"with_"}):
        return None
    clause, where = query.args.get("from_"), query.args.get("where")
    if clause is None or has_other_parts(query) or has_other_parts(clause.this):
        return None
    parts = [*query.expressions, *([] if where is None else [where])]
    if any(map(_is_of_more, parts)):
        return None
    ctes = {**ctes, **{cte.alias.lower(): cte for cte in query.ctes}}
    source = _signed_source(clause.this, relations, ctes, mark)
    if source is None:
        return None
    below, below_names = source
    items: list[exp.Expr] = []
    names: list[str] = []
    for item in query.expressions:
        if item.is_star:
            left_out = star_leaves_out(item)
            if left_out is None:
                return None
            shown = [name for name in below_names if name.lower() not in left_out]
            items += map(column, shown)
            names += shown
        else:
            items.append(item.copy())
            names.append(item_name(item))
    if "" in names or len({name.lower() for name in names}) < len(names):
        return None
    select = exp.Select(expressions=[*items, column(mark)], from_=exp.From(this=below))
    if where is not None:
        select.set("where", where.copy())
    return _Signed(select, tuple(names))


def _signed_source(
    source: exp.Expr, relations: Mapping[str, Node], ctes: Mapping[str, exp.CTE], mark: str
) -> tuple[exp.Expr, tuple[str, ...]] | None:
    """Return a relation of changes and the names of its columns without their mark, else None."""
    if source.alias_column_names:
        return None
    if isinstance(source, exp.Table) and not source.db and source.name in relations:
        columns = relations[source.name].schema
        return source.copy(), tuple(c.name for c in columns if c.name != mark)
    name, query = source.alias_or_name, None
    if isinstance(source, exp.Table) and not source.db and source.name.lower() in ctes:
        cte = ctes[source.name.lower()]
        if not cte.alias_column_names:
            others = {key: other for key, other in ctes.items() if other is not cte}
            query = _signed_query(cte.this, relations, others, mark)
    elif isinstance(source, exp.Subquery):
        query = _signed_query(source, relations, ctes, mark)
    if query is None:
        return None
    shown = exp.TableAlias(this=exp.to_identifier(name, quoted=True)) if name else None
    return exp.Subquery(this=query.query, alias=shown), query.names


def _is_of_more(part: exp.Expr) -> bool:
    """Return whether a part of a SELECT needs more than one row, or varies by time."""
    if part.find(exp.Query, exp.Window) or aggregates_in(part) or makes_rows(part):
        return True
    if part.find(exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentTime):
        return True
    return bool(current_watermarks(part)) or any(map(_varies, part.find_all(exp.Anonymous)))


def _varies(call: exp.Anonymous) -> bool:
    """Return whether a function may have several values for one row."""
    name = call.name.upper()
    return name in _VARYING or not (call.expressions or name in _CONSTANT)
