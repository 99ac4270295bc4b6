"""Planning cost grows linearly with the length of a statement, at any depth."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from cProfile import Profile

import pytest
from sqlglot import exp

from planner.catalog import Schema, StreamTable
from planner.lowering.plan import lower
from planner.lowering.stream.steps import lower_stream
from planner.optimizer import Options
from planner.plan import plan_query
from planner.sql.depth import deep_trees
from runtime.errors import AnalysisError, SqlSyntaxError
from runtime.spec.table import Column, Watermark
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog as Tables

N_KEYS = 12
TYPES = {"ts": "timestamp_ntz", "x": "bigint", **{f"k{i}": "int" for i in range(N_KEYS)}}


class Catalog(Tables):
    """A table of any name; column types follow from column names."""

    def __init__(self, *, is_stream: bool, types: Mapping[str, str] = TYPES) -> None:
        super().__init__()
        self.types = types
        self.table = StreamTable("t", Watermark("ts", "ts")) if is_stream else None
        self.n_analyzed = 0

    @property
    def columns(self) -> Schema:
        return tuple(Column(name, type_) for name, type_ in self.types.items())

    def stream(self, name: tuple[str, ...]) -> StreamTable | None:
        return self.table

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        self.n_analyzed += 1
        return self._schema(query, {name.lower(): schema for name, schema in relations.items()})

    def _schema(self, query: exp.Expr, schemas: Mapping[str, Schema]) -> Schema:
        query = query.unnest()
        while isinstance(query, exp.Union):
            query = query.this.unnest()
        assert isinstance(query, exp.Select)
        for cte in query.ctes:
            schemas = {**schemas, cte.alias.lower(): self._schema(cte.this, schemas)}
        result: list[Column] = []
        for item in query.expressions:
            if item.is_star:
                source = query.args["from_"].this
                is_table = isinstance(source, exp.Table)
                result += (
                    schemas.get(source.name.lower(), self.columns)
                    if is_table
                    else self._schema(source, schemas)
                )
            else:
                name = item.alias_or_name
                is_time = name.startswith("window_")
                result.append(
                    Column(name, "timestamp_ntz" if is_time else self.types.get(name, "bigint"))
                )
        return tuple(result)


def plan_and_lower(sql: str, *, is_stream: bool = False) -> Catalog:
    """Plan and lower a query."""
    catalog = Catalog(is_stream=is_stream)
    with deep_trees(sql):
        plan = plan_query(parse_query(sql), sql, Options(catalog))
        if is_stream:
            lower_stream(plan.physical, catalog, "UTC")
        else:
            lower(plan.physical, catalog, "UTC")
    return catalog


def cost(sql: str, *, is_stream: bool = False) -> int:
    """Return the number of function calls that planning and lowering a query takes."""
    # A collection would count the finalizers of what other tests left behind.
    gc.collect()
    gc.disable()
    try:
        # counts in C: a function for `sys.setprofile` takes several times as long
        with Profile() as profile:
            plan_and_lower(sql, is_stream=is_stream)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


WINDOWS = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
GROUPED = "GROUP BY window_start, window_end"


def numbers(text: str, between: str, n: int) -> str:
    return between.join(text.format(i) for i in range(n))


def unions(n: int) -> str:
    return numbers("SELECT k1, x + {0} AS x FROM t WHERE x > {0}", " UNION ALL ", n)


def unions_of_windows(n: int) -> str:
    return numbers(
        f"SELECT window_start, window_end, SUM(x + {{0}}) AS s {WINDOWS} {GROUPED}",
        " UNION ALL ",
        n,
    )


def subqueries(n: int) -> str:
    query = "SELECT k1, x, ts FROM t"
    for i in range(n):
        query = f"SELECT k1, x, ts FROM ({query}) WHERE x > {i}"
    return query


def definitions(n: int) -> str:
    steps = [f"c{i} AS (SELECT * FROM {f'c{i - 1}' if i else 't'} WHERE x > {i})" for i in range(n)]
    return f"WITH {', '.join(steps)} SELECT * FROM c{n - 1}"


def conditions(n: int) -> str:
    return (
        f"SELECT window_end, SUM(x) AS s {WINDOWS} WHERE {numbers('x <> {}', ' AND ', n)} {GROUPED}"
    )


def alternatives(n: int) -> str:
    return (
        f"SELECT window_end, SUM(x) AS s {WINDOWS} WHERE {numbers('x = {}', ' OR ', n)} {GROUPED}"
    )


def aggregates(n: int) -> str:
    return f"SELECT window_end, {numbers('SUM(x + {0}) AS s{0}', ', ', n)} {WINDOWS} {GROUPED}"


def sum_of_columns(n: int) -> str:
    return f"SELECT window_end, SUM({numbers('x', ' + ', n)}) AS s {WINDOWS} {GROUPED}"


def sum_in_parentheses(n: int) -> str:
    argument = f"{'(' * n}x{' + 1)' * n}"
    return f"SELECT window_end, SUM({argument}) AS s {WINDOWS} {GROUPED}"


def sums_of_aggregates(n: int) -> str:
    return f"SELECT window_end, {numbers('SUM(x + {})', ' + ', n)} AS s {WINDOWS} {GROUPED}"


def conditions_on_groups(n: int) -> str:
    having = numbers("SUM(x) <> {}", " AND ", n)
    return f"SELECT window_end, SUM(x) AS s {WINDOWS} {GROUPED} HAVING {having}"


@pytest.mark.variants(1)
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    "query",
    [
        unions,
        unions_of_windows,
        subqueries,
        definitions,
        conditions,
        alternatives,
        aggregates,
        sums_of_aggregates,
        conditions_on_groups,
    ],
)
def test_it_costs_as_much_more_as_the_statement_is_longer(
    query: Callable[[int], str], is_stream: bool
) -> None:
    assert cost(query(40), is_stream=is_stream) < 7 * cost(query(10), is_stream=is_stream)


@pytest.mark.long
@pytest.mark.parametrize("query", [sum_of_columns, sum_in_parentheses])
def test_a_chain_of_operators_is_not_written_down_at_each_of_them(
    query: Callable[[int], str],
) -> None:
    assert cost(query(320)) < 5 * cost(query(80))


@pytest.mark.long
def test_thousands_of_groupings_cost_little_each() -> None:
    def cubed(n: int) -> str:
        keys = numbers("k{}", ", ", n)
        return f"SELECT window_end, {keys}, SUM(x) AS s {WINDOWS} {GROUPED}, CUBE ({keys})"

    assert cost(cubed(N_KEYS)) - cost(cubed(4)) < 100 * 2**N_KEYS


def test_more_groupings_than_rows_could_be_copied_for_are_refused() -> None:
    keys = numbers("k{0} + {0}", ", ", 30)
    with pytest.raises(AnalysisError) as raised:
        plan_and_lower(f"SELECT window_end, SUM(x) AS s {WINDOWS} {GROUPED}, CUBE ({keys})")
    assert raised.value.message == (
        "GROUP BY expands to 1,073,741,824 grouping sets, but the maximum is 16,384"
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "query",
    [
        unions,
        conditions,
        alternatives,
        sums_of_aggregates,
        conditions_on_groups,
        sum_of_columns,
        lambda n: f"SELECT window_end, SUM({'(' * 100}x{')' * 100}) AS s {WINDOWS} {GROUPED}",
        lambda n: f"SELECT window_end, SUM({'ABS(' * 100}x{')' * 100}) AS s {WINDOWS} {GROUPED}",
    ],
    ids="unions conditions alternatives sums having sum parentheses calls".split(),
)
def test_a_thousand_operators_are_not_too_deep(query: Callable[[int], str]) -> None:
    limit = sys.getrecursionlimit()
    plan_and_lower(query(1000))
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        (f"SELECT {'(' * 2000}1{')' * 2000}", 7 + 2000),
        (f"SELECT (1), {'NOT ' * 5000}TRUE, (2)", 13 + 4 * 4999),
        (f"SELECT '((((', {'CASE WHEN TRUE THEN ' * 2000}1{' END' * 2000}", 16 + 20 * 1999),
    ],
    ids="parentheses not case".split(),
)
def test_a_deep_expression_is_refused_at_its_deepest_place(sql: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        parse_query(sql)
    assert raised.value.message == "the statement is nested too deeply"
    assert raised.value.position is not None
    assert (raised.value.position.line, raised.value.position.column) == (1, column)
