"""Share partials between aggregates, so that each is computed and exchanged once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.nodes.aggregate_plans import AggregatePlan, Partial, partials_by_column
from planner.sql.build import column, to_sql
from runtime.spec.aggregates import Accumulator, CollectSet

# (column among the shared partials, name in one aggregate)
Columns = tuple[tuple[str, str], ...]


def _texts(plans: Iterable[AggregatePlan]) -> dict[str, str]:
    """Map each partial column to a text that is equal for columns with equal content."""
    return {
        name: f"{to_sql(partial.expr)}.{position}"
        for plan in plans
        for partial in plan.partials
        for position, name in enumerate(partial.columns)
    }


def _meaning(accumulator: Accumulator, texts: Mapping[str, str]) -> Accumulator:
    """Return the accumulator over the texts of its partials, without column names."""
    columns = tuple(texts[name] for name in accumulator.columns)
    return accumulator.over(columns)


# -- within one window aggregation ---------------------------------------------------------------


def share_partials(plans: tuple[AggregatePlan, ...]) -> tuple[AggregatePlan, ...]:
    """Give equal accumulators the same name; for example, AVG(x) and COUNT(x) share a count.

    A plan whose accumulator already exists in an earlier plan only refers to it in its `finish`.
    Accumulators with their own output column also share their input: COUNT(DISTINCT x) and
    SUM(DISTINCT x) read one set of values.
    """
    # accumulator over the meaning of its partials -> its output columns
    merged: dict[Accumulator, tuple[str, ...]] = {}
    # partial that accumulators read without replacing it -> its column
    read: dict[str, str] = {}
    return tuple(_share(plan, merged, read) for plan in plans)


def _share(
    plan: AggregatePlan, merged: dict[Accumulator, tuple[str, ...]], read: dict[str, str]
) -> AggregatePlan:
    texts = _texts([plan])
    renamed: dict[str, str] = {}
    accumulators: list[Accumulator] = []
    for accumulator in plan.accumulators:
        names = accumulator.output_columns
        before = merged.setdefault(_meaning(accumulator, texts), names)
        if accumulator.result is not None:
            for name in accumulator.columns:
                carried = read.setdefault(texts[name], name)
                if carried != name:
                    renamed[name] = carried
            columns = tuple(renamed.get(name, name) for name in accumulator.columns)
            accumulator = replace(accumulator, columns=columns)
        if before == names:
            accumulators.append(accumulator)
        else:
            renamed.update(zip(names, before, strict=True))
    partials = tuple(p for p in plan.partials if renamed.keys().isdisjoint(p.columns))

    def rename(node: exp.Expr) -> exp.Expr:
        is_renamed = isinstance(node, exp.Column) and node.name in renamed
        return column(renamed[node.name]) if is_renamed else node

    finish = plan.finish.copy().transform(rename, copy=False)
    averages = tuple(
        replace(
            average,
            total=renamed.get(average.total, average.total),
            count=renamed.get(average.count, average.count),
        )
        for average in plan.averages
    )
    return replace(
        plan,
        partials=partials,
        accumulators=tuple(accumulators),
        finish=finish,
        averages=averages,
    )


# -- across window aggregations ------------------------------------------------------------------


def union_partials(
    aggregates: Sequence[tuple[AggregatePlan, ...]],
) -> tuple[tuple[AggregatePlan, ...], list[Columns]]:
    """Return plans that compute the partials of all `aggregates`.

    Accumulators of the same kind over the same partials appear once, regardless of names. A
    column keeps its name unless the name is already taken.

    Returns:
        One plan per accumulator, and for each of `aggregates` the columns that it reads.
    """
    united: list[AggregatePlan] = []
    columns_of: dict[Accumulator, tuple[str, ...]] = {}
    used_names: set[str] = set()
    columns: list[Columns] = []
    for plans in aggregates:
        computed, texts = partials_by_column(plans), _texts(plans)
        renamed_columns: dict[str, str] = {}
        for plan in plans:
            for accumulator in plan.accumulators:
                meaning = _meaning(accumulator, texts)
                if meaning.merges_in_windows:
                    # Lists are concatenated in the same way for every reader.
                    meaning = CollectSet(meaning.columns)
                if meaning not in columns_of:
                    partials = dict.fromkeys(computed[name] for name in accumulator.columns)
                    united.append(_rename(plan, accumulator, partials, used_names))
                    columns_of[meaning] = united[-1].accumulators[0].columns
                renamed_columns |= zip(accumulator.columns, columns_of[meaning], strict=True)
        columns.append(tuple((shared, name) for name, shared in renamed_columns.items()))
    return tuple(united), columns


def _rename(
    plan: AggregatePlan, accumulator: Accumulator, partials: Iterable[Partial], used_names: set[str]
) -> AggregatePlan:
    """Return a plan with only one accumulator, whose column names are not taken yet."""
    names = {name: _free(name, used_names) for name in accumulator.columns}
    renamed = []
    for partial in partials:
        fields = tuple(names[field] for field in partial.struct_fields)
        name = _free(partial.name, used_names) if fields else names[partial.name]
        renamed.append(Partial(name, partial.expr, fields))
    accumulator = replace(accumulator, columns=tuple(names.values()))
    return replace(plan, partials=tuple(renamed), accumulators=(accumulator,), averages=())


def _free(name: str, used_names: set[str]) -> str:
    """Return the name, with a number appended if it is taken, and mark it as taken."""
    free, number = name, 1
    while free.lower() in used_names:
        number += 1
        free = f"{name}_{number}"
    used_names.add(free.lower())
    return free
