"""Partials that several aggregates need, computed and carried once."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates import AggregatePlan
from planner.sql import column, to_sql


def share_partials(plans: tuple[AggregatePlan, ...]) -> tuple[AggregatePlan, ...]:
    """The plans with equal accumulators named alike; AVG(x) and SUM(x) share a count, say.

    A plan whose accumulator another plan before it has already keeps only the reference to it in
    its `finish`.
    """
    first_with: dict[tuple[str, ...], tuple[str, ...]] = {}
    shared = []
    for plan in plans:
        exprs = {
            name: f"{to_sql(partial.expr)}.{position}"
            for partial in plan.partials
            for position, name in enumerate(partial.struct_fields or (partial.name,))
        }
        renamed: dict[str, str] = {}
        kept = []
        for accumulator in plan.accumulators:
            key = (accumulator.kind, *(exprs[name] for name in accumulator.columns))
            known = first_with.setdefault(key, accumulator.columns)
            if known == accumulator.columns:
                kept.append(accumulator)
            else:
                renamed.update(zip(accumulator.columns, known, strict=True))
        partials = tuple(
            partial
            for partial in plan.partials
            if not any(name in renamed for name in partial.struct_fields or (partial.name,))
        )
        finish = _renamed(plan.finish, renamed)
        shared.append(replace(plan, partials=partials, accumulators=tuple(kept), finish=finish))
    return tuple(shared)


def _renamed(finish: exp.Expr, names: dict[str, str]) -> exp.Expr:
    def rename(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in names:
            return column(names[node.name])
        return node

    return finish.copy().transform(rename, copy=False)
