"""Spark evaluates each expression for a buffer once, and only for rows that count."""

import math
import pickle

import pytest

from runtime.local.projection import projection, sql_projection
from runtime.plan.local import ArrowBuffer, LocalStep, PartialColumns, SqlRows
from runtime.plan.nodes import SqlStep
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.windows.tumble import Tumble

TIME = "((`ts` - TIMESTAMP_NTZ'1970-01-01 00:00:00') DIV INTERVAL '0.000001' SECOND)"


def step_of(*partials):
    columns = tuple(
        PartialColumns(Merge((f"p{number}",), MergeOp.SUM), args, condition)
        for number, (args, condition) in enumerate(partials)
    )
    rows = SqlRows((("k", "`key`"),), columns, SqlStep("SELECT 1"))
    return LocalStep(rows, ArrowBuffer(), Tumble(10), "ts", "timestamp_ntz", "slice")


def test_an_argument_is_evaluated_only_where_its_filter_is_true():
    result = sql_projection(step_of((("`v`",), "`v` > 0"), ((), "`v` > 0")))
    assert result.items == (
        ("$time_us", TIME),
        ("k", "`key`"),
        ("$arg1", "CASE WHEN `v` > 0 THEN `v` END"),
        ("$if2", "`v` > 0"),
    )
    assert result.args == (("$arg1",), ())
    assert result.conditions == ("$if2", "$if2")


def test_expressions_are_not_evaluated_for_dropped_rows():
    result = sql_projection(step_of((("`v`",), "a OR b")), "`$keep`")
    assert [sql for _, sql in result.items] == [
        f"CASE WHEN `$keep` THEN {TIME} END",
        "CASE WHEN `$keep` THEN `key` END",
        "CASE WHEN `$keep` AND (a OR b) THEN `v` END",
        "CASE WHEN `$keep` THEN a OR b END",
    ]


def test_equal_expressions_share_a_column():
    result = sql_projection(step_of((("`v`", "`key`"), None), (("`v`",), None)))
    assert [name for name, _ in result.items] == ["$time_us", "k", "$arg1"]
    assert result.args == (("$arg1", "k"), ("$arg1",))


def test_nondeterministic_expressions_are_evaluated_once_per_use():
    result = sql_projection(step_of((("RAND()", "rand()"), None), (("RAND()",), None)))
    assert result.args == (("$arg1", "$arg2"), ("$arg3",))


@pytest.mark.parametrize("value", [math.nan, 0.0, -0.0])
def test_another_process_has_the_same_columns(value):
    def argument():
        return Call("<", (ColumnRef("d", "double"), Constant(value, "double")), "boolean")

    step = step_of(((argument(),), None), ((argument(),), None))
    result = projection(pickle.loads(pickle.dumps(step)).source, lambda arg, _: arg)
    assert result == projection(step.source, lambda arg, _: arg)
    assert result.args == (("$arg1",), ("$arg1",))


def test_zeros_of_both_signs_are_two_columns():
    zeros = [Constant(0.0, "double"), Constant(-0.0, "double")]
    result = projection(step_of(((zeros[0],), None), ((zeros[1],), None)).source, lambda e, _: e)
    assert result.args == (("$arg1",), ("$arg2",))
