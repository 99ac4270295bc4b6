"""Expressions over Arrow batches: row by row, split in any way, and compared with Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.refusal import Refusal
from runtime.spec.expressions import Call, ColumnRef, Constant, can_fail, columns_of
from tests.marks import among
from tests.runtime.compute.arrow.arrow_cases import (
    FAILING,
    SUCCEEDING,
    TIME_ZONE,
    RandomExpressions,
    exact,
    table,
    translate,
)


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


A, B = ColumnRef("a", "int"), ColumnRef("b", "int")
ONE = Constant(1, "int")


def quotient(left: ColumnRef | Constant, right: ColumnRef | Constant) -> Call:
    return Call(
        "div", (Call("cast", (left,), "bigint"), Call("cast", (right,), "bigint")), "bigint"
    )


# -- what is an error, and for which rows --------------------------------------------------------


def test_an_overflow_names_the_type_and_the_operator():
    with pytest.raises(ExecutionError, match=r"INT overflow in \+"):
        evaluate(Call("+", (A, ONE), "int"), batch(a=ints(1, 2**31 - 1)))


def test_null_divided_by_zero_is_null_and_no_error():
    rows = batch(a=ints(None, 6), b=ints(0, 3))
    assert evaluate(quotient(A, B), rows).to_pylist() == [None, 2]


def test_the_right_side_of_and_is_evaluated_where_the_left_one_is_true_or_null():
    a_is_positive = Call(">", (A, Constant(0, "int")), "boolean")
    quotient_is_one = Call("=", (quotient(ONE, B), Constant(1, "bigint")), "boolean")
    both = Call("and", (a_is_positive, quotient_is_one), "boolean")
    assert evaluate(both, batch(a=ints(-1, 5, None), b=ints(0, 1, 2))).to_pylist() == [
        False,
        True,
        False,
    ]
    with pytest.raises(ExecutionError, match="division by zero in DIV"):
        evaluate(both, batch(a=ints(None), b=ints(0)))


def test_a_conjunct_is_not_evaluated_for_rows_that_an_earlier_one_left_out():
    conjuncts = [
        Call("<>", (B, Constant(0, "int")), "boolean"),
        Call("=", (quotient(A, B), Constant(2, "bigint")), "boolean"),
    ]
    rows = batch(a=ints(6, 6, 6, None), b=ints(0, 3, None, 3))
    mask = filter_mask(conjuncts, rows)
    assert mask.to_pylist() == [False, True, False, False]
    assert filter_mask([], rows).to_pylist() == [True] * 4
    assert filter_mask(conjuncts, pa.Table.from_batches([rows, rows])).to_pylist() == [
        *mask.to_pylist(),
        *mask.to_pylist(),
    ]


def test_a_constant_error_is_not_raised_without_rows():
    assert evaluate(quotient(ONE, Constant(0, "int")), batch(a=ints())).to_pylist() == []


def test_only_fallible_expressions_are_marked_as_such():
    assert can_fail(Call("+", (A, ONE), "int"))
    assert can_fail(quotient(A, B))
    assert not can_fail(Call("div", (A, Constant(2, "bigint")), "bigint"))
    assert can_fail(Call("cast", (A,), "tinyint"))
    assert not can_fail(Call("cast", (A,), "bigint"))
    assert not can_fail(Call("+", (ColumnRef("d", "double"),) * 2, "double"))
    assert columns_of(quotient(A, B)) == {"a", "b"}


# -- how values are stored -----------------------------------------------------------------------


def test_columns_may_be_dictionaries_large_strings_or_in_another_zone():
    s, t = ColumnRef("s", "string"), ColumnRef("t", "timestamp")
    instants = pa.array([5, None], pa.timestamp("us", tz="Asia/Tokyo"))
    text = pa.array(["x", None])
    is_x = Call("=", (s, Constant("x", "string")), "boolean")
    for stored in (text.dictionary_encode(), text.cast(pa.large_string())):
        assert evaluate(is_x, batch(s=stored)).to_pylist() == [True, None]
    at_5 = Call("=", (t, Constant(5, "timestamp")), "boolean")
    assert evaluate(at_5, batch(t=instants)).to_pylist() == [True, None]


def test_a_wall_clock_time_is_not_an_instant():
    rows = batch(t=pa.array([5], pa.timestamp("us")))
    with pytest.raises(ExecutionError, match=r"column t contains timestamp\[us\]"):
        evaluate(ColumnRef("t", "timestamp"), rows)


def test_a_table_gives_a_chunked_array_of_the_type_even_without_chunks():
    empty = pa.table({"a": ints()}).slice(0, 0)
    result = evaluate(Call("cast", (A,), "decimal(12,2)"), empty)
    assert isinstance(result, pa.ChunkedArray)
    assert result.type == pa.decimal128(12, 2)


# -- the same, whatever the batches --------------------------------------------------------------


def outcome(expression, rows: pa.RecordBatch) -> list[object] | None:
    try:
        return exact(evaluate(expression, rows))
    except ExecutionError:
        return None


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 12))
def test_a_batch_fails_if_and_only_if_one_of_its_rows_does(seed, cut):
    rows = table(seed, 12).to_batches()[0]
    expression = translate(RandomExpressions(seed).any(4).replace("NULLIF", "COALESCE"))
    if isinstance(expression, Refusal):
        return
    single = [outcome(expression, rows.slice(i, 1)) for i in range(12)]
    expected = None if None in single else [value for row in single for value in row]
    assert outcome(expression, rows) == expected
    parts = [outcome(expression, part) for part in (rows.slice(0, cut), rows.slice(cut))]
    assert (None if None in parts else [*parts[0], *parts[1]]) == expected


# -- against Spark -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Provide a Spark session in another time zone.

    Spark may evaluate common subexpressions ahead of the conditions that guard them, and raise
    their errors. That is turned off, because a row's error would depend on its neighbours.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", TIME_ZONE)
    own.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    return own


@pytest.fixture(scope="module")
def rows(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Register rows with Spark as `boundary_rows`."""
    path: Path = tmp_path_factory.mktemp("arrow") / "rows.parquet"
    result = table(seed=7, n_rows=300)
    pq.write_table(result, path)
    session.read.parquet(str(path)).createOrReplaceTempView("boundary_rows")
    return result


