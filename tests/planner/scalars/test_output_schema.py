"""Query columns inferred without Spark equal those that Spark infers."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from planner.catalog import Schema
from planner.scalars.inference import ColumnScope
from planner.scalars.output_schema import output_schema
from planner.sql.build import to_sql
from planner.sql.wall_clocks import keep_wall_clocks
from runtime.spec.table import Column
from sqlwin.catalog.entries import type_ddl
from sqlwin.parser.parser import parse_query

TABLE = {
    "k": "STRING",
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i2": "SMALLINT",
    "i4": "INT",
    "i8": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10, 2)",
    "w": "DECIMAL(38, 30)",
    "ts": "TIMESTAMP_NTZ",
    "tz": "TIMESTAMP",
    "day": "DATE",
}
NUMBERS = ("i1", "i2", "i4", "i8", "f", "d")
KNOWN = [
    "SELECT * FROM t",
    "SELECT x.k, x.i4 FROM t AS x",
    "SELECT * FROM (SELECT k, i4 + 1 AS j FROM t) AS s WHERE j > 2 AND NOT k = 'a'",
    *(f"SELECT {a} + {b} AS s, {a} * {b} AS p FROM t" for a in NUMBERS for b in ("i4", "d")
      if "f" not in (a, b)),
    *(f"SELECT SUM({a}) AS s, AVG({a}) AS m, MIN({a}) AS a, MAX({a}) AS z FROM t" for a in NUMBERS),
    *(f"SELECT k, COUNT({a}) AS n, COUNT(DISTINCT {a}) AS c FROM t GROUP BY k" for a in TABLE),
    *(f"SELECT MIN({a}) AS a, MAX({a}) AS z FROM t" for a in TABLE),
    *(f"SELECT {a} DIV {b} AS q, 7 DIV {a} AS r FROM t" for a in NUMBERS[:4] for b in ("i4", "i8")),
    "SELECT k, ROUND(AVG(i4), 1) AS mean FROM t GROUP BY k HAVING COUNT(*) >= 5 ORDER BY mean DESC, k",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING n > 1 ORDER BY n, COUNT(*) LIMIT 10",
    "SELECT DISTINCT k, day FROM t ORDER BY day",
    "SELECT k, k, i4 AS k FROM t ORDER BY i8",
    "SELECT * FROM (SELECT k, k FROM t) AS a",
    "SELECT ROUND(d) AS a, ROUND(f, 2) AS b, 1 AS c, 5000000000 AS e, 'x' AS g, TRUE AS h FROM t",
    "SELECT i8 = 3 AS a, k IN ('a', 'b') AS b, d BETWEEN 1 AND 2 AS c, k IS NULL AS e FROM t",
    "SELECT DATE '2020-01-01' AS a, TIMESTAMP_NTZ '2020-01-01 10:00:00' AS b FROM t",
    "SELECT TIMESTAMP_LTZ '2020-01-01 10:00:00' AS a, CAST(ts AS DATE) AS b FROM t",
    "SELECT CAST(day AS TIMESTAMP_NTZ) AS a, CAST(i4 AS DOUBLE) AS b FROM t",
    "SELECT CAST(i1 AS BIGINT) AS a, CAST(i8 AS STRING) AS b, CAST(tz AS DATE) AS c FROM t",
    "SELECT ts >= TIMESTAMP_NTZ '2020-01-01' AS a, CAST(ts AS DATE) = DATE '2020-01-01' AS b FROM t",
    *(f"SELECT {a} >= '2020-01-01' AS b, {a} = '2020-01-01 10:00:00.5' AS c, '2020-01-01T10:00:00Z' < {a} AS d, "
      f"{a} BETWEEN '2020-01-01T00:00:00Z' AND '2020-01-02T00:00:00+02:00' AS e FROM t" for a in ("ts", "tz", "day")),
    "SELECT TIMESTAMP_NTZ '2020-01-01 10:00:00' > '2020-01-01' AS a, DATE '2020-01-01' = '2020-01-01' AS b FROM t",
    "SELECT k, COUNT(*) FILTER (WHERE d > 1) AS n, SUM(i4) FILTER (WHERE b) AS s FROM t GROUP BY k",
    "SELECT COUNT(DISTINCT k, day) AS n FROM t",
    "SELECT LISTAGG(k, '-') AS a, LISTAGG(DISTINCT k) FILTER (WHERE b) AS c FROM t",
    # LISTAGG over windows
    *(f"SELECT i4, CASE WHEN SIZE((COLLECT_LIST(NAMED_STRUCT('o', ts, 'v', CAST({a} AS STRING))) FILTER (WHERE b))) > 0 "
      f"THEN ARRAY_JOIN({unique}(SORT_ARRAY((COLLECT_LIST(NAMED_STRUCT('o', ts, 'v', CAST({a} AS STRING))) "
      "FILTER (WHERE b))).v), '-') END AS c FROM t GROUP BY i4" for a in ("k", "i8") for unique in ("ARRAY_DISTINCT", "")),
    "SELECT k, i4 FROM t UNION ALL SELECT k, 1 AS one FROM t UNION ALL SELECT 'a' AS x, i4 FROM t",
    "SELECT b OR d > 1 AS either FROM t WHERE ts < ts AND day IS NOT NULL",
    "SELECT SUM(m) AS s, AVG(m) AS a, MIN(m) AS z, SUM(w) AS t, AVG(w) AS b FROM t",
    *(f"SELECT {name}(d) AS a, {name}(i4) AS b FROM t" for name in ("STDDEV", "STDDEV_POP",
      "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP")),
    *(f"SELECT FIRST_VALUE({a}) AS f, LAST({a}) AS l FROM t" for a in TABLE),
    *(f"SELECT MEDIAN({a}) AS a, PERCENTILE({a}, 0.9) AS b, MEAN({a}) AS c, STD({a}) AS d FROM t"
      for a in (*NUMBERS, "m", "w")),
    *(f"SELECT BIT_AND({a}) AS a, BIT_OR({a}) AS b, BIT_XOR({a}) AS c FROM t" for a in NUMBERS[:4]),
    *(f"SELECT ANY_VALUE({a}) AS a, LAST_VALUE({a}) AS b, MIN_BY({a}, i4) AS c FROM t" for a in TABLE),
    "SELECT SOME(b) AS a, ANY(b) AS b, COUNT(k, i4) AS c, MEAN(DISTINCT i4) AS d FROM t",
    "SELECT BOOL_OR(b) AS a, EVERY(d > 1) AS e, SUM(DISTINCT i4) AS s, AVG(DISTINCT m) AS v FROM t",
    *(f"SELECT MAX_BY(k, {a}) AS f, MIN_BY({a}, ts) AS l FROM t" for a in TABLE),
    *(f"SELECT k, (MIN(NAMED_STRUCT('o', ts, 'v', {a})) FILTER (WHERE (NOT {a} IS NULL) AND NOT ts IS NULL)).v AS f, "
      f"(MAX(NAMED_STRUCT('o', {a}, 'v', d)) FILTER (WHERE NOT {a} IS NULL)).v AS l FROM t GROUP BY k" for a in TABLE),
    "SELECT k FROM t WHERE i4 > -40 AND d < 1e9 AND d >= -1.5E-3 AND i8 = -5000000000",
    "SELECT 1", "SELECT -1, 'a', TRUE, 2 + 3 * 4, (1 - 2) / 3 AS q, 1.50 AS d, .5 AS e, 0.0 AS z",
    "SELECT 1 = 1, 2 > 1, 3 <= 2, 6 % 4 AS m, COALESCE(1, 2) AS c, ABS(-3) AS a WHERE 1 > 2",
    "SELECT COUNT(*), COUNT(k), SUM(i4), AVG(d), MIN(k), MAX(i4 + 1) FROM t",
    "SELECT COUNT(*) AS n", "SELECT k AS i4 FROM t ORDER BY i4 DESC, 1 LIMIT 3 OFFSET 2",
    *(f"SELECT {a} % 7 AS m, {a} / 2 AS q, -{a} AS n, ABS({a}) AS a, SQRT({a}) AS r FROM t"
      for a in ("i4", "i8")),
    "SELECT -d AS a, ABS(f) AS b, SQRT(d) AS c, d / i4 AS e FROM t",
    "SELECT k LIKE 'a%' AS a, k <=> 'b' AS b, NOT i4 <=> 3 AS c, m > 1 AS d, d = 0.5 AS e FROM t",
    "SELECT CASE WHEN b THEN 1 WHEN i4 > 2 THEN i4 END AS a, CASE WHEN b THEN 1 ELSE 2 END AS c, "
    "IF(b, i4, i8) AS d, IF(TRUE, 1, NULL) AS e, COALESCE(i4, 1) AS f, NVL(k, 'x') AS g FROM t",
    "SELECT COUNT_IF(b) AS a, APPROX_COUNT_DISTINCT(day) AS c, STDDEV(m) AS d, VAR_POP(w) AS e FROM t",
    "SELECT k, day, SUM(i4) AS s FROM t GROUP BY 1, day ORDER BY 3, k",
    "SELECT i4 % 3 AS r, k AS c, COUNT(*) AS n FROM t GROUP BY i4 % 3, c",
    "SELECT k, day, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((k, day), (k))",
    "SELECT j, COUNT(*) AS n FROM (SELECT 1 AS j FROM t) AS s GROUP BY GROUPING SETS ((j), ())",
    "SELECT a, b FROM (VALUES (1, 'x'), (2, NULL)) AS v(a, b)", "SELECT * FROM (VALUES (1, TRUE)) AS v",
    "SELECT * FROM (VALUES (NULL, X'0F')) AS v(a, b)", "SELECT * FROM (VALUES (1, NULL), (2, NULL))",
    "SELECT ts FROM (VALUES (TIMESTAMP_NTZ '2020-01-01 10:00:00'), (NULL)) AS v(ts)",
    "WITH c AS (SELECT k, i4 FROM t), e AS (SELECT k, SUM(i4) AS s FROM c GROUP BY k) SELECT * FROM e",
    "SELECT k, i4 FROM t UNION ALL SELECT 'a' AS x, 1 AS y ORDER BY k DESC, 2 LIMIT 3",
    *(f"SELECT a.one AS l, b.one AS r, b.k FROM (SELECT 1 AS one, k FROM t) AS a {kind} JOIN "
      "(SELECT 2 AS one, k FROM t) AS b ON a.k = b.k AND a.one < b.one"
      for kind in ("INNER", "LEFT", "RIGHT", "FULL OUTER")),
    *(f"SELECT a.one, a.k FROM (SELECT 1 AS one, k FROM t) AS a {kind} JOIN t AS b ON a.k = b.k"
      for kind in ("LEFT SEMI", "LEFT ANTI")),
    *(f"SELECT {items} FROM (SELECT 1 AS one, k, d, 'a' AS x FROM t) AS a {kind} JOIN "
      "(SELECT 2 AS one, k, f, 'b' AS y FROM t) AS b USING (one, k)"
      for kind in ("INNER", "LEFT", "RIGHT", "FULL OUTER")
      for items in ("*", "k, one, x, y", "a.one AS l, b.one AS r, a.k AS e, k, d + f AS s")),
    *(f"SELECT d, b.*, i4 AS s FROM t AS a {kind} JOIN (SELECT 2 AS one, k, f FROM t) AS b USING (k)"
      for kind in ("LEFT", "FULL OUTER")),
    *(f"SELECT * FROM (SELECT 1 AS one, k FROM t) AS a {kind} JOIN t AS b USING (k)"
      for kind in ("LEFT SEMI", "LEFT ANTI")),
    *(f"SELECT * FROM (SELECT 1 AS one, k, i4 FROM t) AS a {first} JOIN (SELECT 2 AS one, k AS l, d FROM t) AS b "
      f"USING (one) {second} JOIN (SELECT 3 AS one, i4 AS c, 0 AS z FROM t) AS c USING (one)"
      for first in ("INNER", "RIGHT", "FULL") for second in ("LEFT", "RIGHT", "FULL")),
    "SELECT one, COUNT(*) AS n FROM (SELECT 1 AS one, k FROM t) AS a FULL JOIN (SELECT 2 AS one, k FROM t) AS b "
      "USING (one, k) GROUP BY one ORDER BY one",
    "SELECT * FROM t AS a JOIN t AS b USING (k)",
    "SELECT COUNT(DISTINCT k), COUNT(k, i4), COUNT(DISTINCT k, i4), MAX(k), MAX(i4) FROM t",
    "SELECT SUM(i4) FILTER (WHERE d > 1), COUNT(*) FILTER (WHERE b), COUNT(DISTINCT k) FILTER (WHERE k = 'a') FROM t",
    "SELECT UPPER(k), LOWER('A'), LENGTH(k), TRIM(k), CONCAT(k, 'a'), YEAR(ts), MONTH(day), DAY(tz), HOUR(ts) FROM t",
    "SELECT UPPER('a') AS u, k || 'b' AS c, CONCAT(k, i4) AS d, CONCAT_WS('-', k, k) AS e, SUBSTRING(k, 2, i4) AS f FROM t",
    "SELECT SUBSTRING(k FROM 2 FOR 3) AS a, REPLACE(k, 'a', 'b') AS b, REVERSE(k) AS c, STARTSWITH(k, 'a') AS d FROM t",
    *(f"SELECT QUARTER({a}) AS q, DAYOFYEAR({a}) AS y, WEEKOFYEAR({a}) AS w, EXTRACT(YEAR FROM {a}) AS e, "
      f"DATE_FORMAT({a}, 'yyyy') AS f FROM t" for a in ("ts", "tz", "day")),
    "SELECT MINUTE(ts) AS m, SECOND(tz) AS s, EXTRACT(HOUR FROM ts) AS h, ts + INTERVAL '1' HOUR AS p, tz - INTERVAL '3' DAY AS d FROM t",
    *(f"SELECT FLOOR({a}) AS f, CEIL({a}) AS c FROM t" for a in ("i1", "i4", "i8", "d")),
    *(f"SELECT GREATEST({a}, {a}) AS g, LEAST({a}, {a}) AS l FROM t" for a in TABLE),
    *(f"SELECT NULLIF({a}, {a}) AS n FROM t" for a in TABLE if a != "w"),
    "SELECT GREATEST(1, 2) AS a, LEAST(i4, 3) AS b, NULLIF(1, 2) AS c, GREATEST(i4, i8) AS d FROM t",
    *(f"SELECT m + {a} AS p, m - {a} AS s, m * {a} AS t, m / {a} AS q, m % {a} AS r, {a} + w AS x FROM t"
      for a in ("m", "w", "i1", "i4", "i8", "1", "-12", "1.50", "10L", "-(7)")),
    *(f"SELECT {a} + {b} AS s, {a} % {b} AS r, {a} / {b} AS q, {a} = {b} AS e, IF(b, {a}, {b}) AS i, {a} BETWEEN {b} AND 7 AS w FROM t"
      for a in (*NUMBERS, "m") for b in (*NUMBERS, "1", "m")),
    "SELECT NULLIF(w, m) AS n, CASE i4 WHEN 1 THEN k WHEN i8 THEN 'x' END AS c, NVL2(i4, 1, d) AS v, NVL2(i4, d, 2e0) AS u FROM t",
    "SELECT ISNULL(k) AS a, ISNOTNULL(i4) AS b, EQUAL_NULL(i4, d) AS c, i4 IS DISTINCT FROM i8 AS e, b IS TRUE AS t, NOT NULL AS n FROM t",
    "SELECT MOD(i4, i8) AS a, NEGATIVE(d) AS b, i4 + NULL AS c, COALESCE(NULL, m, 0) AS e, GREATEST(i4, NULL) AS g, b AND NULL AS o FROM t",
    "SELECT TIMESTAMP_SECONDS(i4) AS a, TIMESTAMP_MICROS(i8) AS b, ROUND(i4, 1) AS r, k NOT LIKE 'a%' AS l, ts = tz AS e, NULL IN (1, i4) AS i FROM t",
    "SELECT 9223372036854775808 AS a, -2147483648 AS b, 2147483648 AS c, -9223372036854775808 AS e, CAST(NULL AS DATE) AS f, NOT (TRUE AND FALSE) AS g",
    *(f"SELECT {a} IN ('2020-01-01', '2021-01-01') AS i, '2020-01-01' NOT IN ({a}) AS n, NULLIF({a}, '2020-1-1') AS u FROM t" for a in ("ts", "tz", "day")),
    "SELECT -m AS n, ABS(w) AS a, 1.5 + 2 AS c, 2 / 3.0 AS q, 1.5 % 1 AS r, ROUND(m) AS o, ROUND(m, 1) AS p, ROUND(w, 3) AS u FROM t",
    *(f"SELECT {', '.join(f'CAST({a} AS {b}) AS c{i}' for i, b in enumerate(['TINYINT', 'SMALLINT', 'INT', 'BIGINT', 'FLOAT', 'DOUBLE', 'DECIMAL(12,3)', 'DECIMAL(38,0)', 'STRING']))} FROM t"
      for a in (*NUMBERS, "m", "w", "1", "1.5", "1e0")),
    *(f"SELECT CAST({a} AS STRING) AS s FROM t" for a in TABLE),
    "SELECT CAST(k AS INT) AS a, CAST('1' AS BIGINT) AS b, CAST(k AS DOUBLE) AS c, CAST(b AS INT) AS d, CAST(i4 AS BOOLEAN) AS e FROM t",
    "SELECT CAST(k AS DATE) AS a, CAST(k AS TIMESTAMP_NTZ) AS b, CAST(k AS TIMESTAMP_LTZ) AS c FROM t",
    *(f"SELECT CAST({a} AS DATE) AS d, CAST({a} AS TIMESTAMP_NTZ) AS n, CAST({a} AS TIMESTAMP_LTZ) AS z FROM t"
      for a in ("ts", "tz", "day")),
    "SELECT k, GROUPING(k) AS g, CASE WHEN GROUPING(day) = 1 THEN 'all' ELSE k END AS c, COUNT(*) AS n FROM t "
    "GROUP BY GROUPING SETS ((k, day), (k))",
    "SELECT k, ROW_NUMBER() OVER (PARTITION BY k, day ORDER BY i4 DESC NULLS LAST) AS r, RANK() OVER (ORDER BY d) AS s FROM t",
    "SELECT k, SUM(i4) AS s, DENSE_RANK() OVER (PARTITION BY k ORDER BY SUM(i4) DESC, COUNT(*)) AS r FROM t GROUP BY k",
    *(f"SELECT LAG({a}) OVER (ORDER BY k) AS a, LEAD({a}, 2, COALESCE({a}, {a})) OVER (PARTITION BY day ORDER BY k, d) AS b FROM t" for a in TABLE),
    "SELECT LAG(1, 2, 3) OVER (ORDER BY k) AS a, LEAD(1) OVER (ORDER BY k) AS b, LAG(m, 1, CAST(0 AS DECIMAL(10, 2))) OVER (ORDER BY k) AS c FROM t",
    "SELECT k, SUM(i4) - LAG(SUM(i4)) OVER (PARTITION BY k ORDER BY COUNT(*)) AS s FROM t GROUP BY k",
    *(f"SELECT DATE_TRUNC('{unit}', {a}) AS a, TIMESTAMPDIFF({unit}, {a}, {b}) AS b FROM t"
      for unit in ("WEEK", "DAY", "SECOND") for a in ("tz", "TIMESTAMP_SECONDS(0)") for b in ("tz", "TIMESTAMP_SECONDS(0)")),
    "SELECT TRUNC(day, 'MM') AS m, TRUNC(DATE '2020-01-01', 'YEAR') AS y, DATEDIFF(DAY, day, DATE '2020-01-01') AS d FROM t",
    "SELECT ROUND(AVG(d), 2), ROUND(MAX(m), 1), COUNT(*) FROM t",
    "SELECT k, UPPER(k) AS u, m * 2 AS d, SUM(m) / COUNT(*) AS q FROM t GROUP BY k, m",
]  # fmt: skip
# Calls that `keep_wall_clocks` rewrites
ON_WALL_CLOCKS = [
    f"SELECT DATE_TRUNC('{unit}', {a}) AS a, TIMESTAMPDIFF({unit}, ts, {a}) AS b FROM t"
    for unit in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for a in ("ts", "day")
] + [
    "SELECT DATE_TRUNC('MONTH', ts) AS a, DATE_FORMAT(ts, 'yyyy-MM-dd') AS b, "
    "DATE_FORMAT(CAST('2020-01-01' AS TIMESTAMP_NTZ), 'HH:mm') AS c, "
    "DATEDIFF(DAY, CAST('2020-01-01' AS TIMESTAMP_NTZ), CAST('2021-01-01' AS TIMESTAMP_NTZ)) AS d "
    "FROM t"
]
# Each is invalid, or has no certain schema
LEFT = [
    "SELECT nope FROM t",
    "SELECT k FROM nowhere",
    "SELECT k, COUNT(*) AS n FROM t",
    "SELECT i4, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT k FROM t WHERE i4 = 'a'",
    *(
        f"SELECT ts > {a} AS b FROM t"
        for a in ("k", "'now'", "'2020-01-01Z'", "'2020-02-30'", "'2020-01-01 10:00:00+18:01'")
    ),
    "SELECT i4 > '2020-01-01' AS b FROM t",
    "SELECT k FROM t WHERE COUNT(*) > 1",
    "SELECT k FROM t WHERE i4",
    "SELECT SUM(SUM(i4)) AS s FROM t",
    "SELECT SUM(k) AS s FROM t",
    "SELECT k, k FROM t ORDER BY k",
    "SELECT k, COUNT(*) AS n, SUM(i4) AS n FROM t GROUP BY k HAVING n > 1",
    "SELECT a.k FROM (SELECT k, k FROM t) AS a",
    "SELECT UPPER(i4) AS u FROM t",
    "SELECT GROUPING(k) AS g FROM t GROUP BY k",
    "SELECT k FROM t WHERE ROW_NUMBER() OVER (ORDER BY k) = 1",
    "SELECT ROW_NUMBER() OVER (ORDER BY i4) AS r, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT ROW_NUMBER() OVER (PARTITION BY k) AS r FROM t",
    "SELECT SUM(ROW_NUMBER() OVER (ORDER BY k)) AS s FROM t",
    "SELECT COUNT(*) AS n FROM t GROUP BY ROW_NUMBER() OVER (ORDER BY k)",
    "SELECT RANK() OVER (ORDER BY ROW_NUMBER() OVER (ORDER BY k)) AS r FROM t",
    "SELECT k FROM t GROUP BY k HAVING RANK() OVER (ORDER BY k) = 1",
    "SELECT k FROM t WHERE GROUPING(k) = 1",
    "SELECT SUBSTRING(k, i8) AS s FROM t",
    "SELECT ts + INTERVAL '1' MONTH AS s FROM t",
    "SELECT k FROM t ORDER BY 2",
    "SELECT i4 AS k FROM t ORDER BY k + 1",
    "SELECT COUNT() FROM t",
    "SELECT SUM(i4, i4) FROM t",
    "SELECT SUM(i4) FILTER (WHERE k IS NOT NULL) FROM t",
    "SELECT INITCAP('a') AS u",
    "SELECT CAST(i4 AS DECIMAL(38, '%')) AS d FROM t",
    "SELECT CAST(i4 AS DECIMAL(k)) AS d FROM t",
    "SELECT CAST(i4 AS DECIMAL(39)) AS d FROM t",
    "SELECT *",
    "SELECT NULL AS n",
    "SELECT DISTINCT k FROM t ORDER BY i4",
    "SELECT k FROM t AS a JOIN t AS b ON a.k = b.k",
    "SELECT a.k FROM t AS a, t AS b",
    "SELECT i4 FROM t AS a JOIN t AS b USING (k)",
    "SELECT a.k FROM t AS a JOIN t AS b USING (missing)",
    "SELECT a.k FROM t AS a NATURAL JOIN t AS b",
    "SELECT k FROM t AS a JOIN (SELECT 1 AS k) AS b USING (k)",
    "SELECT b.k FROM t AS a LEFT SEMI JOIN t AS b USING (k)",
    "SELECT a.k FROM t AS a JOIN t AS a ON a.k = a.k",
    "SELECT b.k FROM t AS a LEFT SEMI JOIN t AS b ON a.k = b.k",
    "SELECT SUM(i4) OVER (PARTITION BY k) AS s FROM t",
    "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n FROM c) SELECT * FROM c",
    "WITH c (a) AS (SELECT k FROM t) SELECT * FROM c",
    "SELECT * FROM (VALUES (1), ('a')) AS v(a)",
    "SELECT k, i4 + 1 AS i FROM t GROUP BY k, i4 + 2",
    "SELECT k FROM t UNION SELECT k FROM t",
    "SELECT k FROM t UNION ALL SELECT i4 FROM t",
    "SELECT k FROM t UNION ALL SELECT k, i4 FROM t",
    "SELECT DATE '2020-02-30' AS a FROM t",
    "SELECT CAST(day AS INT) AS a FROM t",
    "SELECT SUM(i4) FILTER (WHERE COUNT(*) > 1) AS s FROM t",
]
COLUMNS: Schema = tuple(
    Column(name, type_.lower().replace(", ", ",")) for name, type_ in TABLE.items()
)


def inferred(query: str) -> Schema | None:
    return output_schema(parse_query(query), {"t": COLUMNS})


def rewritten(query: str) -> exp.Expr:
    tree, scope = parse_query(query), ColumnScope(((None, COLUMNS),))
    assert keep_wall_clocks(tree, lambda value: scope.value(value).type)
    return tree


@pytest.mark.parametrize("query", ON_WALL_CLOCKS)
def test_calls_that_keep_wall_clocks_have_known_types(query: str) -> None:
    tree = rewritten(query)
    assert output_schema(tree, {"t": COLUMNS}) is not None


@pytest.mark.long
def test_inferred_columns_equal_sparks(spark: SparkSession) -> None:
    declared = ", ".join(f"{name} {type_}" for name, type_ in TABLE.items())
    spark.createDataFrame([], declared).createOrReplaceTempView("t")
    try:
        for query in KNOWN:
            fields = spark.sql(to_sql(parse_query(query))).schema.fields
            expected = tuple(Column(f.name, type_ddl(f.dataType), f.nullable) for f in fields)
            assert inferred(query) == expected, query
        for query in ON_WALL_CLOCKS:
            tree = rewritten(query)
            fields = spark.sql(to_sql(tree)).schema.fields
            expected = tuple(Column(f.name, type_ddl(f.dataType), f.nullable) for f in fields)
            assert output_schema(tree, {"t": COLUMNS}) == expected, query
    finally:
        spark.catalog.dropTempView("t")


@pytest.mark.parametrize("query", LEFT)
def test_uncertain_types_are_left_to_spark(query: str) -> None:
    assert inferred(query) is None


@pytest.mark.parametrize("sign", ["+", "-", "*", "%", "/"])
def test_long_chains_of_operators_take_one_step_per_operand(sign: str) -> None:
    # an operand that is typed twice takes 2**60 steps
    columns = inferred(f"SELECT {f' {sign} '.join(['i8'] * 60)} AS x FROM t")
    assert columns is not None
    assert [column.type for column in columns] == ["double" if sign == "/" else "bigint"]
