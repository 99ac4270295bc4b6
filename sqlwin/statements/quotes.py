"""Meaning of double quotes: strings, as in Spark, or names, as in standard SQL."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.render import quote_string
from runtime.names import quote_name
from sqlwin.parser.strings import string_value
from sqlwin.statements.split import StatementText


class DoubleQuotes(StrEnum):
    """Values of `sqlwin.double-quotes`."""

    CHECKED = "checked"
    IDENTIFIER = "identifier"
    STRING = "string"


def unambiguous_quotes(
    part: StatementText, quotes: DoubleQuotes
) -> Iterator[tuple[Token, TokenType, str, str]]:
    """Yield the double-quoted tokens of a statement, with their type, value and text for Spark.

    Names become backticks and strings single quotes. Yields nothing for CHECKED, where the binder
    compares the texts with column names.
    """
    if quotes is DoubleQuotes.CHECKED or '"' not in part.text:
        return
    for token in part.tokens:
        if token.token_type != TokenType.STRING or part.text[token.start] != '"':
            continue
        raw = part.text[token.start : token.end + 1]
        if quotes is DoubleQuotes.STRING:
            value = string_value(raw)
            yield token, TokenType.STRING, value, quote_string(value)
        else:
            # A backslash in a name is an ordinary character.
            name = raw[1:-1].replace('""', '"')
            yield token, TokenType.IDENTIFIER, name, quote_name(name)
