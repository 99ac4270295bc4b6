"""INSERTs of a statement set that may share one stream for their windows.

A single operator then holds the slices for all of them. The rest of each INSERT is computed from
the windows of a micro-batch, as in batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.catalog import Catalog
from planner.nodes.logical import Filter, Node, Project, Sink, SqlQuery
from planner.nodes.physical import GlobalWindowAggregate, LocalWindowAggregate
from planner.nodes.sql_words import sql_words
from planner.streams.tables import stream_tables, streams_of
from planner.streams.time_columns import is_processing_time

# Maximum ratio of shared slices to slices of the separate readers. Unlike in batch, they stay in
# state.
MAX_SLICES = 2
# Readers of one operator are the bits of an integer
MAX_READERS = 62


def stream_obstacle(
    node: GlobalWindowAggregate,
    local: LocalWindowAggregate,
    number: int,
    plans: Sequence[Node],
    apart: Sequence[str | None],
    catalog: Catalog,
) -> str | None:
    """Return why a window aggregate over a stream cannot share slices, or None.

    Args:
        node: The window aggregate.
        local: Its local stage.
        number: Position of its plan.
        plans: Plans of the statement.
        apart: For each plan, the reason why it needs its own stream, or None.
        catalog: Catalog that identifies streams.
    """
    if len(plans) == 1:
        return "the input is a stream"
    if not all(streams_of(plan, catalog) for plan in plans):
        return "the input is a stream, but other INSERTs of the set read none"
    if (reason := apart[number]) is not None:
        return reason
    if (above := _other_node_above(plans[number], node)) is not None:
        return f"the input is a stream, and {above}"
    if any(local.input.find_all(GlobalWindowAggregate)):
        return "the input is a stream of other windows"
    if len(list(stream_tables(plans[number], catalog))) > len(
        list(stream_tables(local.input, catalog))
    ):
        return "the input is a stream, but the INSERT reads another one"
    if is_processing_time(local.input, local.time_column, catalog):
        return "the windows of the stream use processing time"
    if not node.window.closes:
        return "groups without a window are emitted more than once"
    if node.window.emit_only_on_update:
        return "the windows of the stream are emitted on updates only"
    return None


def _other_node_above(plan: Node, node: GlobalWindowAggregate) -> str | None:
    """Return a node above a window aggregate other than filters and projections, as text."""
    while plan is not node:
        if len(plan.inputs) != 1 or not isinstance(plan, Filter | Project | SqlQuery | Sink):
            return f"the INSERT applies {sql_words(plan)} to its windows"
        plan = plan.inputs[0]
    return None
