"""Under strict-flink, functions that Spark defines differently are translated to Flink's meaning."""

from __future__ import annotations

import pytest

from planner.sql.build import to_sql
from planner.sql.flink_meanings import rewrite_meanings
from planner.sql.flink_types import rewrite_by_type
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query

TYPES = {"i": "int", "s": "smallint", "l": "bigint", "d": "double", "f": "float", "b": "boolean",
         "ts": "timestamp_ntz", "k": "string", "m": "decimal(5,2)", "n": "decimal(5,0)",
         "a": "array<int>", "p": "map<string,int>", "iv": "interval day to second"}  # fmt: skip


def rewritten(sql: str) -> str:
    query = parse_query(f"SELECT {sql} AS x FROM t")
    rewrite_meanings(query)
    rewrite_by_type(query, lambda value: TYPES.get(value.name), sql)  # type: ignore[arg-type]
    return to_sql(query).removeprefix("SELECT ").removesuffix(" AS x FROM t")


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("7 / 2", "CAST(7 DIV 2 AS INT)"),
        ("i / s", "CAST(i DIV s AS INT)"),
        ("s / l", "CAST(s DIV l AS BIGINT)"),
        ("i / 2 / 2", "CAST(CAST(i DIV 2 AS INT) DIV 2 AS INT)"),
        ("i / m", "i / m"),
        ("d / 2", "d / 2"),
        ("i / d", "CASE WHEN d = 0 THEN CAST(i AS DOUBLE) * CAST('Infinity' AS DOUBLE) ELSE i / d END"),
        ("f / 2", "CAST(f / 2 AS FLOAT)"),
        ("AVG(i)", "CAST(SUM(i) DIV NULLIF(COUNT(i), 0) AS INT)"),
        ("AVG(d)", "AVG(d)"),
        ("AVG(m)", "CAST(AVG(m) AS DECIMAL(38, 6))"),
        ("AVG(n)", "CAST(AVG(CAST(n AS DECIMAL(7, 2))) AS DECIMAL(38, 6))"),
        ("a[1]", "TRY_ELEMENT_AT(a, 1)"),
        ("p['k']", "p['k']"),
        ("CAST(b AS STRING)", "UPPER(CAST(b AS STRING))"),
        ("CAST(i AS STRING)", "CAST(i AS STRING)"),
        ("CAST(k AS VARCHAR(3))", "LEFT(CAST(k AS STRING), 3)"),
        ("CAST(k AS CHAR(3))", "RPAD(CAST(k AS STRING), 3, ' ')"),
        ("CAST(k AS TIMESTAMP)", "CAST(k AS TIMESTAMP_NTZ)"),
        ("CAST(k AS TIMESTAMP_LTZ(3))", "CAST(k AS TIMESTAMP)"),
        ("FIRST_VALUE(i)", "FIRST_VALUE(i, TRUE)"),
        ("FIRST_VALUE(i) RESPECT NULLS", "FIRST_VALUE(i) RESPECT NULLS"),
        ("LAST_VALUE(i) OVER (ORDER BY ts)", "LAST_VALUE(i, TRUE) OVER (ORDER BY ts)"),
        ("REGEXP_EXTRACT(k, '(a)')", "CASE WHEN REGEXP_LIKE(k, '(a)') THEN REGEXP_EXTRACT(k, '(a)', 0) END"),
        (r"REGEXP(k, '\d')", r"REGEXP(k, '\\d')"),
        ("GREATEST(i, s)", "CASE WHEN NOT i IS NULL AND NOT s IS NULL THEN GREATEST(i, s) END"),
        ("LTRIM(k, 'x')", "LTRIM('x', k)"),
        ("LTRIM(k)", "LTRIM(k)"),
        ("STR_TO_MAP(k)", "STR_TO_MAP(k, ',', '=')"),
        ("LPAD(k, 3, 'x')", "LPAD(k, 3, 'x')"),
        ("ARRAY_SORT(a)", "SORT_ARRAY(a)"),
        ("ARRAY_SORT(a, TRUE, FALSE)", "ARRAY_SORT(a)"),
        ("FLOOR(m)", "FLOOR(m)"),
        ("LN(2)", "LN(2)"),
        ("SIGN(i)", "CAST(SIGN(i) AS INT)"),
    ],
)  # fmt: skip
def test_a_call_is_written_as_flink_means_it(sql: str, spark: str) -> None:
    assert rewritten(sql) == spark


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("CAST(a AS STRING)", "TO_JSON"),
        ("CAST(iv AS STRING)", "EXTRACT"),
        ("TYPEOF(i)", "remove it"),
        ("VAR_SAMP(i)", "CAST(i AS DOUBLE)"),
        ("TRANSFORM(a, x -> x / 2)", "CAST"),
    ],
)
def test_functions_that_spark_lacks_are_refused_with_a_remedy(sql: str, hint: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        rewritten(sql)
    assert hint in (caught.value.hint or "")


def test_an_aggregate_keeps_its_filter_and_its_window() -> None:
    text = rewritten("AVG(i) FILTER (WHERE b) OVER (PARTITION BY k)")
    window = "FILTER(WHERE b) OVER (PARTITION BY k)"
    assert text == f"CAST(SUM(i) {window} DIV NULLIF(COUNT(i) {window}, 0) AS INT)"


def test_an_array_keeps_nulls_and_is_null_of_no_rows() -> None:
    collected = "COLLECT_LIST(NAMED_STRUCT('v', i)) FILTER(WHERE b)"
    assert rewritten("ARRAY_AGG(i) FILTER (WHERE b)") == (
        f"CASE WHEN SIZE({collected}) > 0 "
        f"THEN TRANSFORM({collected}, `element$` -> `element$`.v) END"
    )
    assert rewritten("ARRAY_AGG(i) IGNORE NULLS") == "ARRAY_AGG(i) IGNORE NULLS"
