"""Conditions of joins of windows that read one side."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.joins import WindowJoin
from planner.nodes.logical import Filter
from planner.sql.build import column_names, conjunction, conjuncts

# Sides whose unmatched rows are not emitted: their conditions can move below the join
_FILTERED = {
    "LeftOuter": (False, True),
    "RightOuter": (True, False),
    "LeftSemi": (True, True),
    "LeftAnti": (False, True),
}


def push_one_sided_conditions(node: WindowJoin) -> WindowJoin:
    """Return the join with its one-sided conditions moved below it as filters."""
    sides = list(node.inputs)
    rest = []
    for part in conjuncts(node.condition):
        read = column_names(part)
        for number, can_filter in enumerate(_FILTERED.get(node.join_type, (False, False))):
            if can_filter and read <= sides[number].column_names:
                sides[number] = Filter(sides[number].schema, sides[number], (part,))
                break
        else:
            rest.append(part)
    left, right = sides
    return replace(node, left=left, right=right, condition=conjunction(rest))
