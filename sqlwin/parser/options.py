"""Reads options: `('key' = 'value', ...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from sqlwin.parser.parser import SqlWinParser

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)


def read_options(parser: SqlWinParser) -> tuple[tuple[str, str], ...]:
    """Names and values of options, from the parenthesis at the current token.

    Raises:
        SqlSyntaxError: a name is given twice, or one or a value is no string.
    """
    if not parser._match(TokenType.L_PAREN):
        parser.raise_error("Expecting (")
    options: dict[str, str] = {}
    while True:
        key_token = parser._curr
        key = read_string(parser, "an option's name is a string", "'connector' = 'filesystem'")
        if key in options:
            parser.fail(f"option '{key}' is given twice", key_token)
        if not parser._match(TokenType.EQ):
            parser.raise_error("Expecting =")
        options[key] = _option_value(parser, key)
        if not parser._match(TokenType.COMMA):
            break
    parser._match_r_paren()
    return tuple(options.items())


def _option_value(parser: SqlWinParser, key: str) -> str:
    token = parser._curr
    if token.token_type in (TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
        parser._advance()
        return parser.sql[token.start : token.end + 1]
    return read_string(parser, f"the value of '{key}' must be a string", f"'{key}' = 'value'")


def read_string(parser: SqlWinParser, message: str, example: str | None = None) -> str:
    """The value of the string at the current token; `message` says what wants one."""
    token = parser._curr
    if token.token_type not in _STRINGS:
        hint = f"for example {example}" if example else "strings stand in single quotes"
        parser.fail(message, token or None, hint=hint)
    parser._advance()
    return str(parser.string_literal(token).name)
