"""Which INSERTs of a statement set over streams may have their windows computed by one stream.

One operator then holds the slices for all of them. What follows the windows of each is computed of
the windows that a micro-batch brings, as in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.catalog import Catalog
from planner.nodes.logical import Filter, Node, Project, Sink, SqlQuery
from planner.nodes.physical import GlobalWindowAggregate, LocalWindowAggregate
from planner.streams.tables import stream_tables, streams_of
from planner.streams.time_columns import is_processing_time
from runtime.spec.windows import Cumulate

# Slices that readers have in common may be so many times as many as those of their own together.
# They stay in state, unlike those of a batch.
MOST_SLICES = 2
# Readers of one operator are bits of an integer
MOST_READERS = 62


def stream_obstacle(
    node: GlobalWindowAggregate,
    local: LocalWindowAggregate,
    number: int,
    plans: Sequence[Node],
    apart: Sequence[str | None],
    catalog: Catalog,
) -> str | None:
    """Why a window aggregate over a stream can share slices with no other one.

    Args:
        node: the window aggregate.
        local: its local part.
        number: the position of its plan.
        plans: the plans of the statement.
        apart: for each plan why it needs a stream of its own; None: it does not.
        catalog: says which tables are streams.
    """
    if len(plans) == 1:
        return "the input is a stream"
    if not all(streams_of(plan, catalog) for plan in plans):
        return "the input is a stream, and other INSERTs of the set read none"
    if (reason := apart[number]) is not None:
        return reason
    if (above := _other_than_above(plans[number], node)) is not None:
        return f"the input is a stream, and {above}"
    if any(local.input.find_all(GlobalWindowAggregate)):
        return "the input is a stream of other windows"
    if len(list(stream_tables(plans[number], catalog))) > len(
        list(stream_tables(local.input, catalog))
    ):
        return "the input is a stream, and the INSERT reads another one"
    if is_processing_time(local.input, local.time_column, catalog):
        return "the windows of the stream are on processing time"
    if isinstance(node.window, Cumulate) and node.window.emit_only_on_update:
        return "the windows of the stream are emitted on updates only"
    return None


def _other_than_above(plan: Node, node: GlobalWindowAggregate) -> str | None:
    """What else than filters and projections is above a window aggregate."""
    while plan is not node:
        if len(plan.inputs) != 1 or not isinstance(plan, Filter | Project | SqlQuery | Sink):
            return f"{type(plan).__name__} follows its windows"
        plan = plan.inputs[0]
    return None
