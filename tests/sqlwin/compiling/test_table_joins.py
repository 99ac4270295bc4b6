"""Compiled joins without windows, and as-of joins next to them: the rows of the engines' own joins.

DuckDB runs the queries as they are written.
"""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import sqlwin
from runtime.simulator.compare import is_same
from sqlwin.compiling.scripts import Compiler
from tests.engines import ENGINES, engine

SCHEMA = """
CREATE TABLE trades (ts TIMESTAMP(6), sym STRING, qty INT, d DOUBLE);
CREATE TABLE quotes (ts TIMESTAMP(6), sym STRING, bid DOUBLE);
CREATE TABLE rates (ts TIMESTAMP(6), cur STRING, rate DOUBLE);
CREATE TABLE names (sym STRING, name STRING, cur STRING, least BIGINT, d DOUBLE);
"""
NAMES = "names AS n ON t.sym = n.sym"
QUOTES = "quotes AS q ON t.sym = q.sym AND t.ts >= q.ts"
RATES = "rates AS r ON n.cur = r.cur AND t.ts >= r.ts"
QUERIES = {
    "inner": f"SELECT t.ts, n.sym, name, qty + least AS x FROM trades AS t JOIN {NAMES}",
    "left": f"SELECT t.*, name FROM trades AS t LEFT JOIN {NAMES} AND t.qty > n.least",
    "right": f"SELECT qty, n.* FROM trades AS t RIGHT JOIN {NAMES} AND t.qty > n.least",
    "full": f"SELECT qty, t.sym AS a, n.sym AS b FROM trades AS t FULL JOIN {NAMES} WHERE qty IS NULL"
    " OR least > 1",
    "semi": f"SELECT * FROM trades AS t SEMI JOIN {NAMES} AND least > 1",
    "anti": f"SELECT sym, qty FROM trades AS t ANTI JOIN {NAMES}",
    "types": "SELECT t.sym AS a, n.sym AS b FROM trades AS t JOIN names AS n ON t.qty = n.least "
    "AND t.sym = n.sym",
    "doubles": "SELECT t.sym, n.name FROM trades AS t JOIN names AS n ON t.d = n.d",
    "using": "SELECT sym, qty, name FROM trades LEFT JOIN names USING (sym)",
    "full using": "SELECT sym, qty, name FROM trades FULL JOIN names USING (sym)",
    "three": f"SELECT t.qty, name, r.rate FROM trades AS t JOIN {NAMES} LEFT JOIN rates AS r ON "
    "n.cur = r.cur AND r.ts = t.ts",
    "grouped": f"SELECT n.cur, SUM(qty) AS s, COUNT(*) AS c FROM trades AS t LEFT JOIN {NAMES} "
    "GROUP BY n.cur",
    "ordered": f"SELECT name, qty AS least FROM trades AS t JOIN {NAMES} ORDER BY least NULLS FIRST, "
    "name NULLS FIRST, t.ts LIMIT 7",
    "names, quotes": f"SELECT t.ts, name, bid FROM trades AS t JOIN {NAMES} ASOF JOIN {QUOTES}",
    "quotes, names": f"SELECT t.ts, name, bid FROM trades AS t ASOF LEFT JOIN {QUOTES} LEFT JOIN "
    f"{NAMES} WHERE bid > 3 OR name IS NULL",
    "all": f"SELECT t.ts, q.sym, bid * rate AS x FROM trades AS t ASOF LEFT JOIN {QUOTES} LEFT JOIN "
    f"{NAMES} ASOF LEFT JOIN {RATES}",
}


def tables() -> dict[str, pa.Table]:
    """Return tables whose keys are NULL now and then. No two rows of a table have the same time."""
    draw = random.Random(7)

    def times(n: int) -> pa.Array:
        return pa.array(draw.sample(range(-500, 500), n), pa.timestamp("us"))

    def keys(n: int, of: str) -> pa.Array:
        return pa.array([draw.choice([*of, None]) for _ in range(n)])

    def doubles(n: int) -> pa.Array:
        return pa.array([draw.choice([0.0, -0.0, 1.5, float("nan"), None]) for _ in range(n)])

    def whole(n: int) -> pa.Array:
        return pa.array([draw.choice([0, 1, 2, 5, None]) for _ in range(n)], pa.int64())

    qty = whole(40).cast(pa.int32())
    return {
        "trades": pa.table({"ts": times(40), "sym": keys(40, "abc"), "qty": qty, "d": doubles(40)}),
        "quotes": pa.table(
            {"ts": times(60), "sym": keys(60, "abcd"), "bid": whole(60).cast("double")}
        ),
        "rates": pa.table(
            {"ts": times(60), "cur": keys(60, "xy"), "rate": whole(60).cast("double")}
        ),
        "names": pa.table(
            {
                "sym": ["a", "b", "b", "d", None],
                "name": ["A", "B", None, "D", "N"],
                "cur": ["x", "y", None, "x", "x"],
                "least": pa.array([0, 2, None, 5, 1], pa.int64()),
                "d": [0.0, float("nan"), 1.5, None, 9.0],
            }
        ),
    }


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    """Return rows in the order of their texts, where -0.0 is 0.0."""
    rows = [
        tuple(v + 0.0 if isinstance(v, float) else v for v in r.values()) for r in table.to_pylist()
    ]
    return sorted(rows, key=repr)


def on_duckdb(text: str, given: dict[str, pa.Table]) -> pa.Table:
    """Run a text on DuckDB."""
    with duckdb.connect() as connection:
        for name, rows in given.items():
            connection.register(name, rows)
        return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize("name", ["duckdb", *sorted(ENGINES)])
def test_joins_have_the_rows_of_duckdb(name: str) -> None:
    given = tables()
    with Compiler(name) as compiler:
        compiler.define(SCHEMA)
        texts = list(compiler.queries(";".join(QUERIES.values())))
    wrong = []
    for (label, query), text in zip(QUERIES.items(), texts, strict=True):
        there = on_duckdb(text, given) if name == "duckdb" else engine(name).run(text, given)
        wanted = on_duckdb(query, given)
        assert wanted.num_rows
        if not is_same(rows_of(there), rows_of(wanted)):
            wrong.append(label)
    assert not wrong


@pytest.mark.parametrize(
    ("joins", "message"),
    [
        ("CROSS JOIN names AS n", "only Spark knows this CROSS JOIN"),
        ("LEFT JOIN names AS n ON t.qty > n.least", "joins without equal columns"),
        (
            "JOIN names AS n ON t.sym = n.sym JOIN quotes AS n ON t.ts = n.ts",
            "only Spark knows this JOIN",
        ),
        ("NATURAL JOIN names AS n", "only Spark knows this NATURAL JOIN"),
    ],
)
def test_other_joins_are_refused_with_the_reason(joins: str, message: str) -> None:
    with pytest.raises(sqlwin.SqlwinError, match=message):
        sqlwin.compile(f"SELECT t.qty, n.sym FROM trades AS t {joins}", "duckdb", schema=SCHEMA)
