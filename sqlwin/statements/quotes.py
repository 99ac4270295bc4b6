"""Meaning of double quotes: strings, as in Spark, or names, as in standard SQL."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from sqlglot.tokenizer_core import TokenType

from planner.sql.render import quote_string
from runtime.names import quoted
from sqlwin.parser.parser import tokenize
from sqlwin.parser.strings import string_value


class DoubleQuotes(StrEnum):
    """Values of `sqlwin.double-quotes`."""

    CHECKED = "checked"
    IDENTIFIER = "identifier"
    STRING = "string"


def unambiguous_quotes(sql: str, quotes: DoubleQuotes) -> Iterator[tuple[int, int, str]]:
    """Yield replacements of double-quoted texts: start, exclusive end, new text.

    Names become backticks and strings single quotes. Yields nothing for CHECKED, where the binder
    compares the texts with column names.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.

    Example:
        >>> list(unambiguous_quotes('SELECT "a" FROM t', DoubleQuotes.IDENTIFIER))
        [(7, 10, '`a`')]
    """
    if quotes is DoubleQuotes.CHECKED or '"' not in sql:
        return
    for token in tokenize(sql):
        if token.token_type != TokenType.STRING or sql[token.start] != '"':
            continue
        raw = sql[token.start : token.end + 1]
        if quotes is DoubleQuotes.STRING:
            text = quote_string(string_value(raw))
        else:
            # A backslash in a name is an ordinary character.
            text = quoted(raw[1:-1].replace('""', '"'))
        yield token.start, token.end + 1, text
