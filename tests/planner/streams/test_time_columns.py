"""Which time columns are processing time, and which ones watermarks follow."""

from __future__ import annotations

from typing import Any

import pytest

from planner.catalog import StreamTable
from planner.nodes.logical import Filter, NamedExpr, Project, SqlQuery, TableScan
from planner.sql.build import column
from planner.sql.flink_functions import rewrite_functions
from planner.streams.time_columns import check_time, is_processing_time
from runtime.errors import AnalysisError
from runtime.spec.table import Column, Watermark
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog

CLICKS = StreamTable("clicks", None, frozenset({"pt"}))


def is_on_processing_time(sql: str, name: str, **relations: Any) -> bool:
    catalog: Any = Catalog(CLICKS, StreamTable("orders", None))
    return is_processing_time(SqlQuery((), bound(sql), tuple(relations.items())), name, catalog)


def bound(sql: str) -> Any:
    tree = parse_query(sql)
    rewrite_functions(tree)
    return tree


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM clicks", "PT"),
        ("SELECT page, pt AS at FROM clicks WHERE page > 1", "at"),
        ("SELECT *, PROCTIME() AS now FROM orders", "now"),
        ("SELECT *, CURRENT_TIMESTAMP AS now FROM orders", "now"),
        ("SELECT c.*, n.name FROM clicks c JOIN names n ON c.k = n.k", "pt"),
        ("SELECT n.name, c.pt FROM names n JOIN clicks AS c ON c.k = n.k", "pt"),
        ("SELECT t FROM (SELECT pt AS t FROM (SELECT * FROM clicks))", "t"),
        ("WITH a AS (SELECT pt AS t FROM clicks), b AS (SELECT * FROM a) SELECT t FROM b", "t"),
        ("SELECT pt FROM clicks UNION ALL SELECT PROCTIME() FROM orders", "pt"),
        ("SELECT * FROM clicks UNION ALL SELECT * FROM clicks", "pt"),
    ],
)
def test_processing_time_is_traced_to_its_column(sql: str, name: str) -> None:
    assert is_on_processing_time(sql, name)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM orders", "pt"),
        ("SELECT ts AS pt FROM clicks", "pt"),
        ("SELECT pt + INTERVAL '1' HOUR AS later FROM clicks", "later"),
        ("SELECT o.pt FROM clicks c JOIN orders o ON c.k = o.k", "pt"),
        ("SELECT CAST('2026-01-01' AS TIMESTAMP) AS pt FROM clicks", "pt"),
    ],
)
def test_other_times_are_no_processing_time(sql: str, name: str) -> None:
    assert not is_on_processing_time(sql, name)


def test_nodes_of_a_plan_hand_processing_time_on() -> None:
    catalog: Any = Catalog(CLICKS, StreamTable("orders", None))
    scan = TableScan((), "clicks", bound("SELECT * FROM clicks"))
    renamed = Project((), Filter((), scan, ()), (NamedExpr("at", column("pt")),))
    assert is_processing_time(renamed, "at", catalog)
    assert is_on_processing_time("SELECT at AS t FROM below", "t", below=renamed)
    assert not is_processing_time(renamed, "pt", catalog)


def test_two_kinds_of_time_in_one_column_are_refused() -> None:
    with pytest.raises(AnalysisError, match="`t` is processing time in one part"):
        is_on_processing_time("SELECT pt AS t FROM clicks UNION ALL SELECT ts FROM orders", "t")


BIDS = (Column("ts", "timestamp_ntz"), Column("other", "timestamp_ntz"))
# the query's source, and the time column of the windows
AT = [
    ("SELECT * FROM bids", "{}"),
    ("SELECT {} AS at FROM bids WHERE k > 1", "at"),
    ("SELECT at FROM (SELECT {} AS at FROM (SELECT * FROM bids))", "at"),
    ("WITH b AS (SELECT {} AS at FROM bids) SELECT * FROM b", "at"),
    ("SELECT b.{} FROM names n JOIN bids AS b ON b.k = n.k", "{}"),
    ("SELECT ts AS at FROM bids UNION ALL SELECT {} FROM bids", "at"),
]


def check_time_of(sql: str, name: str) -> None:
    catalog: Any = Catalog(StreamTable("bids", Watermark("ts", "ts")), columns=BIDS)
    check_time(SqlQuery((), bound(sql)), name, catalog)


@pytest.mark.parametrize(("sql", "name"), AT)
def test_windows_on_another_column_than_the_watermark_follows_are_refused(
    sql: str, name: str
) -> None:
    check_time_of(sql.format("ts"), name.format("ts"))
    with pytest.raises(AnalysisError, match="the watermark of `bids` is on `ts`"):
        check_time_of(sql.format("other"), name.format("other"))


def test_windows_on_computed_times_are_accepted() -> None:
    check_time_of("SELECT * FROM bids LATERAL VIEW EXPLODE(times) e AS at", "at")
    check_time_of("SELECT CAST(k AS TIMESTAMP) AS at FROM bids", "at")
