"""sqlwin's SQL: Spark SQL with window table functions and Flink's types and intervals.

Everything else keeps its original spelling: function names and the text of literals are preserved
(see `planner.sql.render`), so that Spark runs the user's own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import TABLE_OPTIONS, WindowFunctionCall, span_of
from planner.sql.render import (
    IS_NOT,
    NO_PAREN_FUNCTIONS,
    RAW,
    RESPELLED,
    SparkSql,
    SparkSqlGenerator,
)
from runtime.errors import Position, SqlSyntaxError, nearest
from runtime.windows.intervals import UNITS
from sqlwin.parser.base import PLACE, STRINGS, TokenParser, UnknownToSparkError
from sqlwin.parser.file_names import files_of_call, is_state, parse_files, parse_state
from sqlwin.parser.fill import add_fill, is_fill, parse_fill
from sqlwin.parser.from_items import parse_match_condition, unwrap_from_items
from sqlwin.parser.hints import read_hints, skip_comments, table_options
from sqlwin.parser.intervals import parse_interval, parse_interval_type
from sqlwin.parser.json_functions import parse_json_call
from sqlwin.parser.keyword_functions import parse_keyword_call
from sqlwin.parser.other_dialects import is_emit, read_emit, refuse_other_dialects
from sqlwin.parser.signatures import SIGNATURES, misspelt_window_call
from sqlwin.parser.state_ttl import HINT_START
from sqlwin.parser.types import (
    BARE_TYPES,
    SPELLED_BY_FLINK,
    as_spark_type,
    parse_bare_type,
    parse_row_type,
)
from sqlwin.parser.window_functions import is_window_function, parse_window_function

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# Functions whose first argument may be a unit of time instead of a column
_FUNCTIONS_OF_UNITS = frozenset(
    "timestampadd timestampdiff dateadd date_add datediff date_diff".split()
)
_UNITS = UNITS - {"NANOSECOND"} | {"DAYOFYEAR"}

# `DATE '2024-01-31'`, `X '1F'`
TYPED_LITERALS = {
    "X": exp.DType.BINARY,
    "DATE": exp.DType.DATE,
    "TIME": exp.DType.TIME,
    "TIMESTAMP": exp.DType.TIMESTAMPTZ,
    "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
    "TIMESTAMP_NTZ": exp.DType.TIMESTAMPNTZ,
}

# A TIMESTAMP literal's text without a zone, in Spark's formats. As in Flink and the standard, such
# a literal has no zone. In Spark it is an instant.
_WALL_CLOCK = re.compile(
    r"\s*[+-]?\d{4,6}(-\d{1,2}(-\d{1,2}([ T](\d{1,2}(:\d{1,2}(:\d{1,2}(\.\d*)?)?)?)?)?)?)?\s*"
)


# Nodes that begin or end with their own tokens, such as parentheses: the positions of their
# children do not cover them
_ENCLOSING = (
    exp.Bracket,
    exp.Filter,
    exp.Func,
    exp.IgnoreNulls,
    exp.RespectNulls,
    exp.Star,
    exp.Subquery,
    exp.Tuple,
    exp.Unary,
    exp.Window,
    exp.WithinGroup,
)


class SqlWinParser(TokenParser):
    """Parser of sqlwin's SQL."""

    # Leave function names unchanged, except for functions with a grammar of their own.
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}

    # `GROUP BY SESSION(ts, ...)`
    FUNC_TOKENS: ClassVar[Any] = {*SparkParser.FUNC_TOKENS, TokenType.SESSION}

    STRICT_CAST: ClassVar[bool] = True
    ADD_JOIN_ON_TRUE: ClassVar[bool] = False
    JOINS_HAVE_EQUAL_PRECEDENCE: ClassVar[bool] = False  # would turn commas into CROSS JOIN

    STRING_PARSERS = {
        **SparkParser.STRING_PARSERS,
        TokenType.STRING: lambda self, token: self.string_literal(token),
        TokenType.RAW_STRING: lambda self, token: self.string_literal(token),
    }
    NUMERIC_PARSERS = {
        **SparkParser.NUMERIC_PARSERS,
        TokenType.NUMBER: lambda self, token: self.number_literal(token),
    }
    PRIMARY_PARSERS = {
        **SparkParser.PRIMARY_PARSERS,
        **STRING_PARSERS,
        **NUMERIC_PARSERS,
        TokenType.PLACEHOLDER: lambda self, token: self.parameter(token),
        TokenType.NULL: lambda self, token: self.span(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.span(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.span(exp.Boolean(this=False), token),
    }
    # A parameter is a value, never a name or an operator.
    PLACEHOLDER_PARSERS = {
        **SparkParser.PLACEHOLDER_PARSERS,
        TokenType.PLACEHOLDER: lambda self: None,
    }
    COLUMN_OPERATORS = {
        kind: read
        for kind, read in SparkParser.COLUMN_OPERATORS.items()
        if kind != TokenType.PLACEHOLDER
    }

    # Relations that may be followed by joins and other clauses in `(... JOIN ...)`
    MODIFIABLES: ClassVar[Any] = (*SparkParser.MODIFIABLES, WindowFunctionCall)

    def refuse(self, tokens: list[Token]) -> None:
        """Reject syntax of other systems that sqlwin spells differently."""
        refuse_other_dialects(self, tokens)

    # -- literals ------------------------------------------------------------------------------

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        """Build a cast. For a number with a suffix, keep the number's text."""
        literal = kwargs.get("this")
        raw = literal.meta.get("suffixed") if isinstance(literal, exp.Literal) else None
        result: exp.Expr = super().build_cast(strict, **kwargs)
        if raw is not None and literal is not None:
            result.meta.update({key: literal.meta[key] for key in PLACE}, **{RAW: raw})
        kind = kwargs.get("to")
        if isinstance(kind, exp.DataType) and any(
            SPELLED_BY_FLINK in part.meta for part in kind.find_all(exp.DataType)
        ):
            result.meta[RESPELLED] = True  # Spark does not know the type by this name
        return result

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        if (
            not fallback_to_identifier
            and self._next.token_type in STRINGS
            and self._curr.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
            and self._curr.text.upper() in TYPED_LITERALS
        ):
            return self._parse_column_ops(self._typed_literal())
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _typed_literal(self) -> exp.Expr:
        first = self._curr
        name = first.text.upper()
        self._advance(2)
        literal = self.string_literal(self._prev)
        if is_respelled := name == "TIMESTAMP" and _WALL_CLOCK.fullmatch(literal.name) is not None:
            name = "TIMESTAMP_NTZ"
        node = exp.Cast(this=literal, to=exp.DataType(this=TYPED_LITERALS[name], nested=False))
        node.meta[RAW] = f"{name} {literal.meta.get(RAW) or literal.sql(dialect=SparkSql)}"
        if is_respelled:
            node.meta[RESPELLED] = True
        return self.span(node, first)

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        return parse_interval(self)

    # -- places --------------------------------------------------------------------------------

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        node: exp.Expr | None = super()._parse_unary()
        is_star = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        if node is not None and (is_star or isinstance(node, _ENCLOSING)):
            self.span(node, first)
        return node

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        first = self._curr if this is None else None
        node: exp.Expr | None = super()._parse_range(this, parse_is)
        if first is not None and isinstance(node, exp.Predicate | exp.Not):
            self.span(node, first)
        return node

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        # sqlglot gives a call the position of its name.
        is_call = isinstance(this, exp.Func) and self._prev.token_type == TokenType.R_PAREN
        if this is not None and is_call and "start" in this.meta:
            this.meta["end"] = self._prev.end
        return super()._parse_window(this, alias)

    # -- types ---------------------------------------------------------------------------------

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        kind: exp.Expr | None
        if not check_func and first.token_type == TokenType.INTERVAL:
            kind = parse_interval_type(self)
        elif not check_func and first.text.upper() == "ROW":
            kind = parse_row_type(self)
        elif not check_func and first.text.upper() in BARE_TYPES:
            kind = parse_bare_type(self)
        else:
            kind = super()._parse_types(check_func, *args, **kwargs)
        return as_spark_type(self, kind, first) if isinstance(kind, exp.DataType) else kind

    # -- functions and tables ------------------------------------------------------------------

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> exp.Expr | None:
        first = self._curr
        if not anonymous and (keyword_call := parse_keyword_call(self)) is not None:
            return keyword_call
        if not anonymous and (json_call := parse_json_call(self)) is not None:
            return json_call
        call: exp.Expr | None = super()._parse_function_call(functions, anonymous, *args, **kwargs)
        if isinstance(call, exp.Anonymous) and call.name.lower() in _FUNCTIONS_OF_UNITS:
            # The form with two arguments takes only columns.
            unit = call.expressions[0] if len(call.expressions) == 3 else None
            if (
                isinstance(unit, exp.Column)
                and not (unit.table or unit.this.quoted)
                and unit.name.upper() in _UNITS
            ):
                unit.replace(exp.Var(this=unit.name))
        elif isinstance(call, NO_PAREN_FUNCTIONS) and self._prev is first:
            self.span(call, first)
            call.meta[RAW] = first.text
        return call

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        predicate: exp.Expr | None = super()._parse_is(this)
        if isinstance(predicate, exp.Not):
            predicate.meta[IS_NOT] = True
        subject = span_of(this)
        if predicate is not None and subject is not None:
            predicate.meta.update(start=subject.start, end=self._prev.end)
        return predicate

    def _parse_hint(self) -> exp.Hint | None:
        first = self._curr
        hints: list[Any] = []
        try:
            token = first
            while (hint := super()._parse_hint()) is not None:
                for item in hint.expressions:
                    if isinstance(item, exp.Expr):
                        item.meta[HINT_START] = token.start + len("/*+")
                hints += hint.expressions
                token = self._curr
        except TokenError:
            hints.append(None)
        # sqlglot keeps hints it cannot read as text.
        example = "for example SELECT /*+ BROADCAST(t), REPARTITION(8) */ ..."
        if not all(isinstance(item, exp.Expr) for item in hints):
            self.fail("invalid hint", first, self._prev, hint=example)
        if any(item.find(exp.Query) for item in hints):
            self.fail("a hint holds no query", first, self._prev, example, UnknownToSparkError)
        return exp.Hint(expressions=hints) if hints else None

    def _parse_table_parts(
        self, schema: bool = False, is_db_reference: bool = False, *args: Any, **kwargs: Any
    ) -> Any:
        if not schema and not is_db_reference:
            if self.is_at(*STRINGS):
                return parse_files(self)
            if is_state(self):
                return parse_state(self)
        table = super()._parse_table_parts(schema, is_db_reference, *args, **kwargs)
        table = files_of_call(self, table)
        if isinstance(table, exp.Table) and (options := table_options(self)) is not None:
            table.meta[TABLE_OPTIONS] = options
            table.pop_comments()
        return table

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> Any:
        if is_emit(self) or is_fill(self) or self.is_at_words("MATCH_CONDITION", "("):
            return None
        return super()._parse_table_alias(alias_tokens)

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        join: exp.Join | None = super()._parse_join(*args, **kwargs)
        if join is not None and self.is_at_words("MATCH_CONDITION", "("):
            parse_match_condition(self, join)
        return join

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        group: exp.Group | None = super()._parse_group(skip_group_by_token)
        if group is not None and is_fill(self):
            group.set("fill", parse_fill(self))
        return group

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and is_fill(self):
            add_fill(self, this)
            this = super()._parse_query_modifiers(this)
        return this

    def _is_table_query(self) -> bool:
        return self._curr.token_type == TokenType.TABLE and (
            self._next.token_type == TokenType.IDENTIFIER
            or self._next.token_type in self.ID_VAR_TOKENS
        )

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:
        if self._curr.token_type == TokenType.L_PAREN:
            return super()._parse_value(values)
        # `VALUES 1, 2 AS t(x)`: the alias belongs to the table, not to the last value.
        value = self._parse_disjunction()
        return None if value is None else exp.Tuple(expressions=[value])

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> Any:
        is_derived = self._match_pair(TokenType.L_PAREN, TokenType.VALUES)
        if not is_derived and not self._match(TokenType.VALUES):
            return None
        values = exp.Values(expressions=self._parse_csv(self._parse_value))
        values.set("alias", self._parse_table_alias())
        if not is_derived:
            return values
        self._match_r_paren()
        outer = self._parse_table_alias()
        if outer and values.args.get("alias"):
            select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=values))
            return exp.Subquery(this=select, alias=outer)
        if outer:
            values.set("alias", outer)
        return values

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> exp.Expr | None:
        if not schema and not is_db_reference and is_window_function(self):
            try:
                return parse_window_function(self, joins=joins, alias_tokens=alias_tokens)
            except ParseError as error:
                # Otherwise sqlglot would try another reading and report an error elsewhere.
                raise self.syntax_error(error) from error
        misspelt = misspelt_window_call(self._tokens, self._index)
        if misspelt is not None and not schema:
            close = nearest(misspelt.text.upper(), SIGNATURES)
            hint = (
                f"did you mean {close}?"
                if close
                else f"available window functions: {', '.join(SIGNATURES)}"
            )
            message = f"unknown window function {misspelt.text}"
            self.fail(message, misspelt, hint=hint, error=UnknownToSparkError)
        table: exp.Expr | None = super()._parse_table(
            schema, joins, alias_tokens, parse_bracket, is_db_reference, *args, **kwargs
        )
        return table


