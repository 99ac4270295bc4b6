"""Places in the text a user wrote, for errors about text that was generated from it."""

from __future__ import annotations

from sqlglot.errors import TokenError

from runtime.errors import AnalysisError, Position, SqlSyntaxError, SqlwinError, place_of_word
from sqlwin.parser.parser import SqlWinQueries


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


def point_at(error: SqlwinError, sql: str) -> None:
    """Give an error without a place the place of the first of its subjects that `sql` holds."""
    for subject in error.subjects:
        place = locate(subject, sql)
        if place is not None:
            error.position, error.sql = place, sql
            return
