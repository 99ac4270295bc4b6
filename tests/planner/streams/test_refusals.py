"""Errors for queries that streams do not support point at the words in « »."""

from __future__ import annotations

import pytest

from planner.streams.refusals import GROUP_BY, StreamRefusal, refuse_stateful, refuse_subquery
from sqlwin.parser.parser import parse_query


def marked_sql(error: StreamRefusal, sql: str) -> str:
    place = error.place_in(sql).position
    assert place is not None
    end = place.offset + place.length
    return f"{sql[: place.offset]}«{sql[place.offset : end]}»{sql[end:]}"


@pytest.mark.parametrize(
    "marked",
    [
        "SELECT a FROM clicks «ORDER BY a, b» DESC",
        "SELECT a FROM (SELECT a FROM clicks «order\n  by b») x",
        "SELECT a FROM clicks «SORT BY a»",
        "SELECT a FROM clicks «ORDER BY /* newest ( first */ -- (\n a»",
        "SELECT COUNT(*), ' GROUP BY ' FROM clicks «GROUP BY a, CONCAT(b, ')')»",
        "SELECT a FROM clicks «LIMIT 5»",
        "SELECT a FROM clicks «OFFSET 5»",
        "SELECT «DISTINCT» a, b FROM clicks",
        "SELECT COUNT(*) FROM clicks «GROUP BY a, b»",
        "SELECT a, «MAX(b)» FROM clicks",
        "SELECT a, «ROW_NUMBER() OVER (PARTITION BY a ORDER BY b)» AS n FROM clicks",
        "SELECT a FROM rest JOIN clicks ON b = c JOIN «clicks AS other» ON b = d",
        "SELECT a FROM clicks «UNION» SELECT b FROM rest",
        "SELECT a FROM clicks «UNION DISTINCT» (SELECT b FROM rest)",
        "SELECT a FROM clicks «EXCEPT» SELECT b FROM rest",
        "SELECT a FROM rest «INTERSECT» SELECT b FROM clicks",
        "SELECT a FROM clicks WHERE b IN («SELECT b FROM clicks») AND a > 1",
    ],
)
def test_refusals_point_at_the_refused_words(marked: str) -> None:
    sql = marked.replace("«", "").replace("»", "")
    with pytest.raises(StreamRefusal) as caught:
        refuse_stateful(parse_query(sql), lambda table: table.name == "clicks")
    assert marked_sql(caught.value, sql) == marked
    assert caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, b + 1 FROM clicks WHERE a > 1",
        "SELECT a FROM clicks UNION ALL SELECT b FROM clicks",
        "SELECT a FROM clicks JOIN (SELECT DISTINCT b FROM rest ORDER BY b LIMIT 5) r ON a = b",
        "SELECT a FROM clicks WHERE a IN (SELECT b FROM rest)",
    ],
)
def test_stateless_queries_are_accepted(sql: str) -> None:
    refuse_stateful(parse_query(sql), lambda table: table.name == "clicks")


def test_a_subquery_over_a_stream_is_refused_before_spark() -> None:
    sql = "SELECT a FROM rest WHERE b = (SELECT MAX(b) FROM clicks)"
    refused = refuse_subquery(parse_query(sql), lambda table: table.name == "clicks")
    assert refused is not None
    assert marked_sql(refused, sql) == "SELECT a FROM rest WHERE b = «(SELECT MAX(b) FROM clicks)»"
    assert refuse_subquery(parse_query(sql), lambda table: False) is None


def test_words_that_are_not_known_leave_the_error_without_a_place() -> None:
    assert StreamRefusal("no", "yes", None, GROUP_BY).place_in("SELECT 1").position is None
