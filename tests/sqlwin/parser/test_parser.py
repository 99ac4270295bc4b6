"""The parser's trees, and its errors."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from planner.sql.nodes import WindowFunctionCall, position_of
from runtime.errors import SqlSyntaxError
from sqlwin.parser.parser import parse_query, to_spark, tokenize
from sqlwin.parser.strings import string_value
from sqlwin.statements.parse import parse_statement

SIZE = "INTERVAL '10' MINUTE"


def window_function(from_clause: str) -> WindowFunctionCall:
    node = parse_query(f"SELECT * FROM {from_clause}").find(WindowFunctionCall)
    assert node is not None
    return node


def error_of(sql: str) -> SqlSyntaxError:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_query(sql)
    return caught.value


def marked_text(error: SqlSyntaxError) -> str:
    """Return the text under an error's carets."""
    assert error.position is not None and error.sql is not None
    return error.sql[error.position.offset : error.position.offset + error.position.length]


# -- round trip ---------------------------------------------------------------------------------

UNCHANGED = [
    r"""SELECT 'it''s', "say ""x", 'a""b', 'a\'b', 'tab\t', r'\d+', '\%'""",
    "SELECT 10L, 1S, 2Y, 1.5D, 1.5BD, -9223372036854775808L, 1e3",
    "SELECT DATE '2024-01-31', TIMESTAMP_LTZ '2024-01-31 00:00:00', TIMESTAMP_NTZ '2024-01-31'",
    "SELECT INTERVAL 1 DAY 2 HOURS, INTERVAL '1 day', INTERVAL -'4' MINUTE, -INTERVAL '1' YEAR",
    "SELECT INTERVAL '1 02:03:04.5' DAY TO SECOND + INTERVAL '1-2' YEAR TO MONTH",
    "SELECT interval - 4, interval FROM t",
    "SELECT a IS NOT NULL, NOT a IS NULL, NOT a IN (1), NOT a LIKE 'b'",
    "SELECT a << 1, a >> 2, a || b, a DIV b, a <> b, a RLIKE 'x', a ILIKE 'x'",
    "SELECT extract(week FROM ts), trim(BOTH 'x' FROM a), trim(LEADING FROM a), trim(a)",
    "SELECT position('a' IN b), position('a', b), substring(a FROM 2 FOR 3), substr(a, 2)",
    "SELECT overlay(a PLACING 'b' FROM 2), overlay(a, 'b', 2), ceil(x TO day), ceil(x, 2)",
    "SELECT Count(DISTINCT a), sum(a) FILTER(WHERE b > 1), max_by(a, b), my_udf(a), db.f(a)",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), first_value(a) IGNORE NULLS",
    "SELECT date_add(d, 1), timestampdiff(MINUTE, a, b), to_timestamp(a, 'yyyy'), date(a), if(a, 1, 2)",
    "SELECT array(1, 2)[0], array[0], map('a', 1)['a'], transform(xs, x -> x + 1), struct(1 AS x).x",
    "SELECT current_date, current_timestamp, now(), current_user",
    "SELECT a FROM x, y JOIN z ON y.a = z.a",
    "SELECT a FROM x JOIN y ON x.a = y.a LEFT ANTI JOIN z USING (a)",
    "SELECT * FROM VALUES (1), (2) AS t(x)",
    "WITH i AS (SELECT 1), a AS (WITH i AS (SELECT 2) SELECT * FROM i) SELECT * FROM a, i",
    "SELECT a FROM t LATERAL VIEW OUTER explode(xs) e AS v",
    "SELECT /*+ BROADCAST(t), COALESCE(2) */ a FROM t",
    "SELECT sum(a) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW) FROM t",
    "SELECT a FROM t GROUP BY a, GROUPING SETS ((b), ()) ORDER BY a DESC NULLS FIRST LIMIT 3",
    "SELECT bytes, date, timestamp, session, hop, a.end, `a``b`, `select` FROM t",
    "SELECT tumble(ts, INTERVAL '1' MINUTE) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
]


