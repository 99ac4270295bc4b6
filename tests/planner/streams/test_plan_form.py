"""Accumulators in a stream's identity, for aggregates that share some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from sqlglot import exp

from planner.aggregates.calls import read_call
from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from planner.nodes.logical import AggregateCall, Node, TableScan
from planner.streams.plan_form import operator_schemas
from runtime.spec.state_schema import OperatorSchema
from runtime.spec.table import Column, Watermark
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog
from tests.planner.rules.test_share_window_slices import MINUTE, window_aggregate

TYPES = {
    "ts": "timestamp_ntz",
    "k": "int",
    "v": "bigint",
    "x": "double",
    "d": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "i": "interval day to second",
}
COLUMNS = tuple(Column(name, type_) for name, type_ in TYPES.items())
CATALOG = Catalog(StreamTable("t", Watermark("ts", "ts")), columns=COLUMNS)
TABLE = TableScan(COLUMNS, "t", exp.select("*").from_("t"))

# Calls by result type
CALLS = {
    "bigint": [
        *("COUNT(*)", "COUNT(v)", "COUNT(x)", "COUNT(d)", "COUNT_IF(v > 1)", "SUM(v)"),
        *("MIN(v)", "MAX(v)", "BIT_AND(v)", "BIT_OR(v)", "BIT_XOR(v)", "FIRST_VALUE(v)"),
        *("LAST_VALUE(v)", "ANY_VALUE(v)", "MIN_BY(v, x)", "MAX_BY(v, x)"),
        *("FIRST_VALUE(v) IGNORE NULLS", "APPROX_COUNT_DISTINCT(v)", "COUNT(DISTINCT v)"),
        *("SUM(DISTINCT v)", "COUNT(DISTINCT v, x)", "MIN(DISTINCT v)"),
        *("COUNT(i)", "COUNT(DISTINCT i)", "COUNT(DISTINCT v, i)", "MIN_BY(v, i)"),
        "APPROX_COUNT_DISTINCT(i)",
    ],
    "double": [
        *("SUM(x)", "AVG(v)", "AVG(x)", "MEAN(x)", "AVG(DISTINCT v)", "SUM(DISTINCT x)"),
        *("VAR_POP(x)", "VAR_SAMP(x)", "VARIANCE(v)", "STDDEV_POP(v)", "STDDEV_SAMP(x)"),
        *("STDDEV(x)", "APPROX_PERCENTILE(x, 0.5)", "APPROX_PERCENTILE(x, 0.9)"),
    ],
    "decimal(20,2)": ["SUM(d)"],
    "interval day to second": [
        *("SUM(i)", "AVG(i)", "MIN(i)", "MAX(i)", "LAST_VALUE(i)", "SUM(DISTINCT i)"),
        *("AVG(DISTINCT i)", "MAX_BY(i, x)"),
    ],
    "decimal(14,6)": ["AVG(d)", "AVG(DISTINCT d)"],
    "boolean": ["BOOL_AND(b)", "EVERY(b)", "BOOL_OR(b)", "SOME(b)", "MAX(b)"],
    "string": ["LISTAGG(s)", "LISTAGG(DISTINCT s)", "LISTAGG(s, ';')", "MAX(s)"],
}
NULLS = " IGNORE NULLS"
PLAIN = [(text, type_) for type_, texts in CALLS.items() for text in texts]
FILTERED = [
    (text.removesuffix(NULLS) + " FILTER (WHERE k > 3)" + NULLS * text.endswith(NULLS), type_)
    for text, type_ in PLAIN
]


def aggregate(text: str, type_: str, name: str) -> AggregateCall:
    """Return a call with the types that Spark's analyser would infer."""
    call = read_call(parse_query(f"SELECT {text} FROM t").expressions[0].unalias(), name, "ts")
    is_typed = call.distinct or call.function in ("APPROX_COUNT_DISTINCT", "MIN_BY", "MAX_BY")
    args = call.args if is_typed else ()
    return replace(call, type=type_, arg_types=tuple(TYPES[arg.name] for arg in args))


def plan_calls(calls: Sequence[AggregateCall]) -> Node:
    plan = window_aggregate(Tumble(MINUTE), *calls, over=TABLE)
    assert isinstance(plan, Node), plan
    return plan


def state_schema(calls: Sequence[AggregateCall]) -> OperatorSchema:
    """Return the state schema of a stream's operator with these aggregates."""
    (operator,) = operator_schemas([plan_calls(calls)], (), CATALOG)
    return operator


def meanings(operator: OperatorSchema) -> set[object]:
    return {accumulator.meaning for accumulator in operator.accumulators}


@pytest.mark.long
@pytest.mark.parametrize(
    "calls",
    [PLAIN, pytest.param(FILTERED, marks=pytest.mark.long)],
    ids=["plain", "filtered"],
)
def test_every_pair_of_aggregates_has_state_in_both_orders(calls: list[tuple[str, str]]) -> None:
    firsts = [aggregate(*call, "a") for call in calls]
    seconds = [aggregate(*call, "b") for call in calls]
    alone = [meanings(state_schema([call])) for call in firsts]
    for (number, first), (other, second) in product(enumerate(firsts), enumerate(seconds)):
        assert meanings(state_schema([first, second])) == alone[number] | alone[other], (
            f"{first.text}, {second.text}"
        )


def test_all_aggregates_of_one_stream_are_lowered_in_both_orders() -> None:
    calls = [aggregate(*call, f"c{number}") for number, call in enumerate([*PLAIN, *FILTERED])]
    for ordered in (calls, calls[::-1]):
        lower_stream(plan_calls(ordered), CATALOG, "UTC")
    assert meanings(state_schema(calls)) == meanings(state_schema(calls[::-1]))


def test_only_equal_filters_share_an_accumulator() -> None:
    average, filtered = (
        aggregate("AVG(x)", "double", "a"),
        FILTERED[PLAIN.index(("COUNT(x)", "bigint"))],
    )
    assert len(state_schema([average, aggregate(*filtered, "b")]).accumulators) == 3
    equal = aggregate("AVG(x) FILTER (WHERE k > 3)", "double", "a")
    assert len(state_schema([equal, aggregate(*filtered, "b")]).accumulators) == 2
