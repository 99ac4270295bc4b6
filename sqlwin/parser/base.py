"""What every part of the grammar reads with: tokens and their places, literals, options, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Self, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.depth import deep_trees
from planner.sql.render import RAW, RAW_VALUE
from runtime.errors import Position, SqlSyntaxError
from sqlwin.parser.strings import pattern_value, string_value

T = TypeVar("T")

STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_QUOTED = (*STRINGS, TokenType.IDENTIFIER)
# What sqlglot's trees have of the place of a node, in `meta`
PLACE = ("line", "col", "start", "end")

# sqlglot says what it expected; the rest of its message is about its own tree.
_UNEXPECTED = "Invalid expression / Unexpected token"


class UnknownToSparkError(SqlSyntaxError):
    """The SQL is wrong, and Spark has nothing of the kind either: it is not asked for its error."""


def is_word(tokens: Sequence[Token], i: int, *texts: str) -> bool:
    """Whether the tokens from `i` are these words, unquoted, in any case."""
    if i + len(texts) > len(tokens):
        return False
    for place, text in enumerate(texts, i):
        token = tokens[place]
        if token.text.upper() != text or token.token_type in _QUOTED:
            return False
    return True


def depths(tokens: Sequence[Token], first: int = 0) -> Iterator[tuple[int, int]]:
    """The numbers of the tokens from `first` on, and how many parentheses are open behind each."""
    depth = 0
    for i in range(first, len(tokens)):
        kind = tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        yield i, depth


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
        """An error of sqlglot's as one of sqlwin's, with the place where it came."""
        message = _error_line(error, self.sql, self.failed_at)
        return SqlSyntaxError(message, position=self.place(self.failed_at), sql=self.sql)

    def fail(
        self,
        message: str,
        first: Token | None,
        last: Token | None = None,
        hint: str | None = None,
        error: type[SqlSyntaxError] = SqlSyntaxError,
    ) -> NoReturn:
        """Raise an error about the tokens from `first` to `last`; none is the end of the text."""
        raise error(message, position=self.place(first, last), sql=self.sql, hint=hint)

    def place(self, first: Token | None, last: Token | None = None) -> Position:
        """Where the tokens from `first` to `last` stand, or the first alone."""
        if not first:
            return Position.at(self.sql, len(self.sql.rstrip()))
        return Position.at(self.sql, first.start, (last or first).end - first.start + 1)

    def is_at(self, *token_types: TokenType) -> bool:
        """Whether the current token is of one of these types."""
        return self._curr.token_type in token_types

    def is_at_words(self, *texts: str) -> bool:
        """Whether the tokens from the current one on are these words, unquoted, in any case."""
        return is_word(self._tokens, self._index, *texts)

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


def _error_line(error: ParseError, sql: str, token: Token | None) -> str:
    """One line about an error of sqlglot's that came at `token`; None is the end of the text."""
    found = f"`{token.text}`" if token else "the end of the statement"
    if token and token.token_type in STRINGS:
        found = sql[token.start : token.end + 1]
    description = str(error.errors[0].get("description") or "") if error.errors else str(error)
    if description.startswith("Expecting "):
        return f"expected {description.removeprefix('Expecting ')} but found {found}"
    if description == _UNEXPECTED:
        return f"{found} is not expected here"
    if description == "Expected TYPE after CAST":
        return f"unknown type {found}"
    if description.startswith("Required argument"):
        return f"something is missing before {found}"
    if description.startswith("Expected table name"):
        return f"expected a table but found {found}"
    if description.startswith("Expected") and "<" not in description:
        return f"{description[0].lower()}{description[1:]} but found {found}"
    return f"cannot read the SQL at {found}"


# Options whose values are regular expressions
_PATTERNS = ("text.pattern", "source.path.regex-pattern")


def read_options(parser: TokenParser) -> tuple[tuple[str, str], ...]:
    """Names and values of options, from the parenthesis at the current token.

    Raises:
        SqlSyntaxError: a name is given twice, or one or a value is no string.
    """
    options: dict[str, str] = {}

    def read_option() -> None:
        key_token = parser._curr
        key = read_string(parser, "an option's name is a string", "'connector' = 'filesystem'")
        if key in options:
            parser.fail(f"option '{key}' is given twice", key_token)
        if not parser._match(TokenType.EQ):
            parser.raise_error("Expecting =")
        options[key] = _option_value(parser, key)

    parser._parse_wrapped_csv(read_option)
    return tuple(options.items())


def _option_value(parser: TokenParser, key: str) -> str:
    token = parser._curr
    if token.token_type in (TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
        parser._advance()
        return parser.sql[token.start : token.end + 1]
    value = read_string(parser, f"the value of '{key}' must be a string", f"'{key}' = 'value'")
    if key.lower() in _PATTERNS:
        return pattern_value(parser.sql[token.start : token.end + 1])
    return value


def read_string(parser: TokenParser, message: str, example: str | None = None) -> str:
    """The value of the string at the current token; `message` says what wants one."""
    token = parser._curr
    if token.token_type not in STRINGS:
        hint = f"for example {example}" if example else "strings stand in single quotes"
        parser.fail(message, token, hint=hint)
    parser._advance()
    return str(parser.string_literal(token).name)
