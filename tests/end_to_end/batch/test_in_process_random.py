"""Random queries have the same rows in this process and on Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from sqlwin.result.in_process import InProcessRows
from tests.end_to_end.batch.test_in_process_files import SETTING, comparable, path

__all__ = ["path"]

COLUMNS = {
    "city": "text",
    "rider": "text",
    "fare": "whole",
    "x": "number",
    "price": "decimal",
    "ts": "time",
    "tz": "instant",
}
SIZES = ("15' MINUTE", "1' HOUR", "7' HOUR", "1' DAY")


class Draw:
    """Draws a query over the table `trips`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.one_of = self.random.choice

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def column(self, *kinds: str) -> str:
        return self.one_of([name for name, kind in COLUMNS.items() if kind in kinds])

    def whole(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.3):
            return self.one_of(["fare", str(self.random.randrange(1, 60))])
        left, right = self.whole(depth - 1), self.whole(depth - 1)
        return self.one_of(
            [
                f"({left} {self.one_of('+-*')} {right})",
                f"(- {left})",
                f"ABS({left})",
                f"COALESCE({left}, {right})",
                f"IF({self.condition(depth - 1)}, {left}, {right})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {left} END",
                f"({left} % {self.random.randrange(2, 9)})",
            ]
        )

    def text(self, depth: int = 1) -> str:
        if depth == 0:
            return self.one_of(["city", "rider", "'Straße x'", "''"])
        inner = self.text(depth - 1)
        return self.one_of(
            [
                f"UPPER({inner})",
                f"LOWER({inner})",
                f"TRIM({inner})",
                f"CONCAT({inner}, {self.one_of(['city', 'fare', 'rider'])})",
                f"SUBSTRING({inner}, {self.random.randrange(-3, 4)}, {self.random.randrange(4)})",
                f"REPLACE({inner}, 'r', 'ß')",
                f"DATE_FORMAT(tz, {self.one_of(['yyyy-MM', 'HH:mm', 'dd.MM.yyyy'])!r})",
                f"CAST({self.one_of(['ts', 'tz', 'fare', 'price'])} AS STRING)",
                f"COALESCE({inner}, 'none')",
                f"GREATEST({inner}, city)",
            ]
        )

    def of_text_or_time(self) -> str:
        time = self.one_of(["ts", "tz"])
        return self.one_of(
            [
                f"LENGTH({self.text()})",
                f"YEAR({time})",
                f"MONTH({time})",
                f"DAY({time})",
                f"HOUR({time})",
                f"EXTRACT(MINUTE FROM {time})",
                f"DAYOFWEEK({time})",
                "FLOOR(fare / 7)",
                f"LEAST(fare, {self.random.randrange(-9, 9)})",
            ]
        )

    def decimal(self) -> str:
        other = self.one_of(["price", "fare", "2", "1.25", "-3"])
        return self.one_of(
            [
                f"(price {self.one_of('+-*')} {other})",
                "(price / NULLIF(fare, 0))",
                "(price % 7)",
                "ROUND(price / 3, 2)",
                "CAST(price AS DECIMAL(12, 1))",
                "ABS(price)",
            ]
        )

    def number(self) -> str:
        return self.one_of(
            [
                "x",
                f"(x * {self.whole(1)})",
                f"({self.whole(1)} / 4)",
                "ABS(x)",
                "(-x)",
                "(x + fare)",
            ]
        )

    def condition(self, depth: int = 2) -> str:
        if depth and self.chance(0.4):
            sides = self.condition(depth - 1), self.condition(depth - 1)
            return self.one_of(
                [f"({sides[0]} {self.one_of(['AND', 'OR'])} {sides[1]})", f"(NOT {sides[0]})"]
            )
        operator = self.one_of(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        return self.one_of(
            [
                f"({self.whole(0)} {operator} {self.random.randrange(-50, 50)})",
                f"(x {operator} {self.one_of(['0.0', '50.5', '1e300', 'fare'])})",
                f"(city {operator} '{self.one_of('abz')}')",
                f"({self.column(*COLUMNS.values())} IS {self.one_of(['', 'NOT '])}NULL)",
                f"(ts {operator} TIMESTAMP_NTZ '2024-03-3{self.random.randrange(2)} 0{self.random.randrange(9)}:00:00')",
                f"(rider LIKE {self.one_of(['r1%', '%2', 'r_', '%1%'])!r})",
                f"({self.decimal()} {operator} 1.5)",
                f"({self.of_text_or_time()} {operator} 3)",
                "(fare IN (1, 2, 3, 30))",
                "(fare BETWEEN -10 AND 10)",
            ]
        )

    def aggregate(self) -> str:
        value = self.one_of([self.whole(1), "x", "price", "fare"])
        call = self.one_of(
            [
                "COUNT(*)",
                f"COUNT({self.column(*COLUMNS.values())})",
                f"SUM({self.one_of([self.whole(1), 'price', 'fare'])})",
                f"AVG({self.whole(1)})",
                f"MIN({self.one_of([value, 'city', 'ts', 'tz'])})",
                f"MAX({self.one_of([value, 'rider', 'ts', 'tz'])})",
                "COUNT(DISTINCT rider)",
                "AVG(price)",
                f"SUM({self.decimal()})",
                f"MAX({self.text()})",
                f"MIN({self.of_text_or_time()})",
                f"SUM(DISTINCT {self.whole(1)})",
                f"VAR_SAMP({self.whole(1)})",
            ]
        )
        return f"{call} FILTER (WHERE {self.condition(1)})" if self.chance(0.15) else call

    def window(self) -> str:
        time = self.one_of(["ts", "ts", "tz"])
        big, small = self.one_of(SIZES[1:]), self.one_of(SIZES[:2])
        return self.one_of(
            [
                f"TUMBLE(TABLE trips, DESCRIPTOR({time}), INTERVAL '{big})",
                f"HOP(TABLE trips, DESCRIPTOR({time}), INTERVAL '{small}, INTERVAL '{big})",
                f"CUMULATE(TABLE trips, DESCRIPTOR({time}), INTERVAL '{SIZES[1]}, INTERVAL '{SIZES[3]})",
            ]
        )

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.chance(0.6) else ""

    def rows(self) -> str:
        items = [self.column(*COLUMNS.values()), self.whole(), self.number(), self.condition(1)]
        items += [self.text(2), self.of_text_or_time(), self.decimal()]
        chosen = self.random.sample(items, self.random.randrange(1, 6))
        named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(chosen))
        order = ", ".join(
            f"c{i} {self.one_of(['', 'DESC', 'NULLS LAST'])}" for i in range(len(chosen))
        )
        tail = f" ORDER BY {order} LIMIT {self.random.randrange(1, 60)}" if self.chance(0.5) else ""
        distinct = "DISTINCT " * self.chance(0.2)
        return f"SELECT {distinct}{named} FROM trips{self.where()}{tail}"

    def groups(self, source: str = "trips", keys: tuple[str, ...] = ()) -> str:
        expressions = [self.text(), self.of_text_or_time()]
        if keys:
            expressions = []  # windows are grouped by columns
        columns = ["city", "rider", "x", "fare", "price", *expressions]
        own = self.random.sample(columns, self.random.randrange(3))
        calls = [self.aggregate() for _ in range(self.random.randrange(1, 4))]
        calls = [
            f"{c} + {self.whole(0)}" if c == "COUNT(*)" and "fare" in own else c for c in calls
        ]
        items = [*own, *keys, *(f"{call} AS a{i}" for i, call in enumerate(calls))]
        group = f" GROUP BY {', '.join([*own, *keys])}" if own or keys else ""
        having = " HAVING COUNT(*) > 2" if self.chance(0.3) else ""
        return f"SELECT {', '.join(items)} FROM {source}{self.where()}{group}{having}"

    def windows(self) -> str:
        return self.groups(f"TABLE({self.window()})", ("window_start", "window_end"))

    def above_windows(self) -> str:
        below = self.windows()
        return self.one_of(
            [
                f"SELECT COUNT(*) AS n, MAX(a0) AS m, MIN(window_end) AS w FROM ({below}) AS w",
                f"SELECT window_end, COUNT(*) AS n FROM ({below}) AS w GROUP BY window_end",
                f"SELECT a0, window_end FROM ({below}) AS w ORDER BY a0, window_end LIMIT 9",
                f"SELECT window_start, COUNT(DISTINCT a0) AS n FROM ({below}) AS w GROUP BY 1",
            ]
        )

    def query(self) -> str:
        return self.one_of([self.rows, self.groups, self.windows, self.above_windows])()


