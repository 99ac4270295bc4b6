"""Places of expressions: an error about one has its carets under exactly its text."""

from __future__ import annotations

from unicodedata import east_asian_width

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.optimizer import Options
from planner.plan import plan_query
from planner.sql.nodes import error_at, position_of
from runtime.errors import SqlwinError
from sqlwin.parser.clauses import refuse_empty_clauses
from sqlwin.parser.parser import parse_query, tokenize
from tests.planner.test_docstrings import Catalog

NAMES = ("k", "t.k", "`a b`", "`a``b`", "t.`größe`", "`*`", "`日本`")
LITERALS = ("1", "10L", "1.5", "'x'", "'it''s'", r"'a\'b'", "r'a'", "NULL", "TRUE", "DATE '2024-01-31'",
            "INTERVAL '1' DAY", "INTERVAL 1 DAY 2 HOURS", "INTERVAL '1' HOUR / 2", "X'1F'")  # fmt: skip
# Each `?` is an operand
FORMS = (
    *("COUNT(*)", "COUNT( * )", "COUNT(DISTINCT ?)", "f()", "f(?)", "f(?, ?)", "`my f`(?)"),
    *("SUM(?) OVER (PARTITION BY ? ORDER BY ?)", "COUNT(*) OVER ()", "COUNT(*) FILTER (WHERE ?)"),
    *("(?)", "((?))", "(?, ?)", "CAST(? AS INT)", "TRY_CAST(? AS DECIMAL(9, 2))", "?::INT"),
    *("CASE WHEN ? THEN ? ELSE ? END", "CASE ? WHEN ? THEN ? END", "EXTRACT(DAY FROM ?)"),
    *("TRIM(BOTH ? FROM ?)", "EXISTS(SELECT * FROM u)", "(SELECT MAX(k) FROM u)", "-?", "NOT ?"),
    *("? + ?", "? AND ?", "? = ?", "? IN (?, ?)", "? NOT IN (SELECT k FROM u)", "? IS NULL"),
    *("? IS NOT NULL", "? BETWEEN ? AND ?", "? NOT LIKE ?", "a[?]", "f(?)[?]", "f(x -> ?)"),
    *("CURRENT_TIMESTAMP", "CURRENT_DATE()", "current_date", "first(?) IGNORE NULLS"),
)
# Between tokens
GAPS = (" ", "  ", "\n", "\n\t", " /* ) * */ ", " -- ( , *\n")
STARS = ("*", "t.*", "* EXCEPT (k)", "t.* EXCEPT (k, `a b`)", "COUNT(*)", "`*`")


def fill(form: str, operands: list[str]) -> str:
    """Put operands into a form, in parentheses where precedence would change the tree."""
    parts = form.split("?")
    texts = [parts[0]]
    for part, operand in zip(parts[1:], operands, strict=True):
        texts += [operand, part]
    return "".join(texts)


