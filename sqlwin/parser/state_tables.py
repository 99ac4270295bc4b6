"""State of streams as tables: `TABLE(STATE('/data/checkpoints/name', version => 12))`."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import FILE_ALIAS, StateTable, name_of_state
from runtime.errors import Position
from sqlwin.parser.base import STRINGS, TokenParser
from sqlwin.parser.other_dialects import PortedSyntaxError

USAGE = "TABLE(STATE('/data/checkpoints/name' [, operator => 0] [, version => 12]))"
_NUMBERS = ("operator", "version")


def is_state(parser: TokenParser) -> bool:
    """Whether `TABLE(STATE(` starts at the current token."""
    tokens = parser._tokens[parser._index : parser._index + 4]
    return [token.text.upper() for token in tokens] == ["TABLE", "(", "STATE", "("]


def parse_state(parser: TokenParser) -> exp.Table:
    """The state at the current token, see `is_state`.

    Raises:
        PortedSyntaxError: an argument is missing, unknown or no number.
    """
    first = parser._curr
    parser._advance(4)
    if parser._curr.token_type not in STRINGS:
        _fail(parser, parser._curr, "STATE takes the directory of a checkpoint")
    token = parser._curr
    parser._advance()
    directory = str(parser.string_literal(token).name)
    numbers: dict[str, int] = {}
    while parser._match(TokenType.COMMA):
        name, arrow, number = parser._curr, parser._next, None
        said = name.text.lower()
        if said not in _NUMBERS or arrow.token_type != TokenType.FARROW or said in numbers:
            _fail(parser, name, "STATE takes a directory, and then operator and version by name")
        parser._advance(2)
        number = parser._curr
        if number.token_type != TokenType.NUMBER or not number.text.isdecimal():
            _fail(parser, number, f"{said} is a whole number")
        parser._advance()
        numbers[said] = int(number.text)
    for _ in range(2):
        if parser._curr.token_type != TokenType.R_PAREN:
            _fail(parser, parser._curr, "a closing parenthesis is missing")
        parser._advance()
    table = StateTable(directory, numbers.get("operator"), numbers.get("version"))
    identifier = exp.Identifier(this=name_of_state(table), quoted=True)
    parser.span(identifier, first)
    found = exp.Table(this=identifier)
    found.meta[FILE_ALIAS] = "state"
    return found


def _fail(parser: TokenParser, token: Token, message: str) -> NoReturn:
    # behind the last token stands none
    at = token or parser._prev
    position = Position.at(parser.sql, at.start, at.end - at.start + 1)
    raise PortedSyntaxError(message, position=position, sql=parser.sql, hint=USAGE)
