"""Splitting DISTINCT aggregates into sets of values and the accumulators that read them."""

from dataclasses import replace

import pytest
from sqlglot import exp

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.shared_partials import share_partials
from planner.arrow.partials import arrow_partials
from planner.arrow.scan_rows import RowsOfScan
from planner.nodes.logical import AggregateCall
from planner.sql.build import column, to_sql
from runtime.plan.local import PartialColumns
from runtime.refusal import Refused
from runtime.spec.aggregates import CollectSet, Distinct, Merge, MergeOp
from runtime.spec.expressions import ColumnRef
from runtime.spec.table import Column


def call(function, type_, *arg_types, name="a", args=("x", "y"), condition=None):
    """Return `function(DISTINCT x)` or, with two types of arguments, `function(DISTINCT x, y)`."""
    columns = tuple(column(arg) for arg in args[: max(1, len(arg_types))])
    text = f"{function}(DISTINCT {', '.join(args[: len(columns)])})"
    return AggregateCall(
        name, function, exp.Null(), columns, text, type_, condition, True, None, arg_types
    )


def partials(plan):
    return [to_sql(partial.expr) for partial in plan.partials]


def test_texts_and_distinct_texts_of_one_column_carry_one_list_of_rows():
    texts = call("LISTAGG", "string", "string", name="all")
    texts = replace(texts, args=(column("x"), exp.Literal.string("-")), order="ts")
    plans = share_partials(
        tuple(
            plan_aggregate(replace(texts, name=name, distinct=is_distinct))
            for name, is_distinct in (("all", False), ("each", True), ("again", True))
        )
    )
    assert [len(plan.partials) for plan in plans] == [1, 0, 0]
    read = [(a.columns, a.is_unique) for plan in plans for a in plan.accumulators]
    assert read == [(("all$rows",), False), (("all$rows",), True)]
    assert [to_sql(plan.finish) for plan in plans] == ["`all$text`", "`each$text`", "`each$text`"]


def test_count_sum_and_average_of_one_column_carry_one_set_of_values():
    plans = share_partials(
        (
            plan_aggregate(call("COUNT", "bigint", "int", name="n")),
            plan_aggregate(call("SUM", "bigint", "int", name="s")),
            plan_aggregate(call("AVG", "double", "int", name="m")),
        )
    )
    assert [partials(plan) for plan in plans] == [["COLLECT_SET(`x`)"], [], []]
    count, total, mean = plans
    assert count.accumulators == (Distinct(("n$set",), Column("n$count", "bigint"), MergeOp.COUNT),)
    assert total.accumulators == (Distinct(("n$set",), Column("s$sum", "bigint"), MergeOp.SUM),)
    # The sum for the average is a DOUBLE, which cannot overflow; the count exists already.
    assert mean.accumulators == (Distinct(("n$set",), Column("m$sum", "double"), MergeOp.SUM),)
    assert to_sql(mean.finish) == (
        "CASE WHEN `n$count` > 0 THEN CAST(`m$sum` / `n$count` AS DOUBLE) END"
    )


def test_the_same_sum_twice_is_computed_once():
    plans = share_partials(
        tuple(plan_aggregate(call("SUM", "bigint", "int", name=name)) for name in "st")
    )
    assert [len(plan.accumulators) for plan in plans] == [1, 0]
    assert to_sql(plans[1].finish) == "`s$sum`"


def test_filters_and_other_columns_keep_sets_apart():
    flag = column("flag")
    plans = share_partials(
        (
            plan_aggregate(call("COUNT", "bigint", "int", name="n")),
            plan_aggregate(call("COUNT", "bigint", "int", name="f", condition=flag)),
            plan_aggregate(call("COUNT", "bigint", "int", name="y", args=("y",))),
        )
    )
    assert [partials(plan) for plan in plans] == [
        ["COLLECT_SET(`x`)"],
        ["COLLECT_SET(`x`) FILTER(WHERE `flag`)"],
        ["COLLECT_SET(`y`)"],
    ]


def test_several_columns_count_rows_without_null():
    condition = exp.Or(this=column("p"), expression=column("q"))
    plan = plan_aggregate(call("COUNT", "bigint", "int", "string", condition=condition))
    assert partials(plan) == [
        "COLLECT_SET(NAMED_STRUCT('v0', `x`, 'v1', `y`)) "
        "FILTER(WHERE NOT `x` IS NULL AND NOT `y` IS NULL AND (`p` OR `q`))"
    ]


