"""EXPLAIN ANALYZE of queries that run in this process."""

from __future__ import annotations

import pytest

from runtime.spec.in_process import relations
from runtime.spec.in_process.relations import AssignedRows, MergedWindows, OrderedRows, Rows
from sqlwin.execution.analyze_in_process import _NAMES

# A base class, and relations whose operator depends on their fields
NAMED_BY_FIELDS = {AssignedRows, MergedWindows, OrderedRows}


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(relations).values()
        if isinstance(kind, type)
        and issubclass(kind, Rows)
        and kind not in {Rows, *NAMED_BY_FIELDS}
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_relation_has_an_operator_as_in_explain(kind: type[Rows]) -> None:
    assert _NAMES[kind] != kind.__name__