@pytest.fixture
def session(fresh_session: sqlwin.Session, path: Path) -> Iterator[sqlwin.Session]:
    fresh_session.execute(
        f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}')"
    )
    return fresh_session


def outcome(session: sqlwin.Session, sql: str) -> tuple[bool, pa.Table | None]:
    """Whether this process has computed the rows, and the rows; None for an error."""
    try:
        (result,) = session.execute(sql)
        return isinstance(result.data, InProcessRows), result.to_arrow()
    except sqlwin.SqlwinError:
        return True, None


@pytest.mark.parametrize(
    "seeds",
    [
        range(8),
        pytest.param(range(8, 28), marks=pytest.mark.long),
        pytest.param(range(28, 158), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_random_queries_have_the_rows_of_spark(session: sqlwin.Session, seeds: range) -> None:
    n_in_process = 0
    for seed in seeds:
        sql = Draw(seed).query()
        session.execute(f"SET '{SETTING}' = '1 gb'")
        is_in_process, in_process_rows = outcome(session, sql)
        n_in_process += is_in_process
        if not is_in_process:
            continue
        session.execute(f"SET '{SETTING}' = '0'")
        _, spark_rows = outcome(session, sql)
        assert (in_process_rows is None) == (spark_rows is None), f"seed {seed}: {sql}"
        if in_process_rows is not None and spark_rows is not None:
            assert in_process_rows.schema.types == spark_rows.schema.types, f"seed {seed}: {sql}"
            assert comparable(in_process_rows) == comparable(spark_rows), f"seed {seed}: {sql}"
    # the others check nothing
    assert n_in_process > len(seeds) // 2