@pytest.mark.parametrize(
    ("text", "has_zone"),
    [
        ("2026-03-29 02:30:00", False),
        ("2026-3-9T2:30:00.123456", False),
        ("2026-03-29", False),
        (" 2026-03-29 02:30 ", False),
        ("-0001-01-01 00:00:00", False),
        ("2026-03-29 02:30:00Z", True),
        ("2026-03-29 02:30:00+02:00", True),
        ("2026-03-29 02:30:00 Europe/Berlin", True),
        ("now", True),
    ],
)
def test_a_timestamp_literal_is_an_instant_only_if_it_names_a_zone(
    text: str, has_zone: bool
) -> None:
    name = "TIMESTAMP" if has_zone else "TIMESTAMP_NTZ"
    assert to_spark(parse_query(f"SELECT TIMESTAMP '{text}'")) == f"SELECT {name} '{text}'"


@pytest.mark.parametrize("sql", UNCHANGED)
def test_sql_without_extensions_is_unchanged(sql: str) -> None:
    assert to_spark(parse_query(sql)) == sql


@pytest.mark.parametrize(
    "sql",
    [
        *(sql for sql in UNCHANGED if "TO day" not in sql),
        "SELECT 'a' 'b' -- adjacent\n'c', \"it's\", 'x\\\\'",
        "SELECT * FROM VALUES 1, 2 AS t(x), LATERAL (SELECT x + 1)",
        "SELECT /*+ MERGE(a) */ /*+ COALESCE(2) */ a::int::string, -a::int, a.b[0].c FROM a",
        "SELECT NOT a = b AND c OR d, a - (b - c), a BETWEEN 1 AND 2 AND b, a & b | c, a = b IS NULL",
        "SELECT CAST(a AS ARRAY<STRUCT<x: INT, y: MAP<STRING, DECIMAL(10, 2)>>>), TRY_CAST(a AS TIME(3))",
    ],
)
def test_spark_parses_the_rendered_text_to_the_same_tree(spark: SparkSession, sql: str) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()

    def plan(text: str) -> str:
        return re.sub(r"#\d+", "#", parser.parsePlan(text).toString())

    assert plan(to_spark(parse_query(sql))) == plan(sql)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("'it''s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
        (r"'\u0041\101\t\\\q'", "AA\t\\q"),
        (r"'\%\_'", r"\%\_"),
        (r"'\uD83D\uDE00'", "😀"),
        (r"r'\d'", r"\d"),
        (r"'\08'", "\x008"),
    ],
)
def test_strings_have_the_value_of_spark_4(raw: str, value: str) -> None:
    assert string_value(raw) == value
    (literal,) = parse_query(f"SELECT {raw}").expressions
    assert literal.name == value


def test_a_changed_literal_is_rendered_again() -> None:
    tree = parse_query("SELECT 'it''s'")
    tree.expressions[0].set("this", "it's so")
    assert to_spark(tree) == r"SELECT 'it\'s so'"


# -- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flink", "spark_type"),
    [
        ("TIMESTAMP", "TIMESTAMP"),
        ("TIMESTAMP(3)", "TIMESTAMP_NTZ"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP_NTZ"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP"),
        ("ARRAY<TIMESTAMP(3)>", "ARRAY<TIMESTAMP_NTZ>"),
        (
            "ROW<a INT, b ROW(c STRING 'text')>",
            "STRUCT<a: INT, b: STRUCT<c: STRING COMMENT 'text'>>",
        ),
        ("BYTES", "BINARY"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("INTERVAL DAY(3) TO SECOND(6)", "INTERVAL DAY TO SECOND"),
    ],
)
def test_types_of_flink_become_types_of_spark(flink: str, spark_type: str) -> None:
    assert to_spark(parse_query(f"SELECT CAST(a AS {flink})")) == f"SELECT CAST(a AS {spark_type})"


@pytest.mark.parametrize("type_", ["TIMESTAMP(9)", "TIMESTAMP(3) WITH TIME ZONE", "MULTISET"])
def test_a_type_that_spark_has_not_is_an_error_with_its_place(type_: str) -> None:
    assert marked_text(error_of(f"SELECT CAST(a AS {type_})")) == type_


