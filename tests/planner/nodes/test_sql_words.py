"""Reasons name SQL constructs instead of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import planner.nodes.physical
from planner.nodes.joins import Join, WindowJoin
from planner.nodes.logical import Expand, Node, SqlQuery, UnaryNode, WindowedNode, WindowRank
from planner.nodes.physical import Exchange, SharedExchange, SharedSlices
from planner.nodes.sql_words import sql_words

# Base classes, and nodes that compute nothing of a query
WITHOUT_WORDS = {
    Node,
    UnaryNode,
    Join,
    WindowedNode,
    SqlQuery,
    Exchange,
    SharedExchange,
    SharedSlices,
}


def kinds_of_nodes(kind: type[Node] = Node) -> Iterator[type[Node]]:
    """Yield the node classes of the planner."""
    yield kind
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith(planner.nodes.__name__):
            yield from kinds_of_nodes(subclass)


@pytest.mark.parametrize(
    "kind", sorted(set(kinds_of_nodes()) - WITHOUT_WORDS, key=lambda kind: kind.__name__)
)
def test_every_node_that_computes_rows_has_words(kind: type[Node]) -> None:
    words = sql_words(object.__new__(kind))
    assert words != "SQL"
    assert kind.__name__ not in words


def test_grouping_sets_rank_and_join_are_named_as_in_sql() -> None:
    kinds = (Expand, WindowRank, WindowJoin)
    assert [sql_words(object.__new__(kind)) for kind in kinds] == [
        "GROUPING SETS, ROLLUP or CUBE",
        "rankings such as ROW_NUMBER",
        "joins of windows",
    ]
