"""Bind a block with several groupings: copy each row per grouping, below the windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.grouping_block import GroupingBlock
from planner.binder.grouping_sets import GROUPING_ID, Groupings, grouping_bit, never_grouped_away
from planner.nodes.logical import (
    Expand,
    Filter,
    NamedExpr,
    NetRows,
    Node,
    RangeRows,
    WindowTableFunction,
)
from planner.sql.build import bare_column, column, column_names, to_sql
from runtime.refusal import refuse
from runtime.spec.table import Column


def expand_groupings(
    block: GroupingBlock,
    groupings: Groupings,
    below: Node,
    keys: list[NamedExpr],
    expressions: Iterable[exp.Expr],
    types: Mapping[str, Column],
) -> tuple[Node, list[NamedExpr]]:
    """Put an Expand below the windows of a block, as Flink does, or above RANGES and net rows.

    Args:
        block: The block. Its `key_names` and `bits` are updated to the expanded rows.
        groupings: The groupings, whose keys correspond to `keys` in order.
        below: Input of the block, possibly filtered: a window table function, RANGES, or the rows
            that remain in windows.
        keys: The group keys, each under a unique name.
        expressions: Arguments and FILTER conditions of the aggregates.
        types: Keys with their Spark types, by name.

    Returns:
        The windowed rows, once per grouping, and the aggregate's keys: the query's keys, the
        grouping id and the window columns.

    Raises:
        Refused: The groupings cannot be expanded below windows.
    """
    windowed = below.input if isinstance(below, Filter) else below
    assert isinstance(windowed, WindowTableFunction | RangeRows | NetRows)
    function = (
        next(windowed.find_all(WindowTableFunction)) if isinstance(windowed, NetRows) else windowed
    )
    assert isinstance(function, WindowTableFunction | RangeRows)
    if not function.window.has_slices:
        refuse("several grouping sets over SESSION are not supported on slices")
    windows = {c.name.lower() for c in function.schema[-3:]}
    positions: list[int] = []
    for position, key in enumerate(keys):
        if (bare_column(key.expr) or "").lower() in windows:
            if not all(position in grouping for grouping in groupings.sets):
                refuse(f"a grouping set does not contain {key.name}", "Spark aggregates all rows")
            block.bits[canonical(key.expr)] = never_grouped_away()
        elif column_names(key.expr) & windows:
            refuse(f"the key {to_sql(key.expr)} of a grouping set reads a window column")
        else:
            positions.append(position)
    conjuncts = below.conjuncts if isinstance(below, Filter) else ()
    used_names = {function.time_column.lower()}.union(
        *map(column_names, (*expressions, *conjuncts))
    )
    # A key that another expression reads too must keep its values there.
    named = [
        NamedExpr(f"{k.name}$key" if k.name.lower() in used_names else k.name, k.expr)
        for k in (keys[position] for position in positions)
    ]
    for bit, key in enumerate(named):
        block.bits[canonical(key.expr)] = grouping_bit(bit, len(named))
        block.key_names[canonical(key.expr)] = key.name
    typed = [
        Column(key.name, types[keys[i].name].type) for key, i in zip(named, positions, strict=True)
    ]
    node: Node
    if not isinstance(windowed, WindowTableFunction):
        node = _expand(groupings, below, named, positions, typed)
    else:
        expand = _expand(groupings, windowed.input, named, positions, typed)
        schema = expand.schema + windowed.schema[-3:]
        node = replace(windowed, schema=schema, input=expand)
        if isinstance(below, Filter):
            node = replace(below, schema=schema, input=node)
    outer = [NamedExpr(name, column(name)) for name in (*(k.name for k in named), GROUPING_ID)]
    return node, outer + [key for position, key in enumerate(keys) if position not in positions]


def _expand(
    groupings: Groupings,
    node: Node,
    keys: list[NamedExpr],
    positions: list[int],
    typed: list[Column],
) -> Expand:
    """Return the Expand node. A key named like an input column replaces that column."""
    sets = tuple(
        frozenset(key.name for key, i in zip(keys, positions, strict=True) if i in set_)
        for set_ in groupings.sets
    )
    new = {c.name.lower(): c for c in typed}
    schema = tuple(new.pop(c.name.lower(), c) for c in node.schema)
    schema = (*schema, *new.values(), Column(GROUPING_ID, "bigint", False))
    ids = groupings.ids(tuple(positions))
    return Expand(schema, node, tuple(keys), ids, sets, GROUPING_ID, place=groupings.place)