def test_the_precision_of_interval_units_is_ignored() -> None:
    sql = "SELECT INTERVAL '100' SECOND(3), INTERVAL '1 02:03:04' DAY(3) TO SECOND(6)"
    assert to_spark(parse_query(sql)) == (
        "SELECT INTERVAL '100' SECOND, INTERVAL '1 02:03:04' DAY TO SECOND"
    )


def test_spark_has_no_quarters_but_months() -> None:
    assert to_spark(parse_query("SELECT d + INTERVAL -'2' QUARTER")) == (
        "SELECT d + INTERVAL -'6' MONTH"
    )


# -- window functions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        f"TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), {SIZE}))",
        f"TUMBLE(TABLE bids, DESCRIPTOR(ts), {SIZE})",
        f"tumble(bids, descriptor(`ts`), {SIZE})",
        f"tumble(bids, ts, {SIZE})",
        f"TUMBLE(TABLE bids, `ts`, {SIZE})",
        "tumble(bids, ts, 10m)",
        "tumble(bids, ts, 10 MINUTES)",
        "tumble(bids, ts, '10' minute)",
        "TUMBLE(DATA => bids, TIMECOL => ts, SIZE => 10 minutes)",
        f"TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SIZE => {SIZE}))",
        f"TUMBLE(size => {SIZE}, data => bids, TimeCol => DESCRIPTOR(ts))",
    ],
)
def test_every_spelling_of_a_call_is_the_same_call(call: str) -> None:
    node = window_function(call)
    assert node.kind == "TUMBLE"
    assert node.args["data"] == exp.Table(this=exp.to_identifier("bids"))
    assert node.args["timecol"].name == "ts"
    assert to_spark(node.args["size"]) == SIZE
    assert node.args.get("offset") is None


def test_arguments_go_to_their_parameters() -> None:
    hop = window_function("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)")
    assert to_spark(hop.args["slide"]) == "INTERVAL '1' MINUTE"
    assert to_spark(hop.args["size"]) == "INTERVAL '1' HOUR"
    named = window_function(
        "HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR, "
        "`OFFSET` => INTERVAL '5' SECOND, SLIDE => INTERVAL '1' MINUTE)"
    )
    assert named.args["slide"] == hop.args["slide"]
    assert to_spark(named.args["offset"]) == "INTERVAL '5' SECOND"
    assert window_function(
        f"TUMBLE(DATA => t, TIMECOL => DESCRIPTOR(ts), SIZE => {SIZE}, OFFSET => {SIZE})"
    ).args["offset"]


def test_cumulate_takes_its_flag_with_and_without_an_offset() -> None:
    start = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR"
    short = window_function(f"{start}, TRUE)")
    assert short.args["emitonlyonupdate"] == exp.true() and short.args.get("offset") is None
    long = window_function(f"{start}, INTERVAL '0' SECOND, TRUE)")
    assert long.args["emitonlyonupdate"] == exp.true() and long.args["offset"]
    assert window_function(f"{start}, INTERVAL '7' SECOND)").args["offset"]


def test_session_takes_keys() -> None:
    one = window_function(f"SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), {SIZE})")
    assert [key.name for key in one.args["partition"]] == ["k"]
    two = window_function(f"SESSION(TABLE t PARTITION BY (k1, k2), DESCRIPTOR(ts), {SIZE})")
    assert [key.name for key in two.args["partition"]] == ["k1", "k2"]
    named = window_function(
        f"SESSION(DATA => TABLE t PARTITION BY k, TIMECOL => DESCRIPTOR(ts), GAP => {SIZE})"
    )
    assert [key.name for key in named.args["partition"]] == ["k"]
    calcite = window_function(f"SESSION(TABLE t, DESCRIPTOR(ts), DESCRIPTOR(k1, k2), {SIZE})")
    assert [key.name for key in calcite.args["partition"]] == ["k1", "k2"]
    assert calcite.args["gap"] == one.args["gap"]


