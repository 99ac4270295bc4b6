"""Flink's hints: table options, and hints that Spark cannot read."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlglot import exp

import sqlwin
from planner.sql.build import to_sql
from planner.sql.nodes import LEFT_OUT_HINTS, STATE_TTL, TABLE_OPTIONS
from runtime.errors import AnalysisError, SqlwinError
from runtime.spec.state_schema import without_options
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes, with_options
from sqlwin.parser.parser import parse_query
from sqlwin.statements.nodes import (
    CreateView,
    Explain,
    Insert,
    Query,
    SparkStatement,
    StatementSet,
)
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import split_script

CLICKS = TableSpec(
    "clicks",
    "datagen",
    (TableColumn("id", "INT"),),
    (("Number-Of-Rows", "10"), ("seed", "1")),
)
FILES = TableSpec("files", "filesystem", (), (("path", "x.csv"),))


def options(tree: exp.Expr) -> list[object]:
    actual = [table.meta.get(TABLE_OPTIONS) for table in tree.find_all(exp.Table)]
    return [None if item is None else item.pairs for item in actual]


@pytest.mark.parametrize(
    "source",
    [
        "t /*+ OPTIONS('a.b' = 'x') */",
        "c.d.t/*+options('a.b'='x')*/AS u",
        "`t` /* the clicks */ -- of today\n /*+ OPTIONS('a.b' = 'x') */ u",
        "TABLE(TUMBLE(TABLE t /*+ OPTIONS('a.b'='x') */, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "TUMBLE(DATA => TABLE t /*+ OPTIONS('a.b'='x') */, TIMECOL => DESCRIPTOR(ts), "
        "SIZE => INTERVAL '1' MINUTE)",
        "SESSION(TABLE t /*+ OPTIONS('a.b'='x') */ PARTITION BY k, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)",
    ],
)
def test_options_stand_behind_the_name_of_a_table(source: str) -> None:
    assert options(parse_query(f"SELECT * FROM {source}")) == [(("a.b", "x"),)]


def test_options_belong_to_the_preceding_table_and_comments_are_ignored() -> None:
    sql = "SELECT * FROM t /*+ OPTIONS('a'='it''s', 'b' = 1) */, u /* OPTIONS('a'='comment') */"
    assert options(parse_query(sql)) == [(("a", "it's"), ("b", "1")), None]


@pytest.mark.parametrize(
    ("sql", "message", "column"),
    [
        ("SELECT * FROM t /*+ OPTIONS('a' true) */", "expected = but found", 33),
        ("SELECT * FROM t /*+ OPTIONS(a = 'x') */", "the name of an option must be a string", 29),
        ("SELECT * FROM t /*+ OPTIONS('a' = 'x', 'a' = 'y') */", "'a' is given twice", 40),
        ("SELECT * FROM t /*+ OPTIONS('a' = 'x) */", "unterminated string in this hint", 20),
        ("SELECT * FROM t /*+ BROADCAST(t) */", "BROADCAST is not a table hint", 21),
        ("SELECT * FROM t AS u /*+ OPTIONS('a' = 'x') */", "a hint must follow SELECT", 22),
        ("SELECT /*+ OPTIONS('a' = 'x') */ * FROM t", "OPTIONS must follow a table name", 12),
        ("SELECT * FROM t /*+ OPTIONS('a'='x') */ /*+ OPTIONS('b'='x') */", "one hint", 41),
    ],
)
def test_invalid_hints_are_refused_at_their_position(sql: str, message: str, column: int) -> None:
    # not passed to Spark, which would ignore them as comments or raise an error
    with pytest.raises(AnalysisError, match=message) as caught:
        parse_statement(sql)
    assert caught.value.position is not None
    assert caught.value.position.column == column


def test_hints_on_queries_go_to_spark_where_spark_has_them() -> None:
    tree = parse_query(
        "SELECT /*+ BROADCAST(b), STATE_TTL('a' = '1d') */ /*+ SHUFFLE_MERGE(a), "
        "LOOKUP('table'='b', 'async'='true') */ * FROM a JOIN b ON a.k = b.k"
    )
    assert to_sql(tree) == (
        "SELECT /*+ BROADCAST(b), SHUFFLE_MERGE(a) */ * FROM a JOIN b ON a.k = b.k"
    )
    assert tree.meta[LEFT_OUT_HINTS] == ("STATE_TTL", "LOOKUP")
    assert to_sql(parse_query("SELECT /*+ STATE_TTL('a' = '1d') */ k FROM a")) == "SELECT k FROM a"


@pytest.mark.parametrize("hint", ["LOOKUP('table' = )", "BROADCAST(u", "X('a)", "A /*+ B"])
def test_a_hint_that_does_not_read_is_refused_with_its_place(hint: str) -> None:
    text = f"SELECT /*+ {hint} */ * FROM t"
    with pytest.raises(SqlwinError, match="invalid hint") as caught:
        parse_query(text)
    assert caught.value.position is not None and caught.value.position.offset == text.index("/*+")
    # Spark may support it, and reports the error otherwise
    assert isinstance(parse_statement(text), SparkStatement)


def test_ineffective_hints_give_notes() -> None:
    tree = parse_query(
        "SELECT /*+ STATE_TTL('files' = '1d'), NEST_LOOP(a), BRODCAST(a) */ * "
        "FROM files /*+ OPTIONS('sink.rolling-policy.file-size' = '1mb', 'header' = 'true') */"
    )
    assert hint_notes(tree, lambda name: FILES) == (
        "table `files`: 'sink.rolling-policy.file-size' is a Flink option and has no effect",
        "STATE_TTL, NEST_LOOP are Flink hints and have no effect",
        "unknown hint BRODCAST is ignored; did you mean BROADCAST?",
    )
    assert hint_notes(parse_query("SELECT /*+ BROADCAST(a) */ * FROM a"), lambda name: None) == ()
    with_ttl = parse_query("SELECT /*+ STATE_TTL('a' = '1d') */ k FROM a GROUP BY k")
    assert hint_notes(with_ttl, lambda name: None, has_state_ttl=True) == ()


@pytest.mark.parametrize(
    ("hint", "source", "ttl_s"),
    [
        ("STATE_TTL('a' = '1d')", "a", 86_400),
        ("state_ttl('A' = '5 min')", "db.a", 300),
        ("STATE_TTL('db.a' = '1 h'), BROADCAST(b)", "db.a JOIN b", 3_600),
        ("STATE_TTL('x' = '1 s', 'b' = '9 s')", "a AS x JOIN b", 9),
        ("STATE_TTL('x' = '1 s', 'b' = '0 s')", "a AS x JOIN b", 0),
        ("STATE_TTL('q' = '1 s')", "(SELECT 1 AS k) q", 1),
        ("STATE_TTL('a' = '2 s')", "TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '1' DAY))", 2),
        ("BROADCAST(a)", "a", None),
    ],
)
def test_the_time_to_live_of_a_select(hint: str, source: str, ttl_s: int | None) -> None:
    tree = parse_query(f"SELECT /*+ {hint} */ COUNT(*) FROM {source}")
    ttl_us = tree.meta.get(STATE_TTL)
    assert ttl_us == (None if ttl_s is None else ttl_s * 1_000_000)


@pytest.mark.parametrize(
    ("hint", "message", "at", "suggestion"),
    [
        ("STATE_TTL('order' = '1d')", "names 'order', but", "'order'", "did you mean 'orders'?"),
        ("STATE_TTL('k' = '1d')", "this SELECT reads o, orders", "'k'", "for example"),
        ("STATE_TTL('o' = '1 dd')", "'1 dd' in STATE_TTL is not a dur", "'1 dd'", "'10 min' or"),
        ("STATE_TTL('o')", "takes tables and times in quotes", "STATE_TTL('o')", "for example"),
        ("STATE_TTL()", "needs a table and a time", "STATE_TTL()", "for example"),
        ("X */ /*+ STATE_TTL(o = '1 d')", "in quotes", "STATE_TTL(o = '1 d')", "for example"),
    ],
)
def test_an_invalid_time_to_live_is_refused_at_its_place(
    hint: str, message: str, at: str, suggestion: str
) -> None:
    text = f"SELECT\n /*+ BROADCAST(o), {hint} */ k FROM orders AS o"
    with pytest.raises(AnalysisError, match=re.escape(message)) as caught:
        parse_query(text)
    assert caught.value.position is not None
    assert caught.value.position.offset == text.index(at)
    assert suggestion in (caught.value.hint or "")


def test_hints_override_table_options_in_any_case() -> None:
    changed = with_options(CLICKS, (("number-of-rows", "3"), ("rows-per-second", "5")))
    assert changed.option_map == {"seed": "1", "number-of-rows": "3", "rows-per-second": "5"}
    assert changed.columns == CLICKS.columns


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("number-of-row", "3"), "unknown option 'number-of-row'"),
        (("number-of-rows", "some"), "'number-of-rows'"),
        (("connector", "kafka"), "a query cannot change 'connector'"),
    ],
)
def test_options_of_hints_are_checked_like_create_table(
    option: tuple[str, str], message: str
) -> None:
    with pytest.raises(SqlwinError, match=message):
        with_options(CLICKS, (option,))


def test_a_hint_at_the_end_belongs_to_its_statement() -> None:
    hint = "/*+ OPTIONS('a' = 'x') */"
    script = f"SELECT * FROM t {hint}; SELECT 1 /* a comment */; SELECT * FROM u /* of u */ {hint} -- end"
    first, second, third = split_script(script)
    assert second.text == "SELECT 1"
    for part in (first, third):
        statement = parse_statement(part.text)
        assert isinstance(statement, Query)
        assert options(statement.ast) == [(("a", "x"),)]
    view = parse_statement(f"CREATE VIEW v AS SELECT * FROM t {hint}")
    assert isinstance(view, CreateView)
    assert view.query_text == f"SELECT * FROM t {hint}"
    inner = parse_statement(f"EXPLAIN SELECT * FROM t {hint}")
    assert isinstance(inner, Explain)
    assert isinstance(inner.statement, Query)
    assert options(inner.statement.ast) == [(("a", "x"),)]


def test_insert_gives_options_to_its_table() -> None:
    text = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a /*+ OPTIONS('p' = '1') */ (k) SELECT k FROM t; "
        "INSERT OVERWRITE b SELECT k FROM t /*+ OPTIONS('q' = '2') */; END"
    )
    statements = parse_statement(text)
    assert isinstance(statements, StatementSet)
    first, second = statements.inserts
    assert first.options is not None
    assert first.options.pairs == (("p", "1"),)
    assert first.columns == ("k",)
    assert second.options is None
    assert options(second.ast) == [(("q", "2"),)]
    with pytest.raises(AnalysisError, match="only OPTIONS is supported"):
        parse_statement("INSERT INTO a /*+ BROADCAST(a) */ SELECT 1")
    assert isinstance(parse_statement("INSERT INTO a /* no hint */ SELECT 1"), Insert)


def test_options_of_hints_do_not_change_a_streams_identity() -> None:
    plans = [
        "TableSourceScan(table=[clicks /*+ OPTIONS('a' = '1', 'b' = 'x') */])",
        "Calc(select=[id FROM clicks__options_0123456789ab AS clicks])",
        "clicks /*+ OPTIONS('rows-per-second' = '5') */",
    ]
    assert [without_options(plan) for plan in plans] == [
        "TableSourceScan(table=[clicks])",
        "Calc(select=[id FROM clicks AS clicks])",
        "clicks",
    ]


@pytest.mark.parametrize("ends", ["dropped", "created anew"])
def test_dropping_a_table_drops_its_variants_with_hints(ends: str) -> None:
    views: list[str] = []
    catalog_of_spark = SimpleNamespace(dropTempView=views.append)
    catalog = SessionCatalog(cast(Any, SimpleNamespace(catalog=catalog_of_spark)), cast(Any, None))
    for table in (CLICKS, FILES):
        catalog.add((table.name,), table, replace=False, if_not_exists=False)
    ten = catalog.with_options(("Clicks",), [("seed", "10")])
    eleven = catalog.with_options(("clicks",), [("seed", "11")])
    other = catalog.with_options(("files",), [("format", "csv")])
    actual = [catalog.entry(name) for name in (ten, eleven, other)]
    assert [dict(spec.options) for spec in actual if isinstance(spec, TableSpec)] == [
        {"Number-Of-Rows": "10", "seed": "10"},
        {"Number-Of-Rows": "10", "seed": "11"},
        {"path": "x.csv", "format": "csv"},
    ]
    if ends == "dropped":
        catalog.drop(("clicks",), "TABLE", if_exists=False)
    else:
        catalog.add(("clicks",), CLICKS, replace=True, if_not_exists=False)
    assert catalog.entry(ten) is catalog.entry(eleven) is None
    assert catalog.entry(other) is actual[2]
    forgotten = [view for view in views if view != "clicks"]
    assert len(set(forgotten)) == 2
    assert not any(map(catalog.is_changed_table, forgotten))


def test_a_sink_takes_options_too(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    session = fresh_session
    session.execute(
        f"CREATE TABLE kept (id INT, k STRING) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'csv')"
    )
    insert = (
        "INSERT INTO kept /*+ OPTIONS('csv.field-delimiter' = ';', 'sink.rolling-policy.file-size' = '1mb') */ "
        "SELECT 1, 'a,b'"
    )
    (result,) = session.execute(insert)
    assert result.notes == (
        "table `kept`: 'sink.rolling-policy.file-size' is a Flink option and has no effect",
    )
    (file,) = tmp_path.glob("*.csv")
    assert file.read_text() == "1;a,b\n"
    rows = session.sql("SELECT * FROM kept /*+ OPTIONS('csv.field-delimiter' = ';') */").collect()
    assert [tuple(row) for row in rows] == [(1, "a,b")]
    with pytest.raises(SqlwinError, match="which is not a table of CREATE"):
        session.spark.range(3).createOrReplaceTempView("numbers")
        session.sql("SELECT * FROM numbers /*+ OPTIONS('a' = 'b') */")


@pytest.mark.long
def test_a_stream_reads_a_table_with_other_options(fresh_session: sqlwin.Session) -> None:
    session = fresh_session
    session.execute(
        "CREATE TABLE endless (id INT, at AS TIMESTAMP_NTZ'2026-01-01 00:00:00' + "
        "MAKE_DT_INTERVAL(0, 0, 0, id), WATERMARK FOR at AS at) WITH ('connector' = 'datagen', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '9000000')"
    )
    session.execute("SET 'execution.runtime-mode' = 'streaming'")

    def counts(end: int) -> str:
        source = f"TABLE endless /*+ OPTIONS('fields.id.end' = '{end}') */"
        window = f"TUMBLE({source}, DESCRIPTOR(at), INTERVAL '5' SECOND)"
        return (
            f"SELECT window_start, window_end, COUNT(*) AS n FROM TABLE({window}) "
            "GROUP BY window_start, window_end"
        )

    (result,) = session.execute(
        f"SELECT CAST(a.window_end AS STRING), a.n, b.n AS m FROM ({counts(11)}) a "
        f"LEFT JOIN ({counts(6)}) b "
        "ON a.window_start = b.window_start AND a.window_end = b.window_end"
    )
    assert sorted(map(tuple, result.rows)) == [
        ("2026-01-01 00:00:05", 5, 5),
        ("2026-01-01 00:00:10", 5, 2),
        ("2026-01-01 00:00:15", 2, None),
    ]
    plan = session.explain(counts(11))
    assert "endless /*+ OPTIONS('fields.id.end' = '11') */" in plan
