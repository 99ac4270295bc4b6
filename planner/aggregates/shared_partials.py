"""Partials that several aggregates need, computed and carried once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.nodes.aggregate_plans import AggregatePlan, Partial, partials_by_column
from planner.sql.build import column, to_sql
from runtime.spec.aggregates import Accumulator, CollectSet, OfValues, WithResult
from runtime.spec.table import Column

# (name of a column among the partials of all, the name that one aggregate gave it)
Columns = tuple[tuple[str, str], ...]


def _texts(plans: Iterable[AggregatePlan]) -> dict[str, str]:
    """By partial column a text that is equal where the columns hold the same."""
    return {
        name: f"{to_sql(partial.expr)}.{position}"
        for plan in plans
        for partial in plan.partials
        for position, name in enumerate(partial.columns)
    }


def _meaning(accumulator: Accumulator, texts: Mapping[str, str]) -> Accumulator:
    """The accumulator over the texts of its partials, whatever its columns are called."""
    columns = tuple(texts[name] for name in accumulator.columns)
    if isinstance(accumulator, WithResult):
        output = Column("", accumulator.output.type)
        return replace(accumulator, columns=columns, output=output)
    return replace(accumulator, columns=columns)


# -- among the aggregates of one window aggregation ----------------------------------------------


def share_partials(plans: tuple[AggregatePlan, ...]) -> tuple[AggregatePlan, ...]:
    """The plans with equal accumulators named alike; AVG(x) and SUM(x) share a count, say.

    A plan whose accumulator another plan before it has already keeps only the reference to it in
    its `finish`. Accumulators with an output column of their own also share what they read:
    COUNT(DISTINCT x) and SUM(DISTINCT x) the set of values.
    """
    # what an accumulator computes of which partials -> its output columns
    merged: dict[Accumulator, tuple[str, ...]] = {}
    # a partial that accumulators read without replacing it -> its column
    read: dict[str, str] = {}
    return tuple(_shared(plan, merged, read) for plan in plans)


def _shared(
    plan: AggregatePlan, merged: dict[Accumulator, tuple[str, ...]], read: dict[str, str]
) -> AggregatePlan:
    texts = _texts([plan])
    renamed: dict[str, str] = {}
    kept: list[Accumulator] = []
    for accumulator in plan.accumulators:
        names = accumulator.output_columns
        before = merged.setdefault(_meaning(accumulator, texts), names)
        if isinstance(accumulator, WithResult):
            for name in accumulator.columns:
                carried = read.setdefault(texts[name], name)
                if carried != name:
                    renamed[name] = carried
            columns = tuple(renamed.get(name, name) for name in accumulator.columns)
            accumulator = replace(accumulator, columns=columns)
        if before == names:
            kept.append(accumulator)
        else:
            renamed.update(zip(names, before, strict=True))
    partials = tuple(p for p in plan.partials if renamed.keys().isdisjoint(p.columns))

    def rename(node: exp.Expr) -> exp.Expr:
        is_renamed = isinstance(node, exp.Column) and node.name in renamed
        return column(renamed[node.name]) if is_renamed else node

    finish = plan.finish.copy().transform(rename, copy=False)
    return replace(plan, partials=partials, accumulators=tuple(kept), finish=finish)


# -- among several window aggregations -----------------------------------------------------------


def union_partials(
    aggregates: Sequence[tuple[AggregatePlan, ...]],
) -> tuple[tuple[AggregatePlan, ...], list[Columns]]:
    """Plans that compute the partials of all of `aggregates`.

    Accumulators of one kind over the same partials are there once, whatever their names. A column
    keeps its name unless another one has it already.

    Returns:
        (one plan for each accumulator, for each of `aggregates` the columns that it reads).
    """
    united: list[AggregatePlan] = []
    known: dict[Accumulator, tuple[str, ...]] = {}
    taken: set[str] = set()
    columns: list[Columns] = []
    for plans in aggregates:
        computed, texts = partials_by_column(plans), _texts(plans)
        own: dict[str, str] = {}
        for plan in plans:
            for accumulator in plan.accumulators:
                meaning = _meaning(accumulator, texts)
                if isinstance(meaning, OfValues):
                    # lists are joined, whatever reads them
                    meaning = CollectSet(meaning.columns)
                if meaning not in known:
                    partials = dict.fromkeys(computed[name] for name in accumulator.columns)
                    united.append(_renamed(plan, accumulator, partials, taken))
                    known[meaning] = united[-1].accumulators[0].columns
                own |= zip(accumulator.columns, known[meaning], strict=True)
        columns.append(tuple((shared, name) for name, shared in own.items()))
    return tuple(united), columns


def _renamed(
    plan: AggregatePlan, accumulator: Accumulator, partials: Iterable[Partial], taken: set[str]
) -> AggregatePlan:
    """A plan of one accumulator under names that are not taken yet."""
    names = {name: _free(name, taken) for name in accumulator.columns}
    renamed = []
    for partial in partials:
        fields = tuple(names[field] for field in partial.struct_fields)
        name = _free(partial.name, taken) if fields else names[partial.name]
        renamed.append(Partial(name, partial.expr, fields))
    accumulator = replace(accumulator, columns=tuple(names.values()))
    return replace(plan, partials=tuple(renamed), accumulators=(accumulator,))


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken; the result is taken from then on."""
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free.lower())
    return free
