"""When a row's watermark is omitted because it is a fixed delay behind the row's time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import exp

from planner.catalog import StreamTable
from planner.nodes.logical import Filter, NamedExpr, Node, Project, SqlQuery, TableScan
from planner.nodes.physical import LocalWindowAggregate
from planner.sql.build import column
from planner.streams.delay import wall_clock_delay_us
from runtime.spec.table import Watermark
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog
from tests.planner.rules.test_share_window_slices import (
    COLUMNS,
    MINUTE,
    exchange_below,
    window_aggregate,
)

SCAN = TableScan(COLUMNS, "t", exp.select("*").from_("t"))
SECOND = 1_000_000


def delay(watermark: Watermark | None, over=SCAN) -> int | None:
    local = exchange_below(window_aggregate(Tumble(MINUTE), over=over)).input
    assert isinstance(local, LocalWindowAggregate)
    return wall_clock_delay_us(local, Catalog(StreamTable("t", watermark)))


@pytest.mark.parametrize(
    ("expression", "us"),
    [
        ("ts", 0),
        ("`TS`", 0),
        ("ts - INTERVAL '5' SECOND", 5 * SECOND),
        ("ts - INTERVAL '0.25' SECOND", 250_000),
        ("ts - INTERVAL '1:30' HOUR TO MINUTE", 5_400 * SECOND),
        ("ts - INTERVAL '2' DAY", 172_800 * SECOND),
        ("ts - INTERVAL '1' MONTH", None),
        ("ts + INTERVAL '5' SECOND", None),
        ("ts - make_dt_interval(0, 0, 0, x)", None),
        ("DATE_TRUNC('MINUTE', ts)", None),
        ("other - INTERVAL '5' SECOND", None),
    ],
)
def test_a_plain_watermark_has_a_constant_delay(expression: str, us: int | None) -> None:
    assert delay(Watermark("ts", expression)) == us


def test_it_is_not_known_of_another_column_or_without_a_watermark() -> None:
    assert delay(None) is None
    assert delay(Watermark("other", "other")) is None


def test_filters_and_plain_projections_keep_the_delay() -> None:
    watermark = Watermark("ts", "ts - INTERVAL '5' SECOND")
    filtered = Filter(COLUMNS, SCAN, (exp.maybe_parse("x > 0"),))
    same = tuple(NamedExpr(item.name, column(item.name)) for item in COLUMNS)
    assert delay(watermark, filtered) == 5 * SECOND
    assert delay(watermark, Project(COLUMNS, filtered, same)) == 5 * SECOND
    shifted = exp.maybe_parse("ts + INTERVAL '1' HOUR")
    moved = tuple(NamedExpr("ts", shifted) if item.name == "ts" else item for item in same)
    assert delay(watermark, Project(COLUMNS, SCAN, moved)) is None


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("SELECT * FROM t", 5 * SECOND),
        ("SELECT k, ts FROM t WHERE k = 1", 5 * SECOND),
        ("SELECT a.struct.x, a.other AS ts FROM t AS a WHERE a.k = 1", 5 * SECOND),
        ("SELECT * EXCEPT (k) FROM (SELECT k, other AS ts FROM t WHERE k > 1) AS b", 5 * SECOND),
        ("SELECT * FROM below WHERE x > 0", 5 * SECOND),
        ("SELECT * EXCEPT (ts), x AS ts FROM below", None),
        ("SELECT * REPLACE (x AS ts) FROM below", None),
        ("SELECT bid.ts FROM t", None),
        ("SELECT ts + INTERVAL '1' HOUR AS ts FROM t", None),
        ("SELECT * FROM t AS a(ts, k)", None),
        ("SELECT * FROM t JOIN u ON t.k = u.k", None),
        ("SELECT DISTINCT * FROM t", None),
        ("WITH t AS (SELECT x AS ts FROM u) SELECT * FROM t", None),
        ("SELECT * FROM t UNION ALL SELECT * FROM t", None),
    ],
)
def test_subqueries_that_pass_the_column_keep_the_delay(text: str, us: int | None) -> None:
    is_renamed = "other" in text
    watermark = Watermark(*["other" if is_renamed else "ts"] * 2)
    relations: tuple[tuple[str, Node], ...] = (("below", SCAN),)
    node = SqlQuery(COLUMNS, parse_query(text), relations)
    plain = replace(watermark, expression=f"{watermark.column} - INTERVAL '5' SECOND")
    assert delay(plain, node) == us
