"""What every part of the grammar reads with: the tokens, their places, literals and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.depth import deep_trees
from planner.sql.render import RAW, RAW_VALUE
from runtime.errors import Position, SqlSyntaxError
from sqlwin.parser.errors import error_line
from sqlwin.parser.strings import string_value

T = TypeVar("T")

STRINGS = (TokenType.STRING, TokenType.RAW_STRING)


class TokenParser(SparkParser):
    """A parser of Spark's SQL that says where things stand, and keeps literals as written.

    The modules beside this one hold a part of the grammar each, as functions of such a parser.
    """

    failed_at: Token | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # where hints begin that were read behind names of tables
        self.hints_read: set[int] = set()

    # -- running -------------------------------------------------------------------------------

    def run(self, method: Callable[[Self], T], tokens: list[Token], sql: str) -> T:
        """What `method` reads from `tokens`, which must be used up; they stand in `sql`.

        Raises:
            SqlSyntaxError: the tokens do not read; with the position in `sql`.
        """
        results: list[T] = []

        def read(parser: Any) -> None:
            self.refuse(tokens)
            results.append(method(self))

        try:
            with deep_trees(sql):
                self._parse(read, tokens, sql)
        except ParseError as error:
            raise self.syntax_error(error) from error
        return results[0]

    def refuse(self, tokens: list[Token]) -> None:
        """Refuse `tokens`, before they are read, for words that have no meaning here.

        Raises:
            SqlSyntaxError: they hold such words.
        """

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """As in sqlglot; remembers where."""
        self.failed_at = token or self._curr or None
        if token is None:
            super().raise_error(message)
        else:
            super().raise_error(message, token)

    def syntax_error(self, error: ParseError) -> SqlSyntaxError:
        """One of sqlglot's errors as a line of ours."""
        token = self.failed_at
        return SqlSyntaxError(
            error_line(error, self.sql, token), position=self.place(token, token), sql=self.sql
        )

    def fail(
        self, message: str, first: Token | None, last: Token | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raise an error about the tokens from `first` to `last`; None is the end of the text."""
        position = self.place(first or None, last or first or None)
        raise SqlSyntaxError(message, position=position, sql=self.sql, hint=hint)

    def place(self, first: Token | None, last: Token | None) -> Position:
        """Where the tokens from `first` to `last` stand."""
        if not first or not last:
            return Position.at(self.sql, len(self.sql.rstrip()))
        return Position.at(self.sql, first.start, last.end - first.start + 1)

    def is_at(self, *token_types: TokenType) -> bool:
        """Whether the current token is of one of these types."""
        return self._curr.token_type in token_types

    def span(self, node: exp.Expr, first: Token) -> exp.Expr:
        """Note in `meta` that `node` reaches from `first` to the token just read."""
        last = self._prev
        node.meta.update(line=last.line, col=last.col, start=first.start, end=last.end)
        return node

    def string_literal(self, first: Token) -> exp.Expr:
        """A string; adjacent ones are one string, as in Spark."""
        value = string_value(self.sql[first.start : first.end + 1])
        while self._curr.token_type in STRINGS:
            self._advance()
            value += string_value(self.sql[self._prev.start : self._prev.end + 1])
        literal = exp.Literal(this=value, is_string=True)
        self.span(literal, first)
        raw = self.sql[first.start : self._prev.end + 1]
        # Between adjacent strings there may be a comment, which would not survive on one line.
        if self._prev is first:
            literal.meta.update({RAW: raw, RAW_VALUE: value})
        return literal

    def number_literal(self, token: Token) -> exp.Expr:
        """A number. The tokenizer splits `10L` into `10 :: L`, all three at one place."""
        literal = exp.Literal(this=token.text, is_string=False)
        self.span(literal, token)
        raw = self.sql[token.start : token.end + 1]
        if self._curr.token_type == TokenType.DCOLON and self._curr.start == token.start:
            literal.meta["suffixed"] = raw
        else:
            literal.meta.update({RAW: raw, RAW_VALUE: token.text})
        return literal


def read_options(parser: TokenParser) -> tuple[tuple[str, str], ...]:
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


def _option_value(parser: TokenParser, key: str) -> str:
    token = parser._curr
    if token.token_type in (TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
        parser._advance()
        return parser.sql[token.start : token.end + 1]
    return read_string(parser, f"the value of '{key}' must be a string", f"'{key}' = 'value'")


def read_string(parser: TokenParser, message: str, example: str | None = None) -> str:
    """The value of the string at the current token; `message` says what wants one."""
    token = parser._curr
    if token.token_type not in STRINGS:
        hint = f"for example {example}" if example else "strings stand in single quotes"
        parser.fail(message, token or None, hint=hint)
    parser._advance()
    return str(parser.string_literal(token).name)