def nested(operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def filled(form: str) -> st.SearchStrategy[str]:
        inner = operands.map(lambda text: f"({text})")
        n = form.count("?")
        return st.lists(inner, min_size=n, max_size=n).map(lambda texts: fill(form, texts))

    return st.sampled_from(FORMS).flatmap(filled)


EXPRESSIONS = st.recursive(st.sampled_from((*NAMES, *LITERALS)), nested, max_leaves=4)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A query, and start and end of the expressions in its SELECT, WHERE and GROUP BY."""
    gaps = st.sampled_from(GAPS)
    sql, places = "SELECT", []

    def add(text: str, is_expression: bool = False) -> None:
        nonlocal sql
        sql += draw(gaps)
        if is_expression:
            # a blank may be any gap
            text = text.replace("( * )", f"({draw(gaps)}*{draw(gaps)})")
            places.append((len(sql), len(sql) + len(text)))
        sql += text

    for i in range(draw(st.integers(1, 3))):
        if i:
            add(",")
        add(draw(st.one_of(EXPRESSIONS, st.sampled_from(STARS))), is_expression=True)
        if draw(st.booleans()) and not sql.endswith(("*", "EXCEPT (k)", "`a b`)")):
            add("AS x")
    add("FROM t WHERE")
    add(draw(EXPRESSIONS), is_expression=True)
    add("GROUP BY")
    add(draw(EXPRESSIONS), is_expression=True)
    return sql, places


@given(queries())
@example(("SELECT COUNT(*) FROM t WHERE k GROUP BY k", [(7, 15), (29, 30), (40, 41)]))
def test_an_error_has_its_carets_under_exactly_the_expression(
    query: tuple[str, list[tuple[int, int]]],
) -> None:
    sql, places = query
    tree = parse_query(sql)
    nodes = [node.unalias() for node in tree.expressions]
    nodes += [tree.args["where"].this, *tree.args["group"].expressions]
    assert len(nodes) == len(places)
    for node, (start, end) in zip(nodes, places, strict=True):
        position = position_of(node, sql)
        assert position is not None
        assert sql[position.offset : position.offset + position.length] == sql[start:end]
        _, where, line, carets = str(error_at(sql, "wrong", node)).splitlines()
        first_line = sql[start:end].split("\n")[0]
        assert where == f"  at line {position.line}, column {position.column}"
        assert line[4:][position.column - 1 :].startswith(first_line)
        width = sum(2 if east_asian_width(char) in "WF" else 1 for char in first_line)
        assert carets.strip() == "^" * max(1, width)


WINDOWS = "TABLE ( TUMBLE ( TABLE trips , DESCRIPTOR ( ts ) , INTERVAL '1' HOUR ) )"
# Tokens of wrong queries. The wrong part is in brackets
WRONG = (
    f"SELECT COUNT ( * ) FROM {WINDOWS} WHERE `a b` = 1 AND [ COUNT ( * ) ] > 1 GROUP BY window_end",
    f"SELECT * FROM {WINDOWS} WHERE - [ SUM ( k ) ] > 1",
    f"SELECT k FROM {WINDOWS} WHERE k IN ( 1 , [ MAX ( DISTINCT `a` ) ] ) OR k IS NOT NULL",
    "SELECT `*` , * FROM TABLE ( [ TUMBEL ] ( TABLE trips , DESCRIPTOR ( ts ) , INTERVAL '1' HOUR ) )",
    "SELECT * FROM TABLE ( TUMBLE ( DATA => TABLE trips , [ TIMECOLL ] => DESCRIPTOR ( ts ) ) )",
    "SELECT 'it''s' FROM TABLE ( TUMBLE ( TABLE trips , DESCRIPTOR ( [ `no column` ] ) , INTERVAL "
    "'1' HOUR ) )",
    "SELECT COUNT ( * ) [ , ] FROM trips",
    "SELECT k FROM ( SELECT * FROM trips ) WHERE `k` [ = ] GROUP BY k",
    "SELECT COUNT ( * ) FROM trips [ WHERE ] GROUP BY k",
)


@given(st.sampled_from(WRONG), st.data())
def test_an_error_has_its_carets_under_exactly_the_wrong_tokens(
    query: str, data: st.DataObject
) -> None:
    sql, start, end = "", 0, 0
    for token in query.split():
        if token == "[":
            start = -1
        elif token == "]":
            end = len(sql)
        else:
            sql += data.draw(st.sampled_from(GAPS)) if sql else ""
            start = len(sql) if start < 0 else start
            sql += token
    with pytest.raises(SqlwinError) as raised:
        refuse_empty_clauses(sql, tokenize(sql))
        plan_query(parse_query(sql), sql, Options(Catalog()))
    position = raised.value.position
    assert position is not None, str(raised.value)
    assert sql[position.offset : position.offset + position.length] == sql[start:end]
    assert (position.line, position.column) == (
        sql.count("\n", 0, start) + 1,
        start - sql.rfind("\n", 0, start),
    )
