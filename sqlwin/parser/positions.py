"""Positions in the user's text, for errors about text generated from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.render import quote_string
from runtime.errors import AnalysisError, Position, SqlSyntaxError, SqlwinError, place_of_word
from runtime.names import quote_name
from sqlwin.parser.base import depths
from sqlwin.parser.parser import SqlWinQueries

_RAISE, _ASSERT = "raise_error", "assert_true"
# Spark's message for a failed condition without a message of its own
_NOT_TRUE = "is not true!"


def locate(fragment: str, sql: str) -> Position | None:
    """Find the tokens of `fragment` in `sql`, ignoring spacing, case and quotes of names.

    A fragment that ends with an opening parenthesis stands for the whole call.
    """
    try:
        fragment_texts = [token.text.lower() for token in SqlWinQueries().tokenize(fragment)]
        tokens = SqlWinQueries().tokenize(sql)
    except TokenError:
        return None
    if not fragment_texts:
        return None
    texts = [token.text.lower() for token in tokens]
    for first in range(len(texts) - len(fragment_texts) + 1):
        end = first + len(fragment_texts)
        if texts[first:end] == fragment_texts:
            if fragment_texts[-1] == "(":
                calls = (i + 1 for i, depth in depths(tokens, end - 1) if not depth)
                end = next(calls, end)
            return _place(tokens[first:end], sql)
    return None


def relocate(error: SqlwinError, sql: str) -> SqlwinError:
    """Move an error about generated text to its position in the source text `sql`."""
    generated, place = error.sql, error.position
    if generated == sql:
        return error
    error.sql, error.position = sql, None
    if generated is None or place is None:
        return error
    fragment = generated[place.offset : place.offset + place.length]
    if isinstance(error, AnalysisError):
        error.position = locate(fragment, sql)
    elif isinstance(error, SqlSyntaxError):
        error.position = place_of_word(fragment, generated[: place.offset], sql)
    return error


def place_of_raised(message: str, sql: str) -> Position | None:
    """Find the only call in `sql` that raises an error with this message, or return None.

    Spark gives no position for `raise_error` and `assert_true`. The message contains the string
    literals of the call. Calls without any literal only match if no other call does.
    """
    try:
        tokens = SqlWinQueries().tokenize(sql)
    except TokenError:
        return None
    calls = [
        (
            call,
            {token.text for token in call if token.token_type is TokenType.STRING and token.text},
        )
        for call in _raising_calls(tokens)
    ]
    exact = [call for call, texts in calls if message in texts]
    alike = [call for call, texts in calls if texts and all(text in message for text in texts)]
    name = _ASSERT if message.endswith(_NOT_TRUE) else _RAISE
    silent = [call for call, texts in calls if not texts and call[0].text.lower() == name]
    matches = exact or alike or silent
    return _place(matches[0], sql) if len(matches) == 1 else None


def _raising_calls(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the calls that raise errors, from the name to the closing parenthesis."""
    for first in range(len(tokens) - 1):
        if tokens[first].text.lower() not in (_RAISE, _ASSERT):
            continue
        last = next((i for i, depth in depths(tokens, first + 1) if not depth), None)
        if last is not None and last > first + 1:
            yield tokens[first : last + 1]


def _place(tokens: Sequence[Token], sql: str) -> Position:
    start = tokens[0].start
    return Position.at(sql, start, tokens[-1].end - start + 1)


def _spellings(subject: str) -> tuple[str, ...]:
    """Return a subject unchanged, and with quotes for characters that need them."""
    if subject[:1] == "'" and subject[-1:] == "'" and len(subject) > 1:
        return subject, quote_string(subject[1:-1])
    return subject, quote_name(subject)


def point_at(error: SqlwinError, sql: str) -> None:
    """Point an error without a position at its first subject found in `sql`."""
    for subject in error.subjects:
        for spelling in _spellings(subject):
            place = locate(spelling, sql)
            if place is not None:
                error.position, error.sql = place, sql
                return
