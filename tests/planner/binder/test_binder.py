"""Queries as logical plans, with columns analysed by sqlglot instead of Spark."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from planner.binder.binder import BoundQuery, bind
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import Expand, Node, WindowAggregate, WindowRank
from planner.optimizer import Options, Trace, optimize
from planner.rules import LOGICAL_STAGES
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query
from tests.planner.test_docstrings import Catalog

HOURS = "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
FARES = f"(SELECT window_end, MAX(fare) AS f FROM {HOURS} GROUP BY window_start, window_end)"


class Views(Catalog):
    """One view, whose window function names no column of its data."""

    def view(self, name: tuple[str, ...]) -> exp.Query | None:  # type: ignore[override]
        return (
            parse_query(f"SELECT * FROM {HOURS.replace('ts', 'nope')}") if name == ("v",) else None
        )


def bound(sql: str, catalog: Any = None) -> BoundQuery:
    return bind(parse_query(sql), sql, catalog or Catalog())


def nodes(node: Node, kind: type[Node]) -> list[Any]:
    below = [result for child in node.inputs for result in nodes(child, kind)]
    return [node, *below] if isinstance(node, kind) else below


@pytest.mark.parametrize("keys", ["{}, 1.5", "ROLLUP (city), {}, 1.5"])
def test_a_number_that_names_no_item_is_a_constant_key(keys: str) -> None:
    group = keys.format("window_start, window_end")
    plan = bound(f"SELECT window_end, COUNT(*) AS n FROM {HOURS} GROUP BY {group}").plan
    plan = optimize(plan, LOGICAL_STAGES, Options(Catalog()), Trace())
    keyed = [*nodes(plan, WindowAggregate), *nodes(plan, Expand)]
    assert "1.5" in [key.expr.name for node in keyed for key in node.keys]


@pytest.mark.parametrize("star", ["*", "w.*"])
@pytest.mark.parametrize("order", ["{star}, {rank}, 1 AS one", "0 AS zero, {rank}, {star}"])
def test_a_rank_stands_where_the_select_list_has_it(star: str, order: str) -> None:
    rank = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY fare) AS r"
    items = order.format(star=star, rank=rank)
    result = bound(f"SELECT * FROM (SELECT {items} FROM {HOURS} AS w) WHERE r <= 3")
    assert result.notes == ()
    (ranked,) = nodes(result.plan, WindowRank)
    assert {c.name for c in result.plan.schema} == {c.name for c in ranked.schema}
    place = [c.name for c in result.plan.schema].index("r")
    assert place == (6 if order.startswith("{star}") else 1)


@pytest.mark.parametrize(
    ("items", "is_join"), [("1", True), ("b.f", True), ("MAX(b.f)", False), ("COUNT(*)", False)]
)
def test_exists_of_an_aggregate_is_no_join_since_it_is_always_true(
    items: str, is_join: bool
) -> None:
    condition = f"EXISTS (SELECT {items} FROM {FARES} AS b WHERE b.window_end = a.window_end)"
    result = bound(f"SELECT a.window_end FROM {FARES} AS a WHERE {condition}")
    assert bool(nodes(result.plan, WindowJoin)) == is_join


def test_the_join_behind_joins_of_windows_is_named() -> None:
    joins = "".join(f" JOIN {FARES} AS {x} ON {x}.window_end = a.window_end" for x in "bc")
    result = bound(f"SELECT a.window_end FROM {FARES} AS a{joins} NATURAL JOIN {FARES} AS d")
    assert str(result.notes[0]) == "a join of windows is followed by a NATURAL JOIN"


def test_an_invalid_view_stays_a_view() -> None:
    rank = "ROW_NUMBER() OVER (PARTITION BY c ORDER BY fare)"
    with pytest.raises(AnalysisError, match="`nope` does not exist in the data of TUMBLE"):
        bound(f"SELECT city AS c FROM v QUALIFY {rank} = 1", Views())


def test_a_join_of_bounded_tables_within_an_interval_is_analyzed_once() -> None:
    class Counting(Catalog):
        n_analyzed = 0

        def analyze(self, query: exp.Query, relations: Any) -> Any:
            self.n_analyzed += 1
            return super().analyze(query, relations)

    catalog = Counting()
    on = "a.city = b.city AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR"
    bound(f"SELECT a.city FROM trips AS a JOIN trips AS b ON {on}", catalog)
    # each analysis may need Spark: only the query itself is analyzed
    assert catalog.n_analyzed == 1
