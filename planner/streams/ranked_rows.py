"""Path from a rank over a stream's windows down to its buffered rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.nodes.logical import (
    Filter,
    NetRows,
    Node,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
)
from planner.nodes.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.nodes.properties import selection_below
from planner.sql.build import bare_column, column, to_sql
from runtime.refusal import Refusal
from runtime.spec.expressions import FirstRows, RankOrder


@dataclass(frozen=True)
class PathToRows:
    """Nodes from the ranked rows down to the local aggregate that buffers them."""

    nodes: tuple[Node, ...]
    local: LocalWindowAggregate

    @property
    def has_changes(self) -> bool:
        """Whether the ranked rows remain after changes, which are buffered."""
        return any(isinstance(node, NetRows) for node in self.nodes)

    def key(self, name: str) -> str | None:
        """Return the key of the local aggregate that is passed on under a name."""
        for node in self.nodes:
            selection = selection_below(node)
            if selection is not None:
                if name.lower() not in selection[1]:
                    return None
                name = selection[1][name.lower()]
        return next((k.name for k in self.local.keys if k.name.lower() == name.lower()), None)

    def over(self, local: LocalWindowAggregate) -> Node:
        """Return the path over another local aggregate."""
        below: Node = local
        for node in reversed(self.nodes):
            below = node.with_inputs(below)
        return below


def path_to_rows(node: Node) -> PathToRows | None:
    """Return the path to the buffered rows, or None if a node on it filters them."""
    nodes: list[Node] = []
    while not isinstance(node, LocalWindowAggregate):
        is_between = isinstance(node, WindowRows | GlobalWindowAggregate | Exchange)
        is_between |= bool(nodes) and isinstance(nodes[-1], NetRows) and isinstance(node, Filter)
        if not is_between and selection_below(node) is None:
            return None
        nodes.append(node)
        (node,) = node.inputs
    # Only plain rows of windows may be reduced before ranking; aggregates are not input rows.
    is_kept = any(isinstance(step, WindowRows) for step in nodes)
    return PathToRows(tuple(nodes), node) if is_kept else None


def first_rows_of(node: WindowRank | WindowDeduplicate, path: PathToRows) -> FirstRows | Refusal:
    """Return the rows that a rank needs, as keys of the local aggregate at the end of a path."""
    by = tuple(path.key(name) for name in node.partition_by)
    orders = []
    function, _, last, order_by = ranking(node)
    for ordered in order_by:
        name = bare_column(ordered.this)
        key = None if name is None else path.key(name)
        if key is None:
            return Refusal("the ranked expressions are computed after rows are buffered")
        orders.append(rank_order(key, ordered))
    if None in by:
        return Refusal("the ORDER BY columns of the rank are computed after rows are buffered")
    return FirstRows(tuple(filter(None, by)), tuple(orders), function, last)


def chooses_first_rows(node: WindowRank | WindowDeduplicate) -> bool:
    """Return whether only rows that can be among the first of this rank are buffered below."""
    path = path_to_rows(node.input)
    return path is not None and path.local.first is not None


def ranking(
    node: WindowRank | WindowDeduplicate,
) -> tuple[str, int, int, tuple[exp.Ordered, ...]]:
    """Return the function, first rank, last rank and ORDER BY of a Top-N or deduplication."""
    if isinstance(node, WindowRank):
        return node.rank_type, node.rank_start, node.rank_end, node.order_by
    order = exp.Ordered(this=column(node.order_key), desc=node.keep == "LastRow")
    return "ROW_NUMBER", 1, 1, (order,)


def rank_order(name: str, ordered: exp.Ordered) -> RankOrder:
    """Return the order by a column with Spark's semantics.

    NULLs sort as the smallest values unless NULLS FIRST or NULLS LAST is given.
    """
    is_descending = bool(ordered.args.get("desc"))
    text = to_sql(ordered).upper()
    nulls_first = not is_descending
    if text.endswith("NULLS FIRST") or text.endswith("NULLS LAST"):
        nulls_first = text.endswith("NULLS FIRST")
    return RankOrder(name, is_descending, nulls_first)
