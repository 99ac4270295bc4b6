"""EXPLAIN ANALYZE of queries that run in this process."""

from __future__ import annotations

import pytest

from runtime.plan import arrow_rows as relations
from runtime.plan.arrow_rows import NeighbourRows, OrderedRows
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from sqlwin.execution.analyze_in_process import _NAMES, _OF_PARTIALS

# The base class, nodes whose operator depends on their fields, and those that only SQL computes
NOT_LISTED = {PlanNode, MergedWindows, OrderedRows, NeighbourRows}


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(relations).values()
        if isinstance(kind, type)
        and issubclass(kind, PlanNode)
        and kind not in NOT_LISTED
        and not issubclass(kind, _OF_PARTIALS)
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_relation_has_an_operator_as_in_explain(kind: type[PlanNode]) -> None:
    assert _NAMES[kind] != kind.__name__