@pytest.mark.parametrize(
    ("short", "interval"),
    [("5s", "'5' SECOND"), ("2h", "'2' HOUR"), ("250ms", "'250' MILLISECOND")],
)
def test_short_durations_are_intervals_in_window_arguments(short: str, interval: str) -> None:
    node = window_function(f"HOP(t, ts, {short}, {short})")
    assert to_spark(node.args["slide"]) == f"INTERVAL {interval}"
    assert to_spark(parse_query("SELECT 5s")) == "SELECT 5s"


@pytest.mark.parametrize(
    ("data", "tables"),
    [
        ("TABLE a.b.c", ["a.b.c"]),
        ("`my table`", ["`my table`"]),
        ("(SELECT * FROM x)", ["x"]),
        ("TABLE (SELECT * FROM x UNION ALL SELECT * FROM y)", ["x", "y"]),
        ("TABLE (WITH q AS (SELECT * FROM x) SELECT * FROM q ORDER BY 1)", ["q", "x"]),
        ("TABLE(HOP(TABLE x, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))", ["x"]),
        ("(VALUES (1, 2) AS v(a, ts))", []),
    ],
)
def test_data_is_a_table_a_query_or_another_window_function(data: str, tables: list[str]) -> None:
    node = window_function(f"TUMBLE({data}, DESCRIPTOR(ts), {SIZE})")
    result = [to_spark(table) for table in node.args["data"].find_all(exp.Table)]
    assert sorted(result) == tables


def test_window_functions_stand_wherever_tables_do() -> None:
    call = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {SIZE}))"
    sql = (
        f"WITH c AS (SELECT * FROM {call}) SELECT * FROM c JOIN {call} AS w(a, b) ON c.a = w.a, "
        f"({call} AS x JOIN {call} AS y ON x.a = y.a) WHERE EXISTS(SELECT 1 FROM {call}) AND "
        f"a IN (SELECT a FROM {call}) UNION ALL SELECT * FROM {call} LATERAL VIEW explode(xs) e AS v"
    )
    tree = parse_query(sql)
    assert len(list(tree.find_all(WindowFunctionCall))) == 7
    # the parentheses of a join are dropped
    plain = sql.replace(f", ({call} AS x", f" CROSS JOIN {call} AS x")
    assert to_spark(tree) == plain.replace("x.a = y.a) WHERE", "x.a = y.a WHERE")


def test_every_argument_knows_its_place() -> None:
    sql = (
        "SELECT *\nFROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE,\n"
        "  INTERVAL '1' HOUR * 2, - INTERVAL '5' SECOND(3)))"
    )
    node = parse_query(sql).find(WindowFunctionCall)
    assert node is not None

    def text(part: exp.Expr) -> str:
        position = position_of(part, sql)
        assert position is not None
        return sql[position.offset : position.offset + position.length]

    assert text(node) == sql[sql.index("TABLE(") :]
    assert [text(node.args[name]) for name in ("data", "timecol", "step", "size", "offset")] == [
        "TABLE bids",
        "ts",
        "INTERVAL '1' MINUTE",
        "INTERVAL '1' HOUR * 2",
        "- INTERVAL '5' SECOND(3)",
    ]
    position = position_of(node.args["size"], sql)
    assert position is not None and (position.line, position.column) == (3, 3)


