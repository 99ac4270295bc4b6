"""What the window operators of a stream keep, from their plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.aggregates.partial_calls import row_partials
from planner.aggregates.recipes import AggregatePlan
from planner.catalog import Schema
from planner.nodes.logical import Node
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.nodes.slice_levels import FixedWindow, grid_of
from planner.sql.build import to_sql
from runtime.spec.identity import (
    KeptAccumulator,
    KeptKey,
    KeptOperator,
    KeptReader,
    kind_of,
    window_fields,
)
from runtime.spec.local import PartialColumns
from runtime.spec.windows import Tumble

# Accumulators that are an aggregate of SQL by themselves
_PLAIN = frozenset("sum count min max bit_and bit_or bit_xor".split())


def kept_operators(plans: Sequence[Node], names: Sequence[str]) -> tuple[KeptOperator, ...]:
    """What the window operators of a stream keep, by their numbers.

    Args:
        plans: the physical plan over streams; those of INSERTs that one stream runs.
        names: the tables that these write.
    """
    if len(plans) == 1:
        return tuple(_kept(local) for local in _local_stages(plans[0]))
    readers = [next(_shared_readers(plan)) for plan in plans]
    shared = readers[0].input.inputs[0]
    assert isinstance(shared, SharedExchange) and isinstance(shared.input, LocalWindowAggregate)
    named = zip(names, readers, strict=True)
    return (_kept(shared.input, tuple(_reader(name, reader) for name, reader in named)),)


def _local_stages(plan: Node) -> Iterator[LocalWindowAggregate]:
    """Those of window operators, in the order in which these are numbered."""
    for child in plan.inputs:
        yield from _local_stages(child)
    if isinstance(plan, GlobalWindowAggregate):
        local = plan.input.inputs[0]
        if isinstance(local, LocalWindowAggregate):
            yield local


def _shared_readers(plan: Node) -> Iterator[GlobalWindowAggregate]:
    if isinstance(plan, GlobalWindowAggregate) and isinstance(plan.input, SharedSlices):
        yield plan
    for child in plan.inputs:
        yield from _shared_readers(child)


def _reader(name: str, node: GlobalWindowAggregate) -> KeptReader:
    assert isinstance(node.window, FixedWindow)
    grid = grid_of(node.window)
    slices = window_fields(Tumble(grid.width_us, grid.offset_us))
    return KeptReader(name, window_fields(node.window), slices)


def _kept(local: LocalWindowAggregate, readers: tuple[KeptReader, ...] = ()) -> KeptOperator:
    return KeptOperator(
        window_fields(local.window),
        (local.time_column, local.time_type),
        local.slice_end,
        tuple(
            KeptKey(key.name, to_sql(key.expr), _type_of(key.name, local.schema))
            for key in local.keys
        ),
        tuple(_accumulator(each, local.plans) for each in row_partials(local.plans)),
        readers,
    )


def _accumulator(partial: PartialColumns[str], plans: tuple[AggregatePlan, ...]) -> KeptAccumulator:
    kind, name = kind_of(partial.into), partial.text
    if kind in _PLAIN:
        # AVG is a SUM and a COUNT
        computed = {each.name: each.expr for plan in plans for each in plan.partials}
        name = to_sql(computed[partial.columns[0]])
    return KeptAccumulator(partial.columns, kind, partial.args, partial.condition, name)


def _type_of(name: str, schema: Schema) -> str:
    return next(column.type for column in schema if column.name == name)