@pytest.mark.parametrize(
    "function, type_, arg_type, collected, sum_type",
    [
        ("SUM", "bigint", "tinyint", "`x`", "bigint"),
        ("SUM", "double", "double", "`x`", "double"),
        # '1' and '1.0' are the same number, so values are cast before they are distinguished.
        ("SUM", "double", "string", "CAST(`x` AS DOUBLE)", "double"),
        ("SUM", "double", "float", "CAST(`x` AS DOUBLE)", "double"),
        ("AVG", "double", "bigint", "`x`", "double"),
        ("SUM", "decimal(20,2)", "decimal(10,2)", "`x`", "decimal(20,2)"),
        ("AVG", "decimal(14,6)", "decimal(10,2)", "`x`", "decimal(20,2)"),
        ("AVG", "decimal(38,7)", "decimal(38,3)", "`x`", "decimal(38,3)"),
    ],
)
def test_sums_have_the_type_that_spark_gives_them(function, type_, arg_type, collected, sum_type):
    plan = plan_aggregate(call(function, type_, arg_type))
    assert partials(plan) == [f"COLLECT_SET({collected})"]
    assert plan.accumulators[0].output == Column("a$sum", sum_type)


@pytest.mark.parametrize("function", ["MIN", "MAX", "BOOL_AND", "BOOL_OR"])
def test_distinct_is_dropped_where_duplicates_do_not_matter(function):
    plan = plan_aggregate(call(function, "boolean", "boolean"))
    assert "DISTINCT" not in partials(plan)[0]
    assert isinstance(plan.accumulators[0], Merge)


@pytest.mark.parametrize(
    "aggregate, reason",
    [
        (
            call("COUNT", "bigint", "array<int>"),
            "COUNT(DISTINCT) of array<int> cannot be merged from partials",
        ),
        (
            call("COUNT", "bigint", "int", "string collate UNICODE_CI"),
            "COUNT(DISTINCT) of string collate UNICODE_CI cannot be merged from partials",
        ),
        (call("COUNT", "bigint", args=("*",)), "COUNT(DISTINCT *) cannot be merged"),
        (call("STDDEV", "double", "int"), "STDDEV(DISTINCT) cannot be merged"),
        (
            call("SUM", "interval month", "interval month"),
            "SUM(DISTINCT) of INTERVAL MONTH cannot be merged from partials",
        ),
        (call("PERCENTILE", "double", "int"), "PERCENTILE(DISTINCT) cannot be merged"),
    ],
)
def test_distinct_values_of_nested_types_stay_in_one_phase(aggregate, reason):
    with pytest.raises(Refused) as refused:
        plan_aggregate(aggregate)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize("order", ["array<int>", "interval month", "struct<a:int>"])
def test_an_order_of_a_nested_type_stays_in_one_phase(order):
    by = replace(call("MIN_BY", "int", "int", order), distinct=False)
    with pytest.raises(Refused) as refused:
        plan_aggregate(by)
    assert str(refused.value) == f"MIN_BY by {order} cannot be merged from partials"


def test_the_scan_collects_one_set_for_all_that_read_it():
    flag = column("flag")
    plans = share_partials(
        (
            plan_aggregate(call("COUNT", "bigint", "int", name="n")),
            plan_aggregate(call("AVG", "double", "int", name="m")),
            plan_aggregate(call("COUNT", "bigint", "int", "decimal(9,2)", name="p")),
            plan_aggregate(call("COUNT", "bigint", "int", name="f", condition=flag)),
        )
    )
    schema = (Column("x", "int"), Column("y", "decimal(9,2)"), Column("flag", "boolean"))
    columns = {c.name: ColumnRef(c.name, c.type) for c in schema}
    rows = RowsOfScan(("t",), columns, schema, columns, (), (), "UTC")
    x, y = columns["x"], columns["y"]
    single, pair, filtered = arrow_partials(plans, rows)
    assert single == PartialColumns(CollectSet(("n$set",)), (x,))
    assert (pair.into, pair.args) == (CollectSet(("p$set",)), (x, y))
    assert filtered == PartialColumns(CollectSet(("f$set",)), (x,), ColumnRef("flag", "boolean"))
