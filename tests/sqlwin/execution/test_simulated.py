"""Queries planned for test files, without Spark."""

from __future__ import annotations

import pytest

from runtime.errors import SqlSyntaxError
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.nodes import Query
from sqlwin.statements.parse import parse_statement
from tests.errors.test_errors import FLIGHTS
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

CHAIN = (
    "SELECT SUM(dep_delay) FILTER (WHERE {} > 1) AS s FROM TABLE(TUMBLE(TABLE flights, "
    "DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_start, window_end"
)


@pytest.mark.variants(1)
@pytest.mark.parametrize("road", ["simulated", "place_of"])
def test_a_deeply_nested_statement_is_an_error(monkeypatch: pytest.MonkeyPatch, road: str) -> None:
    monkeypatch.chdir(ROOT)
    session = Session(unstarted_spark(), settings={})
    session.execute(FLIGHTS)
    statement = parse_statement(CHAIN.format(" + ".join(["dep_delay"] * 6_000)))
    assert isinstance(statement, Query)
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        getattr(SessionControl(session), road)(statement)
