"""Clauses, operators and lists without content are refused, with their position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import SqlSyntaxError
from sqlwin.statements.parse import parse_statement

HOP = (
    "SELECT k, window_start, SUM(v) AS total FROM TABLE("
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) "
)

# SQL, message, and the words under the carets
REFUSED = [
    ("SELECT", "SELECT needs columns", "SELECT"),
    ("SELECT MAX(select) FROM t", "SELECT is a reserved word", "select"),
    ("SELECT MAX(from) FROM t", "FROM is a reserved word", "from"),
    ("SELECT MAX(where) FROM t", "WHERE is a reserved word", "where"),
    ("SELECT a AS select FROM t", "SELECT is a reserved word", "select"),
    ("SELECT select + 1 FROM t", "SELECT is a reserved word", "select"),
    ("SELECT a, select FROM t", "SELECT is a reserved word", "select"),
    ("SELECT FROM t", "SELECT needs columns", "SELECT"),
    ("SELECT DISTINCT FROM t", "SELECT needs columns", "SELECT DISTINCT"),
    ("SELECT (SELECT) FROM t", "SELECT needs columns", "SELECT)"),
    ("SELECT k FROM", "FROM needs a table", "FROM"),
    ("SELECT k FROM WHERE k > 0", "FROM needs a table", "FROM"),
    ("SELECT k FROM ()", "FROM needs a table", "FROM ()"),
    ("SELECT k FROM t GROUP BY k FILL (n = f(0)) FROM", "FROM of FILL needs a time", "FROM"),
    ("SELECT f(0) FROM", "FROM needs a table", "FROM"),
    ("SELECT * FROM t WHERE", "WHERE needs a condition", "WHERE"),
    ("SELECT * FROM t WHERE ORDER BY k", "WHERE needs a condition", "WHERE"),
    ("SELECT * FROM t WHERE ()", "WHERE needs a condition", "WHERE ()"),
    ("SELECT * FROM (SELECT * FROM t WHERE) AS s", "WHERE needs a condition", "WHERE)"),
    ("SELECT SUM(v) FILTER (WHERE) FROM t", "WHERE needs a condition", "WHERE)"),
    ("SELECT k FROM t GROUP BY", "GROUP BY needs columns", "GROUP BY"),
    ("SELECT FORM t GROUP BY", "GROUP BY needs columns", "GROUP BY"),
    ("SELECT k FROM t GROUP BY HAVING COUNT(*) > 1", "GROUP BY needs columns", "GROUP BY"),
    ("SELECT k FROM t GROUP BY k HAVING", "HAVING needs a condition", "HAVING"),
    ("SELECT k FROM t QUALIFY", "QUALIFY needs a condition", "QUALIFY"),
    ("SELECT k FROM t ORDER BY", "ORDER BY needs columns", "ORDER BY"),
    ("SELECT k FROM t SORT BY", "SORT BY needs columns", "SORT BY"),
    ("SELECT k FROM t CLUSTER BY", "CLUSTER BY needs columns", "CLUSTER BY"),
    ("SELECT k FROM t DISTRIBUTE BY", "DISTRIBUTE BY needs columns", "DISTRIBUTE BY"),
    ("SELECT k FROM t LIMIT", "LIMIT needs a number of rows", "LIMIT"),
    ("SELECT k FROM t LIMIT OFFSET 2", "LIMIT needs a number of rows", "LIMIT"),
    ("SELECT k FROM t OFFSET", "OFFSET needs a number of rows", "OFFSET"),
    ("SELECT k FROM t FETCH FIRST", "FETCH needs a number of rows", "FETCH FIRST"),
    ("SELECT k FROM t TABLESAMPLE", "TABLESAMPLE needs a share of the rows", "TABLESAMPLE"),
    ("SELECT k FROM t PIVOT", "PIVOT needs its columns", "PIVOT"),
    ("SELECT k FROM t WINDOW", "WINDOW needs a name", "WINDOW"),
    ("SELECT k FROM t JOIN", "JOIN needs a table", "JOIN"),
    ("SELECT k FROM t LEFT JOIN ON t.k = u.k", "JOIN needs a table", "JOIN"),
    ("SELECT k FROM t JOIN u ON", "ON needs a condition", "ON"),
    ("SELECT k FROM t JOIN u ON WHERE k > 0", "ON needs a condition", "ON"),
    ("SELECT k FROM t JOIN u USING", "USING needs columns in parentheses", "USING"),
    ("SELECT k FROM t JOIN u USING ()", "USING needs columns in parentheses", "USING ()"),
    ("SELECT k FROM t UNION", "UNION needs a query", "UNION"),
    ("SELECT k FROM t UNION ALL", "UNION needs a query", "UNION ALL"),
    ("SELECT k FROM t INTERSECT", "INTERSECT needs a query", "INTERSECT"),
    ("SELECT k FROM t EXCEPT", "EXCEPT needs a query", "EXCEPT"),
    ("SELECT * EXCEPT () FROM t", "EXCEPT needs columns in parentheses", "EXCEPT ()"),
    ("SELECT * EXCEPT FROM t", "EXCEPT needs columns in parentheses", "EXCEPT"),
    ("VALUES", "VALUES needs rows", "VALUES"),
    ("INSERT INTO o VALUES", "VALUES needs rows", "VALUES"),
    ("SELECT SUM(v) OVER FROM t", "OVER needs a window", "OVER"),
    ("SELECT SUM(v) OVER (PARTITION BY) FROM t", "PARTITION BY needs columns", "PARTITION BY)"),
    ("SELECT SUM(v) OVER (ORDER BY) FROM t", "ORDER BY needs columns", "ORDER BY)"),
    ("SELECT k AS FROM t", "AS needs a name", "AS"),
    ("SELECT k FROM t AS", "AS needs a name", "AS"),
    ("SELECT k FROM t WHERE k IN ()", "IN needs values or a query", "IN ()"),
    ("SELECT CASE WHEN THEN 1 END FROM t", "WHEN needs a condition", "WHEN"),
    ("SELECT CASE WHEN k THEN END FROM t", "THEN needs a value", "THEN"),
    ("SELECT CASE WHEN k THEN 1 ELSE END FROM t", "ELSE needs a value", "ELSE"),
    ("SELECT k, FROM t", "nothing after this comma", ","),
    ("SELECT k FROM t EMIT", "EMIT needs ON WINDOW CLOSE", "EMIT"),
    ("SELECT k FROM (SELECT k FROM t EMIT)", "EMIT needs ON WINDOW CLOSE", "EMIT"),
    ("SELECT k FROM t FOR", "FOR needs its content", "FOR"),
    ("SELECT k FROM t,", "nothing after this comma", ","),
    ("SELECT k FROM t GROUP BY k, HAVING k > 0", "nothing after this comma", ","),
    ("SELECT CONCAT(k,) FROM t", "nothing after this comma", ","),
    ("SELECT CONCAT(, k) FROM t", "nothing before this comma", ","),
    ("SELECT k FROM t WHERE k =", "nothing after `=`", "="),
    ("SELECT k FROM t WHERE = 1", "nothing before `=`", "="),
    ("SELECT k FROM t WHERE k > 0 AND", "nothing after AND", "AND"),
    ("SELECT k FROM t WHERE k > 0 AND ORDER BY k", "nothing after AND", "AND"),
    ("SELECT k FROM t WHERE NOT", "nothing after NOT", "NOT"),
    ("SELECT k FROM t WHERE k BETWEEN 1 AND", "nothing after AND", "AND"),
    ("SELECT k + FROM t", "nothing after `+`", "+"),
    ("SELECT t. FROM t", "nothing after `.`", "."),
    (f"{HOP} WHERE", "WHERE needs a condition", "WHERE"),
    (f"{HOP} GROUP BY", "GROUP BY needs columns", "GROUP BY"),
    ("CREATE VIEW w AS SELECT * FROM t WHERE", "WHERE needs a condition", "WHERE"),
    ("INSERT INTO o SELECT * FROM t WHERE", "WHERE needs a condition", "WHERE"),
    ("EXPLAIN SELECT * FROM t WHERE", "WHERE needs a condition", "WHERE"),
    ("DELETE FROM t WHERE", "WHERE needs a condition", "WHERE"),
]  # fmt: skip

# Words of clauses as names, and clauses of every kind with content
READ = [
    "SELECT k, offset FROM t WHERE offset > 3 ORDER BY offset LIMIT 3 OFFSET 2",
    "SELECT k, on FROM t WHERE on AND k > 0",
    "SELECT MAX(v) offset, MIN(v) limit FROM t",
    "SELECT from, to FROM mails",
    "SELECT t.from, t.on, t.where FROM t",
    "SELECT k AS from, v AS on FROM t",
    "SELECT window, COUNT(*) FROM t GROUP BY k, window ORDER BY window",
    "SELECT CASE k WHEN 1 THEN 2 ELSE 3 END end FROM t",
    "SELECT LEFT(a, 2), RIGHT(b, 1) FROM t WHERE LEFT(a, 1) = 'x'",
    "SELECT * EXCEPT (a), COUNT(*), t.* FROM t EXCEPT SELECT 1",
    "SELECT FILTER(a, x -> x > 0) FROM t LATERAL VIEW EXPLODE(z) e AS f",
    "SELECT SUM(v) FILTER (WHERE v > 0) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)",
    "SELECT SUM(v) OVER (), COUNT(DISTINCT v) FROM t",
    "SELECT EXTRACT(YEAR FROM ts), TRIM(BOTH 'x' FROM y), SUBSTRING(a FROM 2 FOR 3) FROM t",
    "SELECT a IS NOT NULL, b IS DISTINCT FROM c, d IS NOT DISTINCT FROM e FROM t",
    "SELECT CAST(x AS ARRAY<INT>), CAST(y AS MAP<STRING, ARRAY<STRUCT<a: INT>>>), a < b FROM t",
    "SELECT * FROM a LEFT ANTI JOIN b ON a.k = b.k CROSS JOIN c FULL OUTER JOIN e USING (k)",
    "SELECT k FROM t GROUP BY GROUPING SETS ((k), ()) HAVING COUNT(*) > 1",
    "SELECT k FROM t GROUP BY ()",
    "SELECT k FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM VALUES (1, 2), (3, 4) AS t(a, b)",
    "SELECT k FROM (SELECT 1 UNION ALL (SELECT 2)) x JOIN LATERAL (SELECT 3) y ON TRUE",
    "SELECT k FROM t FETCH FIRST ROW ONLY",
    "SELECT - 1, +2, a - -b, a * -b, NOT a FROM t",
    "FROM t SELECT k WHERE k > 0",
    "CREATE VIEW w AS FROM t SELECT k",
    "INSERT INTO o FROM t SELECT a",
    "WITH a AS (SELECT 1), b (x) AS (VALUES (1)) SELECT * FROM a, b",
    "CREATE TABLE o USING parquet AS SELECT * FROM t",
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.v > 0 THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT *",
    "SELECT TRANSFORM(a) USING 'cat' AS (b) FROM t",
    "SELECT * FROM t TABLESAMPLE (10 PERCENT) PIVOT (SUM(v) FOR k IN ('a', 'b'))",
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message", "words"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_a_clause_without_content_is_refused(sql: str, message: str, words: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    error = caught.value
    assert error.message == message
    assert error.position is not None
    place = slice(error.position.offset, error.position.offset + error.position.length)
    assert sql[place].split() == words.rstrip(")").split() or sql[place] == words


@pytest.mark.parametrize("sql", READ)
def test_words_of_clauses_may_be_names(sql: str) -> None:
    parse_statement(sql)


# Random queries by grammar: if any clause loses its content, the query is refused.
_CLAUSES = [
    ("SELECT ", ["k", "k, v AS x", "DISTINCT k", "k, SUM(v) OVER (PARTITION BY k) AS s"]),
    (" FROM ", ["t", "t AS a", "(SELECT * FROM t) AS s", "VALUES (1, 2) AS s(k, v)"]),
    (" JOIN ", ["u ON t.k = u.k", "u USING (k)", "(SELECT 1 AS k) AS j ON TRUE"]),
    (" WHERE ", ["v > 0", "k IN ('a', 'b')", "v IS NOT NULL AND NOT k = 'x'", "offset > 1"]),
    (" GROUP BY ", ["k", "k, v", "ROLLUP (k, v)", "()"]),
    (" HAVING ", ["COUNT(*) > 1", "MAX(v) BETWEEN 1 AND 2"]),
    (" ORDER BY ", ["k", "k DESC NULLS LAST, v", "offset"]),
    (" LIMIT ", ["10", "ALL"]),
]


@given(st.data())
def test_every_clause_requires_content(data: st.DataObject) -> None:
    optional = [clause for clause in _CLAUSES[2:] if data.draw(st.booleans())]
    clauses = [*_CLAUSES[:2], *optional]
    parts = [(word, data.draw(st.sampled_from(contents))) for word, contents in clauses]
    whole = "".join(word + content for word, content in parts)
    parse_statement(whole)
    emptied = data.draw(st.integers(0, len(parts) - 1))
    word = parts[emptied][0].strip()
    text = "".join(
        word + ("" if i == emptied else content) for i, (word, content) in enumerate(parts)
    )
    inside = data.draw(st.sampled_from(["{}", "SELECT * FROM ({}) AS q", "WITH q AS ({}) FROM q"]))
    with pytest.raises(SqlSyntaxError, match=f"^{word} needs"):
        parse_statement(inside.format(text))
