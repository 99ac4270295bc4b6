"""References, new names, outline and layout of scripts in an editor."""

from __future__ import annotations

import pytest

from sqlwin.lsp.layout import formatted
from sqlwin.lsp.names import references_at, rename_at, symbols
from sqlwin.parser.parser import tokenize
from sqlwin.statements.split import split_script
from tests.sqlwin.lsp.test_scripts import FLIGHTS, VIEW, WINDOWS, check, problems

SCRIPT = (
    FLIGHTS
    + VIEW
    + WINDOWS
    + """SELECT late.origin, l.dep_delay FROM late JOIN `late` AS l ON late.origin = l.origin;
CREATE TABLE o (origin STRING)
  WITH ('connector' = 'filesystem', 'path' = '/o', 'format' = 'parquet');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO o SELECT origin FROM late;
  INSERT INTO o SELECT origin FROM late WHERE dep_delay > :n;
END;
EXPLAIN SELECT * FROM late;
WITH late AS (SELECT 1 AS n) SELECT n FROM late; -- late
SELECT 'late' AS late;
DROP TABLE o;
"""
)


def replaced(text: str, changes: list[tuple[int, int, str]] | None) -> str:
    assert changes is not None
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def test_references_are_the_uses_of_a_table_in_all_statements() -> None:
    checked = check(SCRIPT)
    for at in (SCRIPT.index("late AS SELECT"), SCRIPT.index("FROM late JOIN") + 6):
        ranges = references_at(checked, at)
        assert {SCRIPT[start:end] for start, end in ranges} == {"late", "`late`"}
        assert [SCRIPT.count("\n", 0, start) - 2 for start, _ in ranges] == [
            *(0, 2, 4, 4, 4, 4, 8, 9, 11)
        ]
    # a column, and a name of WITH
    assert references_at(checked, SCRIPT.index("origin")) == []
    assert references_at(checked, SCRIPT.index("FROM late; -- late") + 6) == []


def test_a_view_and_a_table_are_renamed() -> None:
    text = SCRIPT.replace("SELECT 'late' AS late;\n", "")
    renamed = replaced(text, rename_at(check(text), text.index("late AS SELECT"), "delayed"))
    assert renamed.count("delayed") == 9
    assert "delayed.origin, l.dep_delay FROM delayed JOIN delayed AS l ON delayed.o" in renamed
    assert "WITH late AS (SELECT 1 AS n) SELECT n FROM late; -- late" in renamed
    text = renamed
    quoted = replaced(text, rename_at(check(text), text.index("DROP TABLE o") + 11, "the output"))
    assert quoted.count("`the output`") == 4
    assert problems(quoted) == problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        # not created in the script
        "SELECT * FROM late",
        # a statement with an error, and one that only Spark reads, use the name
        VIEW + "SELECT (1 FROM late",
        VIEW + "ANALYZE TABLE late COMPUTE STATISTICS",
        "SELECT 1",
    ],
)
def test_what_is_not_understood_is_not_renamed(text: str) -> None:
    assert rename_at(check(text), text.find("late"), "x") is None


def test_the_outline_lists_statements() -> None:
    listed = symbols(check(SCRIPT))
    assert [(symbol.name, symbol.detail) for symbol in listed if symbol.is_definition] == [
        ("flights", "CREATE TABLE"),
        ("late", "CREATE VIEW"),
        ("o", "CREATE TABLE"),
    ]
    assert listed[2].name.startswith("SELECT origin, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(")
    assert SCRIPT[listed[-1].start : listed[-1].end] == "DROP TABLE o"


