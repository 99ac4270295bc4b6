"""Positions in a statement for errors that Spark reports without one."""

from __future__ import annotations

import pytest

from runtime.errors import AnalysisError
from sqlwin.parser.positions import locate, place_of_raised, point_at

TWO = "SELECT IF(a, raise_error('x'), ASSERT_TRUE(b > (1), 'y')) FROM t WHERE c = 'x'"


@pytest.mark.parametrize(
    ("sql", "message", "call"),
    [
        ("SELECT raise_error('x')", "x", "raise_error('x')"),
        (TWO, "x", "raise_error('x')"),
        (TWO, "y", "ASSERT_TRUE(b > (1), 'y')"),
        (TWO, "z", None),
        ("SELECT raise_error('it''s')", "it's", "raise_error('it''s')"),
        ("SELECT raise_error(CONCAT('v is ', v)), raise_error('v')", "v is 3", None),
        (
            "SELECT raise_error(CONCAT('v = ', v)), raise_error('x')",
            "v = 3",
            "raise_error(CONCAT('v = ', v))",
        ),
        ("SELECT raise_error(v), assert_true(v > 1)", "3", "raise_error(v)"),
        (
            "SELECT raise_error(v), assert_true(v > 1)",
            "'(v#1 > 1)' is not true!",
            "assert_true(v > 1)",
        ),
        ("SELECT raise_error(v), raise_error(w)", "3", None),
        ("SELECT raise_error('x'), raise_error('x')", "x", None),
        ("SELECT raise_error FROM t", "x", None),
        ("SELECT raise_error('x'", "x", None),
        ("SELECT v FROM a_view", "x", None),
    ],
)
def test_an_error_that_a_statement_raises_is_placed_at_its_call(
    sql: str, message: str, call: str | None
) -> None:
    place = place_of_raised(message, sql)
    assert (None if place is None else sql[place.offset : place.offset + place.length]) == call


@pytest.mark.parametrize(
    ("fragment", "sql", "text"),
    [
        ("GROUPING(", "SELECT grouping, GROUPING ( COUNT(*) ) + 1", "GROUPING ( COUNT(*) )"),
        ("f(", "SELECT f(a", "f("),
        ("`A b`", "SELECT 'a b', `a b`(1)", "'a b'"),
        ("nope", "SELECT no", None),
    ],
)
def test_a_fragment_that_opens_a_call_stands_for_the_whole_call(
    fragment: str, sql: str, text: str | None
) -> None:
    place = locate(fragment, sql)
    assert (place and sql[place.offset : place.offset + place.length]) == text


@pytest.mark.parametrize(
    ("subject", "sql", "text"),
    [
        ("my table", 'INSERT INTO "my table" SELECT 1', '"my table"'),
        ("my table", "INSERT INTO `my table` SELECT 1", "`my table`"),
        ("'it's'", "SELECT 1, 'it''s'", "'it''s'"),
        ("a.b", "SELECT 1 FROM a . b", "a . b"),
    ],
)
def test_a_subject_with_characters_that_need_quotes_has_a_place(
    subject: str, sql: str, text: str
) -> None:
    error = AnalysisError("wrong", subjects=("not there", subject))
    point_at(error, sql)
    place = error.position
    assert place is not None
    assert sql[place.offset : place.offset + place.length] == text