@pytest.mark.parametrize(
    ("from_clause", "message", "place"),
    [
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts))",
            "TUMBLE takes (TABLE data, DESCRIPTOR(timecol), size [, offset]): "
            "3 or 4 arguments, got 2",
            "TUMBLE(TABLE t, DESCRIPTOR(ts))",
        ),
        (
            f"CUMULATE(TABLE t, DESCRIPTOR(ts), {SIZE}, {SIZE}, {SIZE}, TRUE, 1)",
            "CUMULATE takes (TABLE data, DESCRIPTOR(timecol), step, size [, offset] "
            "[, emitonlyonupdate]): 4 to 6 arguments, got 7",
            f"CUMULATE(TABLE t, DESCRIPTOR(ts), {SIZE}, {SIZE}, {SIZE}, TRUE, 1)",
        ),
        (f"SESSION(TABLE t, DESCRIPTOR(ts), {SIZE}, {SIZE})", "3 arguments, got 4", None),
        ("TUMBLE(DATA => t, TIMCOL => DESCRIPTOR(ts))", "unknown argument TIMCOL", "TIMCOL"),
        (
            f"TUMBLE(DATA => t, SIZE => {SIZE}, size => {SIZE})",
            "argument SIZE of TUMBLE is given twice",
            "size",
        ),
        (f"TUMBLE(DATA => t, DESCRIPTOR(ts), {SIZE})", "cannot mix named", "DESCRIPTOR"),
        (f"TUMBLE(t, DESCRIPTOR(ts), SIZE => {SIZE})", "cannot mix named", "SIZE"),
        (
            f"TUMBLE(SIZE => {SIZE}, TIMECOL => DESCRIPTOR(ts))",
            "missing argument of TUMBLE: DATA",
            None,
        ),
        (f"TUMBLE(DESCRIPTOR(ts), {SIZE})", "TUMBLE requires a table", "DESCRIPTOR"),
        (f"TUMBLE(TABLE t, {SIZE}, 1)", "requires DESCRIPTOR", "INTERVAL"),
        (f"TUMBLE(TABLE t, t.ts, {SIZE})", "unqualified column name", "t.ts"),
        (f"TUMBLE(TABLE t, DESCRIPTOR(), {SIZE})", "needs the name", "DESCRIPTOR()"),
        (f"TUMBLE(TABLE t, DESCRIPTOR(t.ts), {SIZE})", "unqualified column name", "t.ts"),
        (f"TUMBLE(TABLE t, DESCRIPTOR(a, b), {SIZE})", "takes a single column", "a, b"),
        (f"TUMBLE(TABLE t, DESCRIPTOR('a'), {SIZE})", "requires a column name", "'a'"),
        (
            f"TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), {SIZE})",
            "unlike SESSION",
            "PARTITION BY",
        ),
        (
            f"SESSION(TABLE t ORDER BY k, DESCRIPTOR(ts), {SIZE})",
            "does not support ORDER BY",
            "ORDER BY",
        ),
        (
            f"SESSION(TABLE t PARTITION BY 1, DESCRIPTOR(ts), {SIZE})",
            "must contain only columns",
            "1",
        ),
        (f"TUMBLE(5, DESCRIPTOR(ts), {SIZE})", "a table, a view or a subquery", "5"),
        (
            f"TUMBLE(TABLE t, DESCRIPTOR(ts), {SIZE}, )",
            "missing argument of TUMBLE after this comma",
            ",",
        ),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL 10)", "needs a unit", ")"),
        (f"TUMBLE(TABLE t, DESCRIPTOR(ts) {SIZE})", "expected , or ) but found", "INTERVAL"),
        (f"u, TUMBLE(TABLE t, DESCRIPTOR(ts), {SIZE} WHERE a", "but found `WHERE`", "WHERE"),
    ],
)
def test_an_invalid_call_is_reported_at_its_position(
    from_clause: str, message: str, place: str | None
) -> None:
    error = error_of(f"SELECT * FROM {from_clause}")
    assert message in error.message
    assert "\n" not in error.message
    if place is not None:
        assert marked_text(error) == place


def test_a_misspelt_argument_gets_the_nearest_name() -> None:
    assert error_of("SELECT * FROM HOP(DATA => t, SLIDES => 1)").hint == "did you mean SLIDE?"


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        ("TABLE(TUMBEL(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "TUMBLE"),
        ("TUMBEL(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR) AS w", "TUMBLE"),
        ("(CUMULATIVE(TABLE t, DESCRIPTOR(ts), 1h, 1d))", "CUMULATE"),
        ("a JOIN HOPP(TABLE (SELECT * FROM t), DESCRIPTOR(ts), 1h, 1d) AS w ON a.k = w.k", "HOP"),
    ],
)
def test_a_misspelt_function_gets_the_nearest_name(call: str, nearest: str) -> None:
    error = error_of(f"SELECT * FROM {call}")
    assert error.hint == f"did you mean {nearest}?"
    assert error.message.startswith("unknown window function ")


