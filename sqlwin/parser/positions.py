"""Places in the text a user wrote, for errors about text that was generated from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import AnalysisError, Position, SqlSyntaxError, SqlwinError, place_of_word
from sqlwin.parser.parser import SqlWinQueries

_RAISE, _ASSERT = "raise_error", "assert_true"
# How Spark says that a condition is not, where nothing else is to be said
_NOT_TRUE = "is not true!"


def locate(fragment: str, sql: str) -> Position | None:
    """Where `sql` holds the tokens of `fragment`, in any spacing, case and quoting of names."""
    try:
        wanted = [token.text.lower() for token in SqlWinQueries().tokenize(fragment)]
        tokens = SqlWinQueries().tokenize(sql)
    except TokenError:
        return None
    if not wanted:
        return None
    texts = [token.text.lower() for token in tokens]
    for first in range(len(texts) - len(wanted) + 1):
        if texts[first : first + len(wanted)] == wanted:
            start, end = tokens[first].start, tokens[first + len(wanted) - 1].end
            return Position.at(sql, start, end - start + 1)
    return None


def relocate(error: SqlwinError, sql: str) -> SqlwinError:
    """An error about generated text, as an error about `sql`, the text behind it."""
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
    """Where `sql` raises an error with this message itself; None: nowhere, or at several places.

    Spark says no place of `raise_error` and `assert_true`. Texts of the call stand in the message;
    a call without any text is meant if there is no such one, and no other without.
    """
    try:
        tokens = SqlWinQueries().tokenize(sql)
    except TokenError:
        return None
    calls = list(_raising_calls(tokens))
    said = [{t.text for t in call if t.token_type is TokenType.STRING and t.text} for call in calls]
    exact = [call for call, texts in zip(calls, said, strict=True) if message in texts]
    alike = [
        call
        for call, texts in zip(calls, said, strict=True)
        if texts and all(text in message for text in texts)
    ]
    name = _ASSERT if message.endswith(_NOT_TRUE) else _RAISE
    silent = [
        call
        for call, texts in zip(calls, said, strict=True)
        if not texts and call[0].text.lower() == name
    ]
    found = exact or alike or silent
    if len(found) != 1:
        return None
    start, end = found[0][0].start, found[0][-1].end
    return Position.at(sql, start, end - start + 1)


def _raising_calls(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The calls that raise errors: from the name to the closing parenthesis."""
    for first in range(len(tokens) - 1):
        if tokens[first].text.lower() not in (_RAISE, _ASSERT):
            continue
        depth = 0
        for last in range(first + 1, len(tokens)):
            kind = tokens[last].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if not depth:
                if last > first + 1:
                    yield tokens[first : last + 1]
                break


def point_at(error: SqlwinError, sql: str) -> None:
    """Give an error without a place the place of the first of its subjects that `sql` holds."""
    for subject in error.subjects:
        place = locate(subject, sql)
        if place is not None:
            error.position, error.sql = place, sql
            return
