"""The order of a plan's streams."""

from __future__ import annotations

import pytest

from planner.catalog import StreamTable
from planner.nodes.logical import SqlQuery, TableScan
from planner.streams.tables import sources_in_order
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog

WINDOWS = TableScan((), "r", parse_query("SELECT * FROM r"))
CATALOG = Catalog(StreamTable("r", None), StreamTable("q", None), StreamTable("p", None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT k FROM __input__ UNION ALL SELECT k FROM q", ("r", "q")),
        ("SELECT k FROM q UNION ALL SELECT k FROM __input__", ("q", "r")),
        ("SELECT k FROM p UNION ALL SELECT k FROM q UNION ALL SELECT k FROM r", ("p", "q", "r")),
        ("SELECT * FROM (SELECT k FROM q) UNION ALL SELECT k FROM r", ("q", "r")),
        ("SELECT a.k FROM q AS a JOIN bounded USING (k) UNION ALL SELECT k FROM q", ("q",)),
    ],
)
def test_sources_are_in_the_order_of_the_text(text: str, expected: tuple[str, ...]) -> None:
    plan = SqlQuery((), parse_query(text), (("__input__", WINDOWS),))
    assert sources_in_order(plan, CATALOG) == expected
