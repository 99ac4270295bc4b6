"""Where in a statement what Spark says without a place is found."""

from __future__ import annotations

import pytest

from sqlwin.parser.positions import place_of_raised

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
    found = place_of_raised(message, sql)
    assert (None if found is None else sql[found.offset : found.offset + found.length]) == call
