"""ASOF JOIN becomes a join with a LATERAL subquery, in the forms of Snowflake and DuckDB."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.joins.as_of_join import rewrite_as_of_joins
from planner.catalog import Schema
from planner.sql.build import to_sql
from runtime.errors import AnalysisError
from runtime.spec.table import Column
from sqlwin.parser.parser import parse_query

COLUMNS = {"l": ("k", "ts", "v"), "r": ("k", "ts", "w")}


def schema_of(query: exp.Query) -> Schema | None:
    """Return the columns of `SELECT * FROM` a table."""
    assert isinstance(query, exp.Select)
    table = query.find(exp.Table)
    assert table is not None
    return tuple(Column(name, "int") for name in COLUMNS[table.name])


def rewritten(join: str) -> str:
    sql = f"SELECT * FROM l {join}"
    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    assert rewrite_as_of_joins(query, schema_of, sql, reads_streams=False)
    return to_sql(query).replace("`", "").removeprefix("SELECT * ").removeprefix("FROM l ")


LATERAL = "LATERAL (SELECT {} FROM r WHERE {} ORDER BY r.ts {} LIMIT 1) AS r ON TRUE"
FORMS = {
    # Snowflake keeps rows without a match
    "ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k": (
        "LEFT JOIN " + LATERAL.format("*", "l.ts >= r.ts AND l.k = r.k", "DESC")
    ),
    "ASOF JOIN r MATCH_CONDITION (r.ts > l.ts)": (
        "LEFT JOIN " + LATERAL.format("*", "r.ts > l.ts", "ASC")
    ),
    "ASOF INNER JOIN r MATCH_CONDITION (l.ts <= r.ts) USING (k)": (
        "EXCEPT (r.k) FROM l JOIN " + LATERAL.format("*", "l.ts <= r.ts AND l.k = r.k", "ASC")
    ),
    # DuckDB does not
    "ASOF JOIN r ON l.k = r.k AND l.ts > r.ts AND w > 3": (
        "JOIN " + LATERAL.format("*", "l.k = r.k AND l.ts > r.ts AND w > 3", "DESC")
    ),
    "ASOF LEFT JOIN r ON r.ts <= l.ts": "LEFT JOIN " + LATERAL.format("*", "r.ts <= l.ts", "DESC"),
    "ASOF JOIN r USING (k, ts)": (
        "EXCEPT (r.k, r.ts) FROM l JOIN "
        + LATERAL.format("*", "l.k = r.k AND l.ts >= r.ts", "DESC")
    ),
}


@pytest.mark.parametrize("join", FORMS)
def test_a_row_is_joined_with_the_nearest_one(join: str) -> None:
    text = rewritten(join).replace(" NULLS FIRST", "").replace(" NULLS LAST", "")
    wanted = FORMS[join]
    assert text.replace("r.ts LIMIT", "r.ts ASC LIMIT") == wanted


def test_a_table_may_have_an_alias_before_match_condition() -> None:
    text = rewritten("ASOF JOIN r AS q MATCH_CONDITION (l.ts >= q.ts)")
    assert "FROM r AS q WHERE l.ts >= q.ts" in text and text.endswith(") AS q ON TRUE")


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("ASOF JOIN r ON l.k = r.k", "needs a comparison of a time of each side"),
        ("ASOF JOIN r MATCH_CONDITION (l.ts = r.ts)", "needs a comparison of a time of each side"),
        ("ASOF JOIN r MATCH_CONDITION (l.ts >= l.v)", "needs a comparison of a time of each side"),
        ("ASOF JOIN r", "needs a comparison of a time of each side"),
        ("ASOF JOIN r ON l.ts >= r.ts AND l.v > r.w", "has several comparisons by order"),
        (
            "ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.v > r.w",
            "MATCH_CONDITION must hold the only comparison by order",
        ),
        ("ASOF JOIN r ON ts >= r.ts", "column `ts` is in both sides of ASOF JOIN"),
        ("ASOF JOIN r USING (x, ts)", "column `x` in USING does not exist on the left side"),
        ("ASOF RIGHT JOIN r ON l.ts >= r.ts", "ASOF RIGHT JOIN is not supported"),
        ("ASOF JOIN (SELECT * FROM r) ON l.ts >= ts", "the right side of ASOF JOIN needs a name"),
    ],
)
def test_other_joins_are_refused_at_their_place(join: str, message: str) -> None:
    with pytest.raises(AnalysisError) as error:
        rewritten(join)
    assert message in error.value.message
    assert error.value.position is not None
