"""The way from a rank over a stream's windows down to where the rows that it ranks are buffered."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.nodes.logical import Node, WindowDeduplicate, WindowRank, WindowRows
from planner.nodes.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.nodes.properties import selected
from planner.sql.build import column, to_sql
from runtime.spec.ranks import RankOrder


@dataclass(frozen=True)
class PathToRows:
    """The nodes from the rows that are ranked down to the local aggregate that buffers them."""

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


def path_to_rows(node: Node) -> PathToRows | None:
    """The path through buffered rows, if nothing on it chooses among them."""
    nodes: list[Node] = []
    while not isinstance(node, LocalWindowAggregate):
        is_between = isinstance(node, WindowRows | GlobalWindowAggregate | Exchange)
        if not is_between and selected(node) is None:
            return None
        nodes.append(node)
        (node,) = node.inputs
    # rows of windows alone are ranked as they came; what was aggregated has another meaning
    is_kept = any(isinstance(each, WindowRows) for each in nodes)
    return PathToRows(tuple(nodes), node) if is_kept else None


def chooses_first_rows(node: WindowRank | WindowDeduplicate) -> bool:
    """Whether only rows are buffered below that can be among the first of this rank."""
    path = path_to_rows(node.input)
    return path is not None and path.local.first is not None


def ranking(
    node: WindowRank | WindowDeduplicate,
) -> tuple[str, int, int, tuple[exp.Ordered, ...]]:
    """The function of a Top-N, its first and last rank, and its ORDER BY; of deduplication too."""
    if isinstance(node, WindowRank):
        return node.rank_type, node.rank_start, node.rank_end, node.order_by
    order = exp.Ordered(this=column(node.order_key), desc=node.keep == "LastRow")
    return "ROW_NUMBER", 1, 1, (order,)


def rank_order(name: str, ordered: exp.Ordered) -> RankOrder:
    """The order by a column, as Spark reads it.

    NULLs are the smallest values unless the text says where they are.
    """
    is_descending = bool(ordered.args.get("desc"))
    text = to_sql(ordered).upper()
    nulls_first = not is_descending
    if text.endswith("NULLS FIRST") or text.endswith("NULLS LAST"):
        nulls_first = text.endswith("NULLS FIRST")
    return RankOrder(name, is_descending, nulls_first)
