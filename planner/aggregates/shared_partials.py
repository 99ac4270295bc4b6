"""Partials that several aggregates need, computed and carried once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.recipes import AggregatePlan
from planner.sql.build import column, to_sql
from runtime.spec.aggregates import Accumulator, WithResult
from runtime.spec.table import Column


def share_partials(plans: tuple[AggregatePlan, ...]) -> tuple[AggregatePlan, ...]:
    """The plans with equal accumulators named alike; AVG(x) and SUM(x) share a count, say.

    A plan whose accumulator another plan before it has already keeps only the reference to it in
    its `finish`. Accumulators with an output column of their own also share what they read:
    COUNT(DISTINCT x) and SUM(DISTINCT x) the set of values.
    """
    known = _Known({}, {})
    return tuple(_shared(plan, known) for plan in plans)


@dataclass(frozen=True)
class _Known:
    """What the plans so far have.

    Attributes:
        merged: what an accumulator computes of which partials -> its output columns.
        read: a partial that accumulators read without replacing it -> its column.
    """

    merged: dict[Accumulator, tuple[str, ...]]
    read: dict[str, str]


def meaning_of(accumulator: Accumulator, partials: Mapping[str, str]) -> Accumulator:
    """The accumulator over the texts of its partials, whatever its columns are called."""
    columns = tuple(partials[name] for name in accumulator.columns)
    if isinstance(accumulator, WithResult):
        output = Column("", accumulator.output.type)
        return replace(accumulator, columns=columns, output=output)
    return replace(accumulator, columns=columns)


def _shared(plan: AggregatePlan, known: _Known) -> AggregatePlan:
    exprs = {
        name: f"{to_sql(partial.expr)}.{position}"
        for partial in plan.partials
        for position, name in enumerate(partial.struct_fields or (partial.name,))
    }
    renamed: dict[str, str] = {}
    kept: list[Accumulator] = []
    for accumulator in plan.accumulators:
        has_result = isinstance(accumulator, WithResult)
        names = accumulator.output_columns if has_result else accumulator.columns
        meaning = meaning_of(accumulator, exprs)
        before = known.merged.setdefault(meaning, names)
        if has_result:
            for name in accumulator.columns:
                carried = known.read.setdefault(exprs[name], name)
                if carried != name:
                    renamed[name] = carried
            columns = tuple(renamed.get(name, name) for name in accumulator.columns)
            accumulator = replace(accumulator, columns=columns)
        if before == names:
            kept.append(accumulator)
        else:
            renamed.update(zip(names, before, strict=True))
    partials = tuple(
        partial
        for partial in plan.partials
        if not any(name in renamed for name in partial.struct_fields or (partial.name,))
    )
    finish = _renamed(plan.finish, renamed)
    return replace(plan, partials=partials, accumulators=tuple(kept), finish=finish)


def _renamed(finish: exp.Expr, names: dict[str, str]) -> exp.Expr:
    def rename(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in names:
            return column(names[node.name])
        return node

    return finish.copy().transform(rename, copy=False)
