"""Base of the grammar: tokens with positions, literals, options, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
# Keys in sqlglot's `meta` for a node's position
PLACE = ("line", "col", "start", "end")

# sqlglot's message begins with the expected token. The rest of its message is about its own tree.
_UNEXPECTED = "Invalid expression / Unexpected token"


class UnknownToSparkError(SqlSyntaxError):
    """Error in SQL that Spark does not know either, so Spark's message would not help."""


class UnparsableError(SqlSyntaxError):
    """Error of the grammar, without a hint: a misspelt keyword may explain it."""


def is_word(tokens: Sequence[Token], i: int, *texts: str) -> bool:
    """Return whether the tokens from `i` on are these unquoted words, ignoring case."""
    if i + len(texts) > len(tokens):
        return False
    for place, text in enumerate(texts, i):
        token = tokens[place]
        if token.text.upper() != text or token.token_type in _QUOTED:
            return False
    return True


def depths(tokens: Sequence[Token], first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield each token's index from `first` on, and the number of open parentheses after it."""
    depth = 0
    for i in range(first, len(tokens)):
        kind = tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        yield i, depth


class TokenParser(SparkParser):
    """Parser of Spark SQL that records source positions and keeps literals as written.

    The other modules contain the grammar, as functions that take such a parser.
    """

    failed_at: Token | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # start offsets of the hints read after table names
        self.hints_read: set[int] = set()
        # trees of parameters by the text of their tokens
        self.literals: Mapping[str, exp.Expr] = {}

    # -- running -------------------------------------------------------------------------------

    def run(self, method: Callable[[Self], T], tokens: list[Token], sql: str) -> T:
        """Run `method` on `tokens` of the text `sql`, which it must consume completely.

        Raises:
            SqlSyntaxError: The tokens cannot be parsed. Has a position in `sql`.
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
        """Reject words in `tokens` that have no meaning in sqlwin, before parsing.

        Raises:
            SqlSyntaxError: There are such words.
        """

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise an error as sqlglot does, and remember its position."""
        self.failed_at = token or self._curr or None
        if token is None:
            super().raise_error(message)
        else:
            super().raise_error(message, token)

    def syntax_error(self, error: ParseError) -> UnparsableError:
        """Convert an error of sqlglot, with its position."""
        message = _error_line(error, self.sql, self.failed_at)
        return UnparsableError(message, position=self.place(self.failed_at), sql=self.sql)

    def fail(
        self,
        message: str,
        first: Token | None,
        last: Token | None = None,
        hint: str | None = None,
        error: type[SqlSyntaxError] = SqlSyntaxError,
    ) -> NoReturn:
        """Raise an error about the tokens from `first` to `last`. None is the end of the text."""
        raise error(message, position=self.place(first, last), sql=self.sql, hint=hint)

    def place(self, first: Token | None, last: Token | None = None) -> Position:
        """Return the position of the tokens from `first` to `last`, or of `first` alone."""
        if not first:
            return Position.at(self.sql, len(self.sql.rstrip()))
        return Position.at(self.sql, first.start, (last or first).end - first.start + 1)

    def is_at(self, *token_types: TokenType) -> bool:
        """Return whether the current token has one of these types."""
        return self._curr.token_type in token_types

    def is_at_words(self, *texts: str) -> bool:
        """Return whether these unquoted words, in any case, start at the current token."""
        return is_word(self._tokens, self._index, *texts)

    def span(self, node: exp.Expr, first: Token) -> exp.Expr:
        """Record in `meta` that `node` spans from `first` to the last token read."""
        last = self._prev
        node.meta.update(line=last.line, col=last.col, start=first.start, end=last.end)
        return node

    def string_literal(self, first: Token) -> exp.Expr:
        """Read a string. Adjacent strings form a single one, as in Spark."""
        value = string_value(self.sql[first.start : first.end + 1])
        while self._curr.token_type in STRINGS:
            self._advance()
            value += string_value(self.sql[self._prev.start : self._prev.end + 1])
        literal = exp.Literal(this=value, is_string=True)
        self.span(literal, first)
        raw = self.sql[first.start : self._prev.end + 1]
        # A comment between adjacent strings would not survive on one line.
        if self._prev is first:
            literal.meta.update({RAW: raw, RAW_VALUE: value})
        return literal

    def number_literal(self, token: Token) -> exp.Expr:
        """Read a number. The tokenizer splits `10L` into `10 :: L`, all at the same position."""
        literal = exp.Literal(this=token.text, is_string=False)
        self.span(literal, token)
        raw = self.sql[token.start : token.end + 1]
        if self._curr.token_type == TokenType.DCOLON and self._curr.start == token.start:
            literal.meta["suffixed"] = raw
        else:
            literal.meta.update({RAW: raw, RAW_VALUE: token.text})
        return literal

    def parameter(self, token: Token) -> exp.Expr:
        """Read a parameter: the tree of its value, or a placeholder without one."""
        literal = self.literals.get(token.text)
        if literal is None:
            name = token.text.removeprefix(":")
            return self.span(exp.Placeholder(this=None if name == "?" else name), token)
        return self.span(literal.copy(), token)


def _error_line(error: ParseError, sql: str, token: Token | None) -> str:
    """Return a one-line message for a sqlglot error at `token`. None is the end of the text."""
    text = f"`{token.text}`" if token else "the end of the statement"
    if token and token.token_type in STRINGS:
        text = sql[token.start : token.end + 1]
    description = str(error.errors[0].get("description") or "") if error.errors else str(error)
    if description.startswith("Expecting "):
        return f"expected {description.removeprefix('Expecting ')} but found {text}"
    if description == _UNEXPECTED:
        return f"unexpected {text}"
    if description == "Expected TYPE after CAST":
        return f"unknown type {text}"
    if description.startswith("Required argument"):
        return f"something is missing before {text}"
    if description.startswith("Expected table name"):
        return f"expected a table but found {text}"
    if description.startswith("Expected") and "<" not in description:
        return f"{description[0].lower()}{description[1:]} but found {text}"
    return f"cannot read the SQL at {text}"


# Options whose values are regular expressions
_PATTERNS = ("text.pattern", "source.path.regex-pattern")


def read_options(parser: TokenParser) -> tuple[tuple[str, str], ...]:
    """Read names and values of options, from the parenthesis at the current token.

    Raises:
        SqlSyntaxError: A name occurs twice, or a name or value is not a string.
    """
    options: dict[str, str] = {}

    def read_option() -> None:
        key_token = parser._curr
        key = read_string(
            parser, "the name of an option must be a string", "'connector' = 'filesystem'"
        )
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
    """Read the string at the current token. `message` is the error without a string."""
    token = parser._curr
    if token.token_type not in STRINGS:
        hint = f"for example {example}" if example else "use single quotes"
        parser.fail(message, token, hint=hint)
    parser._advance()
    return str(parser.string_literal(token).name)
