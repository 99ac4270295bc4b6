"""Rows of sessions on a stream: kept until the session is over."""

from __future__ import annotations

from planner.nodes.logical import Node, WindowTableFunction
from planner.optimizer import Options, Refusal
from planner.streams.kept_rows import kept_rows
from planner.streams.tables import streams_of
from runtime.spec.windows import Session


def keep_session_rows(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the rows of sessions with all their columns, where nothing above told which it reads.

    What session a row is in is known when the session is over. Refused where a column cannot be
    grouped by.
    """
    if options.catalog is None or not isinstance(node, WindowTableFunction):
        return None
    if not isinstance(node.window, Session) or not streams_of(node, options.catalog):
        return None
    return kept_rows(node, None)