def spark_columns(session: SparkSession, expressions: list[str]) -> pa.Table:
    items = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
    result = session.sql(f"SELECT id, {items} FROM boundary_rows").toArrow()
    return result.sort_by("id").drop_columns("id")


def assert_same_as_spark(session: SparkSession, rows: pa.Table, expressions: list[str]) -> None:
    expected = spark_columns(session, expressions)
    differences = []
    for i, sql in enumerate(expressions):
        expression = translate(sql)
        assert not isinstance(expression, Refusal), f"{sql}: {expression}"
        expected_rows = expected.column(i)
        if pa.types.is_timestamp(expected_rows.type) and expected_rows.type.tz is not None:
            expected_rows = expected_rows.cast(pa.timestamp("us", tz="UTC"))
        actual = evaluate(expression, rows)
        if actual.type != expected_rows.type or exact(actual) != exact(expected_rows):
            pairs = zip(exact(actual), exact(expected_rows), strict=True)
            first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            differences.append(
                (sql, actual.type, expected_rows.type, first, rows.slice(first or 0, 1))
            )
    assert not differences, differences


@pytest.mark.long
def test_values_and_types_are_sparks(session, rows):
    assert_same_as_spark(session, rows, SUCCEEDING)


@pytest.mark.long
@pytest.mark.parametrize("seed", among([1, 2], slow=[2]))
def test_values_and_types_of_random_expressions_are_sparks(session, rows, seed):
    make = RandomExpressions(seed)
    expressions: list[str] = []
    while len(expressions) < 80:
        sql = make.any(3)
        expression = translate(sql)
        if not isinstance(expression, Refusal) and outcome(expression, rows) is not None:
            expressions.append(sql)
    assert_same_as_spark(session, rows, expressions)


@pytest.mark.variants(9, long=10)
@pytest.mark.parametrize("sql", FAILING)
def test_errors_are_errors_in_spark_too(session, rows, sql):
    expression = translate(sql)
    assert not isinstance(expression, Refusal), expression
    with pytest.raises(ExecutionError):
        evaluate(expression, rows)
    with pytest.raises(PySparkException):
        spark_columns(session, [sql])


@pytest.mark.parametrize(
    "conjuncts",
    [
        ["o", "d > 0.1"],
        ["j <> 0", "i / j > 1", "s >= 'a'"],
        ["i IS NOT NULL", "b <> 0 AND i % b = 0", "NOT p"],
    ],
)
def test_a_filter_keeps_the_rows_that_spark_keeps(session, rows, conjuncts):
    mask = filter_mask([translate(sql) for sql in conjuncts], rows)
    kept = rows.column("id").filter(mask).to_pylist()
    where = " AND ".join(f"({sql})" for sql in conjuncts)
    expected = session.sql(f"SELECT id FROM boundary_rows WHERE {where}").toArrow()
    assert kept == sorted(expected.column("id").to_pylist())
    assert mask.null_count == 0
    assert 0 < pc.sum(mask).as_py() < rows.num_rows


def test_the_arrow_types_of_sparks_types_are_the_ones_that_spark_hands_out():
    assert arrow_type("decimal(10,2)") == pa.decimal128(10, 2)
    assert pa.scalar(Decimal("1.5"), arrow_type("decimal(10,2)")).as_py() == Decimal("1.50")
