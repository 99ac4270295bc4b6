"""Parser of a client's queries: sqlwin's grammar with PostgreSQL's types and operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sqlwin.parser.base import STRINGS
from sqlwin.parser.parser import SqlWinParser, SqlWinQueries, merge_keywords
from sqlwin.server.postgres.errors import unsupported
from sqlwin.server.postgres.types import MISSING, TypeName, longest_name

# Set in `meta`: the range of the text that a node covers exactly, the type as written
SPAN, TYPE_NAME = "postgres_span", "postgres_type"
# Set in `meta` of RegexpLike: whether upper and lower case are the same, and whether it is negated
IGNORES_CASE, IS_NEGATED = "ignores_case", "is_negated"

# Set in `meta` of Ordered: whether NULLS FIRST or LAST is written
PLACES_NULLS = "places_nulls"

_SCHEMA = "PG_CATALOG"


class ClientReader(SqlWinParser):
    """Parser of queries, whose nodes know their exact ranges."""

    BITWISE: ClassVar[Any] = {
        **{kind: node for kind, node in SqlWinParser.BITWISE.items() if kind != TokenType.CARET},
        TokenType.HASH: exp.BitwiseXor,
    }
    EXPONENT: ClassVar[Any] = {TokenType.CARET: exp.Pow}
    RANGE_PARSERS: ClassVar[Any] = {
        **SqlWinParser.RANGE_PARSERS,
        **{
            kind: lambda self, this, way=way: self.matches(this, *way)
            for kind, way in {
                TokenType.TILDE: (False, False),
                TokenType.IRLIKE: (True, False),
                TokenType.ADJACENT: (False, True),
                TokenType.CARET_AT: (True, True),
            }.items()
        },
    }

    def matches(self, this: exp.Expr, ignores_case: bool, is_negated: bool) -> exp.Expr:
        """Read the pattern after `~`, `~*`, `!~` or `!~*`."""
        node = exp.RegexpLike(this=this, expression=self._parse_bitwise())
        node.meta.update({IGNORES_CASE: ignores_case, IS_NEGATED: is_negated})
        return node

    # -- ranges --------------------------------------------------------------------------------

    def _covering(self, method: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        first = self._curr
        node = method()
        if node is not None and first and self._prev and self._prev.end >= first.start:
            start, end = first.start, self._prev.end + 1
            known = node.meta.get(SPAN, (start, end))
            node.meta[SPAN] = min(start, known[0]), max(end, known[1])
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._covering(super()._parse_disjunction)

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._covering(super()._parse_bitwise)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._covering(lambda: super(ClientReader, self)._parse_term(parse_mod))

    def _parse_factor(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._covering(lambda: super(ClientReader, self)._parse_factor(parse_mod))

    def _parse_unary(self) -> exp.Expr | None:
        return self._covering(super()._parse_unary)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        if this is not None:
            return super()._parse_range(this, parse_is)
        return self._covering(lambda: super(ClientReader, self)._parse_range(None, parse_is))

    def _parse_expression(self) -> exp.Expr | None:
        first = self._curr
        node: exp.Expr | None = super()._parse_expression()
        if isinstance(node, exp.Alias | exp.Column) and first:
            node.meta[SPAN] = first.start, self._prev.end + 1
        return node

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._covering(lambda: super(ClientReader, self)._parse_select(*args, **kwargs))

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._covering(lambda: super(ClientReader, self)._parse_table(*args, **kwargs))

    def _parse_ordered(self, parse_method: Any = None) -> exp.Ordered | None:
        first = self._curr
        ordered: exp.Ordered | None = super()._parse_ordered(parse_method)
        if ordered is not None:
            ordered.meta[SPAN] = first.start, self._prev.end + 1
            ordered.meta[PLACES_NULLS] = self._tokens[self._index - 2].text.upper() == "NULLS"
        return ordered

    # -- types ---------------------------------------------------------------------------------

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        if not fallback_to_identifier and (literal := self._typed_string()) is not None:
            return self._parse_column_ops(literal)
        if not fallback_to_identifier and self.is_at_words("ARRAY", "["):
            first = self._curr
            self._advance(2)
            items = self._parse_csv(self._parse_array_item)
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("Expecting ]")
            return self._parse_column_ops(self.span(exp.Array(expressions=items), first))
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_array_item(self) -> exp.Expr | None:
        if self._curr.token_type != TokenType.L_BRACKET:
            return self._parse_disjunction()
        self._advance()
        items = self._parse_csv(self._parse_array_item)
        self._match(TokenType.R_BRACKET)
        return exp.Array(expressions=items)

    def _typed_string(self) -> exp.Expr | None:
        """Read `timestamptz '2024-01-31'`, or return None for anything else."""
        if self._curr.token_type in (*STRINGS, TokenType.IDENTIFIER, TokenType.INTERVAL):
            return None
        start = self._index
        kind = self._type_name()
        if kind is None or self._curr.token_type not in STRINGS:
            self._retreat(start)
            return None
        token = self._curr
        self._advance()
        return exp.Cast(this=self.string_literal(token), to=_data_type(kind))

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._index
        if not check_func and (kind := self._type_name()) is not None:
            return _data_type(kind)
        self._retreat(start)
        return super()._parse_types(check_func, *args, **kwargs)

    def _type_name(self) -> TypeName | None:
        if self.is_at_words(_SCHEMA, "."):
            self._advance(2)
        texts = [token.text.lower() for token in self._tokens[self._index : self._index + 5]]
        words = [word for text in texts for word in text.split()]
        name = longest_name(words)
        if name is None:
            following = self._tokens[self._index + 1 : self._index + 2]
            is_name = self._curr.token_type != TokenType.IDENTIFIER
            if (
                is_name
                and texts
                and texts[0] in MISSING
                and not (following and following[0].token_type == TokenType.DOT)
            ):
                self._missing_type(texts[0])
            return None
        n_words = 0
        while n_words < len(name):
            n_words += len(self._curr.text.split())
            self._advance()
        arguments = self._arguments()
        if name[0] in ("timestamp", "time") and len(name) == 1:
            if self.is_at_words("WITH", "TIME", "ZONE"):
                name = (*name, "with", "time", "zone")
                self._advance(3)
            elif self.is_at_words("WITHOUT", "TIME", "ZONE"):
                self._advance(3)
        if name[:2] == ("time", "with"):
            self._missing_type("timetz")
        n_dimensions = 0
        while self._match_pair(TokenType.L_BRACKET, TokenType.R_BRACKET):
            n_dimensions += 1
        if self.is_at_words("ARRAY"):
            self._advance()
            n_dimensions += 1
        return TypeName(" ".join(name), arguments, n_dimensions)

    def _missing_type(self, name: str) -> None:
        # CHAR is a function of sqlwin, too
        if self._prev.token_type in (TokenType.DCOLON, TokenType.ALIAS):
            raise unsupported(f"the server has no type {name}", self.place(self._curr), self.sql)

    def _arguments(self) -> tuple[str, ...]:
        tokens = self._tokens[self._index : self._index + 5]
        kinds = [token.token_type for token in tokens]
        number = TokenType.NUMBER
        for pattern in (
            [TokenType.L_PAREN, number, TokenType.R_PAREN],
            [TokenType.L_PAREN, number, TokenType.COMMA, number, TokenType.R_PAREN],
        ):
            if kinds[: len(pattern)] == pattern:
                self._advance(len(pattern))
                return tuple(token.text for token in tokens[1 : len(pattern) : 2])
        return ()


def _data_type(kind: TypeName) -> exp.DataType:
    if kind.name == "interval":
        data_type = exp.DataType(this=exp.DType.INTERVAL)
    else:
        data_type = exp.DataType.build(kind.sqlwin, dialect="spark")
    data_type.meta[TYPE_NAME] = kind
    return data_type


class PostgresQueries(SqlWinQueries):
    """Dialect of clients' queries."""

    class Tokenizer(SqlWinQueries.Tokenizer):
        """Tokens of sqlwin, and PostgreSQL's operators."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **SqlWinQueries.Tokenizer.KEYWORDS,
            "!~": TokenType.ADJACENT,
            "!~*": TokenType.CARET_AT,
        }

    Parser = ClientReader


def reader() -> ClientReader:
    """Return a new parser."""
    return cast(ClientReader, PostgresQueries().parser())


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text that sqlwin's tokenizer reads, too."""
    return merge_keywords(PostgresQueries().tokenizer().tokenize(text))
