"""Top-N of the rows of a stream's windows: most rows need not be kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.logical import Node, WindowDeduplicate, WindowRank, WindowRows
from planner.optimizer import Options, Refusal
from planner.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.rank_order import rank_order
from planner.selections import selected
from planner.sql import bare_column, column
from runtime.spec import Session
from runtime.stream_spec import FirstRows


def push_rank_into_local_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Keep of the rows of a slice only those that can be among the first N of a window.

    For Top-N and deduplication over rows that a stream keeps until their windows close: a row has
    no better rank in a window than among the rows of its slice in one task and micro-batch, so
    that those behind the N-th there neither travel nor are kept. Flink's window Top-N keeps N rows
    of a window too (TopNBuffer).

    Refused where what ranks is computed after the rows were kept, and for sessions, of which every
    row tells how long they are.
    """
    if not isinstance(node, WindowRank | WindowDeduplicate):
        return None
    path = _path(node.input)
    if path is None or path.local.first is not None:
        return None
    if isinstance(path.local.window, Session):
        return Refusal("what rows a session has tells how long it is")
    by = tuple(path.key(name) for name in node.partition_by)
    orders = []
    for ordered in _order_by(node):
        name = bare_column(ordered.this)
        key = None if name is None else path.key(name)
        if key is None:
            return Refusal("what ranks them is computed after rows were kept")
        orders.append(rank_order(key, ordered))
    if None in by:
        return Refusal("the columns that they are ranked in are computed after rows were kept")
    first = FirstRows(
        tuple(filter(None, by)),
        tuple(orders),
        node.rank_type if isinstance(node, WindowRank) else "ROW_NUMBER",
        node.rank_end if isinstance(node, WindowRank) else 1,
    )
    return node.with_inputs(path.over(replace(path.local, first=first)))


def _order_by(node: WindowRank | WindowDeduplicate) -> tuple[exp.Ordered, ...]:
    if isinstance(node, WindowRank):
        return node.order_by
    return (exp.Ordered(this=column(node.order_key), desc=node.keep == "LastRow"),)


@dataclass(frozen=True)
class _Path:
    """The nodes from the rows that are ranked down to the local aggregate that keeps them."""

    nodes: tuple[Node, ...]
    local: LocalWindowAggregate

    def key(self, name: str) -> str | None:
        """The key of the local aggregate that is handed on under a name."""
        for node in self.nodes:
            found = selected(node)
            if found is not None:
                if name.lower() not in found[1]:
                    return None
                name = found[1][name.lower()]
        return next((k.name for k in self.local.keys if k.name.lower() == name.lower()), None)

    def over(self, local: LocalWindowAggregate) -> Node:
        """The same over another local aggregate."""
        below: Node = local
        for node in reversed(self.nodes):
            below = node.with_inputs(below)
        return below


def _path(node: Node) -> _Path | None:
    """The path through rows that are kept, if nothing on it chooses among them."""
    nodes: list[Node] = []
    while not isinstance(node, LocalWindowAggregate):
        is_between = isinstance(node, WindowRows | GlobalWindowAggregate | Exchange)
        if not is_between and selected(node) is None:
            return None
        nodes.append(node)
        (node,) = node.inputs
    # rows of windows alone are ranked as they came; what was aggregated has another meaning
    is_kept = any(isinstance(each, WindowRows) for each in nodes)
    return _Path(tuple(nodes), node) if is_kept else None