_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}


class SqlWinQueries(SparkSql):
    """Dialect for single queries. `sqlwin.dialect` registers the one that sqlglot finds by name."""

    class Tokenizer(Spark.Tokenizer):
        """Spark 4's tokens.

        sqlwin parses every statement itself, so none is read as a single token. `?::` is not a
        token, because `?::BIGINT` is a parameter and a cast.
        """

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{text: kind for text, kind in Spark.Tokenizer.KEYWORDS.items() if text != "?::"},
            "STREAM": TokenType.STREAM,
        }
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = {TokenType.SELECT, TokenType.HINT}

    Parser = SqlWinParser
    Generator = SparkSqlGenerator


def tokenize(sql: str) -> list[Token]:
    """Return the tokens of `sql` without comments.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.
    """
    if (lone := _LONE_SURROGATE.search(sql)) is not None:
        raise SqlSyntaxError(
            "invalid character: half of a surrogate pair",
            position=Position.at(sql, lone.start()),
            sql=_LONE_SURROGATE.sub("\ufffd", sql),
            hint="read the text as UTF-8",
        )
    tokenizer = SqlWinQueries().tokenizer()
    try:
        tokens: list[Token] = tokenizer.tokenize(sql)
    except TokenError as error:
        # The tokens read so far end before the unterminated one.
        read = tokenizer.tokens
        start = skip_comments(sql, read[-1].end + 1 if read else 0)
        what = "quoted name" if sql.startswith("`", start) else "string"
        raise SqlSyntaxError(
            f"unterminated {what}",
            position=Position.at(sql, start),
            sql=sql,
        ) from error
    skip_comments(sql, tokens[-1].end + 1 if tokens else 0)
    return merge_keywords(tokens)


