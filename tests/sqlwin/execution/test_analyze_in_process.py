"""EXPLAIN ANALYZE of queries that run in this process."""

from __future__ import annotations

import pytest

from runtime.plan import rows as relations
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.plan.rows import OrderedRows
from sqlwin.execution.analyze_in_process import _NAMES, _OF_PARTIALS

# The base class, and nodes whose operator depends on their fields
NAMED_BY_FIELDS = {PlanNode, MergedWindows, OrderedRows}


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(relations).values()
        if isinstance(kind, type)
        and issubclass(kind, PlanNode)
        and kind not in NAMED_BY_FIELDS
        and not issubclass(kind, _OF_PARTIALS)
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_relation_has_an_operator_as_in_explain(kind: type[PlanNode]) -> None:
    assert _NAMES[kind] != kind.__name__