# -- what does not read at all --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "message", "offset"),
    [
        ("SELECT 'abc", "unterminated string", 7),
        ("SELECT `abc", "unterminated quoted name", 7),
        ("SELECT 1 /* a /* b */", "unterminated comment", 9),
        ("SELECT a FROM (SELECT b", "expected ) but found the end of the statement", 23),
        ("SELECT a b c", "unexpected `c`", 11),
    ],
)
def test_invalid_sql_is_one_line_with_its_position(sql: str, message: str, offset: int) -> None:
    error = error_of(sql)
    assert error.message == message
    assert error.position is not None and error.position.offset == offset


def test_comments_of_every_style_are_no_tokens() -> None:
    sql = "SELECT -- one; two\n 1 /* three /* four */ ; */ , 2 -- five"
    assert [token.text for token in tokenize(sql)] == ["SELECT", "1", ",", "2"]


def test_a_keyword_of_two_words_may_have_a_comment_inside() -> None:
    sql = "SELECT k, `group` by FROM t GROUP /* one */ BY k ORDER -- two\n BY k"
    words = [token.text for token in tokenize(sql)]
    assert words[3:] == ["group", "by", "FROM", "t", "GROUP BY", "k", "ORDER BY", "k"]
    assert parse_query(sql).args["group"] and tokenize(sql)[7].start == sql.index("GROUP")


# -- words of other systems -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["EMIT ON WINDOW CLOSE", "emit after watermark", "EMIT AFTER WINDOW CLOSE"]
)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT k FROM t",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS w",
    ],
)
def test_emit_on_window_close_is_accepted(query: str, words: str) -> None:
    assert parse_query(f"{query} {words}") == parse_query(query)


@pytest.mark.parametrize(
    ("sql", "at", "hint"),
    [
        ("SELECT COUNT(*) FROM t GROUP BY k EMIT PERIODIC 5s", "EMIT", "early-fire.enabled"),
        ("SELECT STREAM * FROM t", "STREAM", "'execution.runtime-mode' = 'streaming'"),
        ("SELECT STREAM FLOOR(ts TO DAY) FROM t", "STREAM", "remove STREAM"),
        (
            "SELECT MAX(v) OVER (PARTITION BY k ORDER BY ts SESSION WITH GAP INTERVAL '5' MINUTE) FROM t",
            "SESSION WITH GAP",
            "FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), ",
        ),
        (
            "SELECT k, COUNT(*) FROM t WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k",
            "WINDOW TUMBLING",
            "FROM TUMBLE(TABLE t,",
        ),
        ("SELECT k FROM t WINDOW HOPPING (SIZE 1 HOUR) GROUP BY k", "WINDOW HOPPING", "FROM HOP("),
        ("SELECT k FROM t TIMESTAMP BY ts", "TIMESTAMP BY", "WATERMARK FOR ts in CREATE TABLE"),
    ],
)
def test_words_with_another_spelling_here_have_it_as_a_hint(sql: str, at: str, hint: str) -> None:
    # with and without a window in the query
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    assert caught.value.hint == error_of(sql).hint
    error = error_of(sql)
    assert error.position is not None and error.hint is not None
    result = sql[error.position.offset : error.position.offset + error.position.length]
    assert result.strip() == at
    assert hint in error.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT stream AS s FROM t",
        "SELECT a * stream, stream.x FROM t AS stream",
        "SELECT emit FROM t WHERE emit > 3",
        "SELECT emit.k FROM t emit JOIN u ON emit.k = u.k",
        "SELECT k, timestamp by FROM t",
        "SELECT session FROM t",
        "SELECT * FROM t FOR TIMESTAMP AS OF '2024-01-01'",
        "SELECT * FROM t TIMESTAMP AS OF CURRENT_DATE()",
    ],
)
def test_these_words_are_names_elsewhere(sql: str) -> None:
    assert isinstance(parse_query(sql), exp.Select)


def test_half_a_surrogate_pair_is_refused_with_its_place() -> None:
    error = error_of("SELECT 'a\ud800b' AS x")
    assert error.message == "invalid character: half of a surrogate pair"
    assert error.position is not None and error.position.column == 10
    str(error).encode()
