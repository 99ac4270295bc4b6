"""A grouping block with several groupings: rows once for each, below their windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.grouping_sets import GROUPING_ID, Groupings, grouping_bit, never_grouped_away
from planner.binder.relations import Relations
from planner.catalog import Schema
from planner.nodes.logical import Expand, Filter, LeftToSpark, NamedExpr, Node, WindowTableFunction
from planner.sql.build import alias, bare_column, column, column_names, relation, to_sql
from runtime.spec.table import Column
from runtime.spec.windows import SessionWindow


@dataclass(frozen=True)
class ExpandedBlock:
    """What an aggregate over several groupings stands on.

    Attributes:
        node: the rows, once for each grouping, in their windows.
        keys: the keys of the aggregate: those of the query, the id of the grouping, the windows.
        key_names: under which names the aggregate yields the query's keys, by their text.
        bits: GROUPING of each key, by its text, over the aggregate's columns.
    """

    node: Node
    keys: list[NamedExpr]
    key_names: dict[str, str]
    bits: dict[str, exp.Expr]


def expand_groupings(
    groupings: Groupings,
    below: Node,
    keys: list[NamedExpr],
    read: Iterable[exp.Expr],
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> ExpandedBlock | LeftToSpark:
    """Put an Expand below the windows of a block, as Flink does, or say why it cannot be.

    Args:
        groupings: the groupings; their keys are those of `keys`, in order.
        below: what the block aggregates: a window table function, maybe filtered.
        keys: the group keys, each under a name of its own.
        read: what the aggregates read, FILTER included.
        relations: the binder of the query.
        scope: its CTEs.
    """
    windowed = below.input if isinstance(below, Filter) else below
    assert isinstance(windowed, WindowTableFunction)
    if isinstance(windowed.window, SessionWindow):
        return LeftToSpark("several groupings of sessions are computed by Spark over rows")
    windows = {c.name.lower() for c in windowed.schema[-3:]}
    bits: dict[str, exp.Expr] = {}
    own: list[int] = []
    for position, key in enumerate(keys):
        if (bare_column(key.expr) or "").lower() in windows:
            if not all(position in kept for kept in groupings.sets):
                return LeftToSpark(
                    f"there is a grouping without {key.name}", "Spark computes it over rows"
                )
            bits[canonical(key.expr)] = never_grouped_away()
        elif column_names(key.expr) & windows:
            return LeftToSpark(
                f"the key {to_sql(key.expr)} reads a window column in a grouping set"
            )
        else:
            own.append(position)
    taken = {windowed.time_column.lower()}
    for expr in read:
        taken |= column_names(expr)
    if isinstance(below, Filter):
        taken |= {name for conjunct in below.conjuncts for name in column_names(conjunct)}
    # a key that something else reads too keeps its values there
    named = [
        NamedExpr(f"{k.name}$key" if k.name.lower() in taken else k.name, k.expr)
        for k in (keys[position] for position in own)
    ]
    for bit, key in enumerate(named):
        bits[canonical(key.expr)] = grouping_bit(bit, len(named))
    expand = _expand(
        groupings, windowed.input, named, own, _types(named, windowed, relations, scope)
    )
    schema = expand.schema + windowed.schema[-3:]
    node: Node = replace(windowed, schema=schema, input=expand)
    if isinstance(below, Filter):
        node = replace(below, schema=schema, input=node)
    outer = [NamedExpr(key.name, column(key.name)) for key in named]
    outer.append(NamedExpr(GROUPING_ID, column(GROUPING_ID)))
    outer += [key for position, key in enumerate(keys) if position not in own]
    return ExpandedBlock(node, outer, {canonical(key.expr): key.name for key in named}, bits)


def _types(
    keys: list[NamedExpr],
    windowed: WindowTableFunction,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> Schema:
    """The keys with the types that Spark gives them."""
    if not keys:
        return ()
    typed = exp.Select(
        expressions=[alias(key.expr, key.name) for key in keys],
        from_=exp.From(this=relation(relations.placeholder(windowed))),
    )
    return relations.sql_query(typed, scope).schema


def _expand(
    groupings: Groupings, node: Node, keys: list[NamedExpr], own: list[int], types: Schema
) -> Expand:
    """The node; keys under names of the input's columns take their place."""
    kept = tuple(
        frozenset(key.name for key, i in zip(keys, own, strict=True) if i in set_)
        for set_ in groupings.sets
    )
    new = {key.name.lower(): Column(key.name, c.type) for key, c in zip(keys, types, strict=True)}
    schema = tuple(new.pop(c.name.lower(), c) for c in node.schema)
    schema = (*schema, *new.values(), Column(GROUPING_ID, "bigint", False))
    ids = groupings.ids(tuple(own))
    return Expand(schema, node, tuple(keys), ids, kept, GROUPING_ID, place=groupings.place)
