"""The partials of several window aggregates together, each computed and carried once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.aggregates.recipes import AggregatePlan, Partial
from planner.aggregates.shared_partials import meaning_of
from planner.sql.build import to_sql
from runtime.spec.aggregates import Accumulator, CollectSet, OfValues

# (name of a column among the partials of all, the name that one aggregate gave it)
Columns = tuple[tuple[str, str], ...]


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
        computed = {
            name: partial
            for plan in plans
            for partial in plan.partials
            for name in (partial.struct_fields or (partial.name,))
        }
        own: dict[str, str] = {}
        for plan in plans:
            for accumulator in plan.accumulators:
                key = _meaning(accumulator, computed)
                if key not in known:
                    partials = tuple(dict.fromkeys(computed[c] for c in accumulator.columns))
                    united.append(_renamed(plan, accumulator, partials, taken))
                    known[key] = united[-1].accumulators[0].columns
                own |= zip(accumulator.columns, known[key], strict=True)
        columns.append(tuple((shared, name) for name, shared in own.items()))
    return tuple(united), columns


def _meaning(accumulator: Accumulator, computed: dict[str, Partial]) -> Accumulator:
    """What an accumulator's columns hold and how they merge; equal where one can be the other."""
    held = {}
    for name in accumulator.columns:
        partial = computed[name]
        position = partial.struct_fields.index(name) if partial.struct_fields else 0
        held[name] = f"{to_sql(partial.expr)}.{position}"
    meaning = meaning_of(accumulator, held)
    # lists are joined, whatever reads them
    return CollectSet(meaning.columns) if isinstance(meaning, OfValues) else meaning


def _renamed(
    plan: AggregatePlan,
    accumulator: Accumulator,
    partials: tuple[Partial, ...],
    taken: set[str],
) -> AggregatePlan:
    """A plan of one accumulator under names that are not taken yet."""
    names = {name: _free(name, taken) for name in accumulator.columns}
    renamed = []
    for partial in partials:
        if partial.struct_fields:
            fields = tuple(names[field] for field in partial.struct_fields)
            renamed.append(Partial(_free(partial.name, taken), partial.expr, fields))
        else:
            renamed.append(Partial(names[partial.name], partial.expr))
    columns = tuple(names[name] for name in accumulator.columns)
    return replace(
        plan, partials=tuple(renamed), accumulators=(replace(accumulator, columns=columns),)
    )


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken; the result is taken from then on."""
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free.lower())
    return free
