"""Rows of windows on a stream: kept where what is above needs whole windows."""

from __future__ import annotations

from planner.nodes.logical import (
    Aggregate,
    Node,
    Project,
    WindowDeduplicate,
    WindowJoin,
    WindowRank,
    WindowTableFunction,
)
from planner.optimizer import Options, Refusal
from planner.streams.kept_rows import with_kept_rows
from planner.streams.tables import comes_whole
from runtime.spec.windows import Session


def keep_window_rows(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the rows of windows where what is above needs all rows of a window at once.

    On a stream rows come one after the other. Top-N, deduplication, joins and groupings of windows
    take whole ones; and what session a row is in is known when the session is over. So the rows
    are kept until the window closes: see `planner.streams.kept_rows`.

    Refused where a column cannot be grouped by.
    """
    if options.catalog is None:
        return None
    if isinstance(node, Project):
        below = node.input
        if not isinstance(below, WindowTableFunction) or not isinstance(below.window, Session):
            return None
    elif not isinstance(node, WindowRank | WindowDeduplicate | WindowJoin | Aggregate):
        return None
    if comes_whole(node, options.catalog):
        return None
    if isinstance(node, Project):
        return with_kept_rows(node, options.catalog)
    inputs = []
    for child in node.inputs:
        whole = comes_whole(child, options.catalog)
        kept = child if whole else with_kept_rows(child, options.catalog)
        if isinstance(kept, Refusal):
            return kept
        inputs.append(kept)
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return None
    return node.with_inputs(*inputs)