def merge_keywords(tokens: list[Token]) -> list[Token]:
    """Merge keywords of two words, such as GROUP BY, even with a comment between them."""
    merged: list[Token] = []
    for token in tokens:
        before = merged[-1] if merged else None
        if before is not None and {before.token_type, token.token_type}.isdisjoint(_QUOTED):
            words = f"{before.text} {token.text}".upper()
            kind = SqlWinQueries.Tokenizer.KEYWORDS.get(words)
            if kind is not None:
                end = (token.line, token.col, before.start, token.end)
                merged[-1] = Token(kind, words, *end, [*before.comments, *token.comments])
                continue
        merged.append(token)
    return merged


def parser_of(literals: Mapping[str, exp.Expr] | None = None) -> SqlWinParser:
    """Return a new parser.

    Args:
        literals: Trees of parameters, by the text of their tokens.
    """
    parser = cast(SqlWinParser, SqlWinQueries().parser())
    parser.literals = literals or {}
    return parser


def parse_query(sql: str) -> exp.Expr:
    """Parse one query. `sqlwin.statements.parse` handles other statements.

    Raises:
        SqlSyntaxError: The text is not valid SQL. Has a position.
    """
    return parser_of().run(read_query, tokenize(sql), sql)


def parse_query_alone(sql: str) -> exp.Query:
    """Parse one query whose text is not the user's. It has no source positions.

    Raises:
        SqlSyntaxError: The text is not valid SQL.
    """
    query = parse_query(sql)
    assert isinstance(query, exp.Query)
    for part in query.walk():
        for place in PLACE:
            part.meta.pop(place, None)
    return query


def read_query(parser: SqlWinParser) -> exp.Expr:
    """Parse the query that starts at the parser's current token."""
    first = parser._index
    tree = parser._parse_statement()
    if tree is None:
        parser.fail("expected a query", parser._curr)
    read_emit(parser, tree)
    unwrap_from_items(tree, parser.sql)
    read_hints(tree, parser, parser._tokens[first : parser._index])
    return tree


def to_spark(node: exp.Expr) -> str:
    """Render a tree as Spark SQL without comments."""
    return node.sql(dialect=SqlWinQueries, comments=False)