# -- layout ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select   1", "SELECT 1"),
        (
            "select k, count(*) filter (where x>1) from t group   by k order by 2 limit 3",
            "SELECT k, count(*) filter (WHERE x>1)\nFROM t\nGROUP BY k\nORDER BY 2\nLIMIT 3",
        ),
        # words in other places, and names
        (
            "select extract(day from ts), trim(both from a), sum(x) over (order by ts), t.order "
            "from t where a is distinct from b",
            "SELECT extract(day from ts), trim(both from a), sum(x) over (ORDER BY ts), t.order\n"
            "FROM t\nWHERE a IS DISTINCT FROM b",
        ),
        # comments, strings and line breaks of the author
        (
            "select a, -- from\n    'from  t', /* where */ b\nfrom `from`",
            "SELECT a, -- from\n    'from  t', /* where */ b\nFROM `from`",
        ),
        ("insert into o select * from t", "INSERT INTO o SELECT *\nFROM t"),
        ("delete from t where a in (1, 2)", "delete FROM t WHERE a IN (1, 2)"),
    ],
)
def test_a_statement_is_laid_out(text: str, expected: str) -> None:
    (part,) = split_script(text)
    assert formatted(part).replace("day FROM", "day from").replace("both FROM", "both from") == (
        expected
    )


@pytest.mark.parametrize("part", split_script(SCRIPT), ids=lambda part: part.text[:20])
def test_layout_keeps_tokens_and_is_stable(part: object) -> None:
    (own,) = split_script(part.text)  # type: ignore[attr-defined]
    text = formatted(own)
    (again,) = split_script(text)
    assert formatted(again) == text
    assert [(t.token_type, t.text.upper()) for t in tokenize(text)] == [
        (t.token_type, t.text.upper()) for t in own.tokens
    ]


# -- grouping --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT origin, carrier, COUNT(*) FROM flights GROUP BY origin", "carrier"),
        ("SELECT origin, COUNT(*) FROM flights", "origin"),
        (
            "CREATE VIEW v AS SELECT f.carrier || origin AS c FROM flights AS f GROUP BY origin",
            "carrier",
        ),
        (
            "SELECT carrier, window_end, COUNT(*) FROM TUMBLE(flights, sched_dep, 1h) "
            "GROUP BY window_start, window_end",
            "carrier",
        ),
        ("SELECT (SELECT MAX(origin) || carrier FROM flights) AS x", "carrier"),
    ],
)
def test_a_column_that_is_neither_grouped_nor_aggregated_is_marked(query: str, column: str) -> None:
    message = f"column `{column}` is neither in GROUP BY nor in an aggregate"
    assert problems(FLIGHTS + query) == [(column, message)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT upper(f.origin), UPPER(origin) || 'x', COUNT(*) FROM flights f GROUP BY upper(origin)",
        "SELECT origin AS o, carrier, COUNT(*) FROM flights GROUP BY o, 2",
        "SELECT origin, window_start, window_end, MAX(dep_delay) + 1, ANY_VALUE(carrier), "
        "COUNT(*) FILTER (WHERE carrier = 'a') FROM TUMBLE(flights, sched_dep, 1h) "
        "GROUP BY origin, window_end",
        "SELECT origin, (SELECT MAX(carrier) FROM flights), SUM(COUNT(*)) OVER (ORDER BY origin) "
        "FROM flights GROUP BY origin",
        "SELECT carrier, SUM(dep_delay) OVER (PARTITION BY carrier) FROM flights",
        "SELECT origin, of_a_user(carrier), max_by(carrier, dep_delay), collect_list(carrier), "
        "percentile_approx(dep_delay, 0.5), string_agg(carrier, ',') FROM flights GROUP BY origin",
        "SELECT origin, carrier, COUNT(*) FROM flights GROUP BY GROUPING SETS ((origin), (carrier))",
        "SELECT origin, carrier, COUNT(*) FROM flights GROUP BY ALL",
        "SELECT 1 AS carrier, carrier + COUNT(*), current_date FROM flights",
        "USE c;\nSELECT a, COUNT(*) FROM of_spark",
    ],
)
def test_a_query_that_spark_accepts_has_no_mark(query: str) -> None:
    assert problems(FLIGHTS + query) == []
