"""Window table functions in a FROM clause: `TABLE(HOP(TABLE t, DESCRIPTOR(ts), ...))`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import CHANGELOGS, LENIENCIES, Leniency, WindowFunctionCall
from planner.sql.render import SparkSql
from runtime.errors import nearest
from sqlwin.parser.base import STRINGS, TokenParser, is_word
from sqlwin.parser.changelog import parse_mapping, parse_op
from sqlwin.parser.fill import parse_fill_items, parse_keys
from sqlwin.parser.intervals import parse_short_duration
from sqlwin.parser.signatures import BOUNDED, PARTITIONED, SIGNATURES, is_window_call, usage

# Words for the places of tables among the arguments
_ORDINALS = ("first", "second", "third")


def is_window_function(parser: TokenParser) -> bool:
    """Return whether a window function, bare or in TABLE( ), starts at the current token."""
    return is_window_call(parser._tokens, parser._index)


def parse_window_function(
    parser: TokenParser, *, joins: bool, alias_tokens: Collection[TokenType] | None
) -> WindowFunctionCall:
    """Read the window function at the current token, with its alias.

    Args:
        parser: Parser positioned before the function; see `is_window_function`.
        joins: Whether joins that follow belong to the function, as in `(TABLE(...) JOIN t)`.
        alias_tokens: Token types allowed as an alias.

    Raises:
        SqlSyntaxError: An argument is invalid, missing or repeated. Has a position.
    """
    node = _CallReader(parser).read()
    node.set("sample", parser._parse_table_sample())
    alias = parser._parse_table_alias(alias_tokens=alias_tokens or parser.TABLE_ALIAS_TOKENS)
    if alias:
        node.set("alias", alias)
    pivots = parser._parse_pivots()
    if pivots:
        node.set("pivots", pivots)
    if joins:
        for join in parser._parse_joins(alias_tokens=alias_tokens):
            node.append("joins", join)
    return node


class _CallReader:
    """Reader of a window function call at the current token of a parser.

    Attributes:
        arguments: Arguments read so far, by parameter.
        leniencies: Spellings in the call that Flink rejects.
    """

    def __init__(self, parser: TokenParser) -> None:
        self.parser = parser
        self.first = parser._curr
        self.is_wrapped = self.first.text.upper() == "TABLE"
        if self.is_wrapped:
            parser._advance(2)
        self.name = parser._curr
        self.kind = self.name.text.upper()
        self.signature = SIGNATURES[self.kind]
        self.usage = usage(self.kind)
        self.arguments: dict[str, object] = {}
        self.leniencies: list[Leniency] = []
        # Date and time of day whose sum is the time column.
        self.sum: tuple[exp.Identifier, exp.Identifier] | None = None

    def read(self) -> WindowFunctionCall:
        """Read the call, without its alias and joins in FROM."""
        parser = self.parser
        parser._advance()
        this = parser.span(exp.Var(this=self.kind), self.name)
        parser._advance()
        self._read_arguments()
        parser._match_r_paren()
        if self.is_wrapped:
            parser._match_r_paren()
        if self.sum is not None and isinstance(data := self.arguments["data"], exp.Expr):
            self.arguments["data"] = parser.span(_with_time(data, *self.sum), self.first)
        if self.kind in CHANGELOGS:
            self.arguments["data"] = self.arguments.pop("input")
        node = WindowFunctionCall(this=this, **self.arguments)
        parser.span(node, self.first)
        if self.leniencies:
            node.meta[LENIENCIES] = self.leniencies
        return node

    def _note(self, message: str, first: Token, last: Token, right: str | None) -> None:
        """Record that Flink rejects the tokens from `first` to `last`, with an alternative."""
        hint = f"write {right}" if right else None
        self.leniencies.append(Leniency(message, first.start, last.end, hint))

    def _fail(self, message: str, first: Token, last: Token | None = None) -> NoReturn:
        """Reject some tokens, with the usage of the function."""
        self.parser.fail(message, first, last, self.usage)

    # -- arguments -----------------------------------------------------------------------------

    def _read_arguments(self) -> None:
        """Read the arguments and check that none is missing, unknown or repeated."""
        parser, kind = self.parser, self.kind
        parameters = self.signature.parameters
        positional: list[exp.Expr | None] = []
        is_named: bool | None = None
        while parser._curr and parser._curr.token_type != TokenType.R_PAREN:
            argument = parser._curr
            has_name = parser._next.token_type == TokenType.FARROW
            may_mix = kind == "GAP_FILL" and has_name
            if is_named is not None and has_name != is_named and not may_mix:
                parser.fail(
                    f"{kind} cannot mix named and positional arguments",
                    argument,
                    hint=f"name all arguments or none: {self.usage}",
                )
            is_named = has_name if is_named is None else is_named
            if has_name:
                parameter = self._parameter(argument)
                parser._advance(2)
                self.arguments[parameter] = self._argument(parameter)
            elif (
                kind == "SESSION" and len(positional) == 2 and parser.is_at_words("DESCRIPTOR", "(")
            ):
                self._read_key_descriptor()
            else:
                # Surplus arguments are only counted.
                n = len(positional)
                most = self.signature.required if kind == "GAP_FILL" else parameters
                positional.append(self._argument(most[n] if n < len(most) else ""))
            if not parser._match(TokenType.COMMA):
                break
            if parser.is_at(TokenType.R_PAREN):
                self._fail(f"missing argument of {kind} after this comma", parser._prev)
        if parser._curr and parser._curr.token_type != TokenType.R_PAREN:
            parser.raise_error("Expecting , or )")
        if is_named:
            self._check_named()
            return
        self._check_count(len(positional))
        parameters = tuple(p for p in parameters if p not in self.arguments)
        if kind == "CUMULATE" and len(positional) == 5 and isinstance(positional[4], exp.Boolean):
            # CUMULATE(..., step, size, TRUE) omits the offset, which is not a boolean.
            parameters = tuple(p for p in parameters if p != "offset")
        self.arguments.update(zip(parameters, positional, strict=False))

    def _check_count(self, n: int) -> None:
        least, most = len(self.signature.required), len(self.signature.parameters)
        if self.kind == "GAP_FILL":
            most = least
        if least <= n <= most:
            return
        allowed = str(least)
        if most > least:
            allowed = f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
        self.parser.fail(
            f"{self.usage.replace('(', ' takes (', 1)}: {allowed} arguments, got {n}",
            self.name,
            self.parser._curr or self.parser._prev,
        )

    def _check_named(self) -> None:
        missing = [self._shown(p) for p in self.signature.required if p not in self.arguments]
        if missing:
            self.parser.fail(
                f"missing argument{'s' * (len(missing) > 1)} of {self.kind}: {', '.join(missing)}",
                self.name,
                self.parser._curr or self.parser._prev,
                hint=self._takes(),
            )

    def _takes(self) -> str:
        return f"arguments of {self.kind}: {', '.join(map(self._shown, self.signature.parameters))}"

    def _shown(self, parameter: str) -> str:
        """Return a parameter as Flink spells it."""
        return parameter if self.kind in CHANGELOGS else parameter.upper()

    def _parameter(self, token: Token) -> str:
        """Return the parameter that a token before `=>` names."""
        parameters = self.signature.parameters
        parameter = token.text.lower()
        shown = self._shown(parameter)
        if parameter not in parameters:
            close = nearest(parameter, parameters)
            self.parser.fail(
                f"unknown argument {token.text} of {self.kind}",
                token,
                hint=f"did you mean {self._shown(close)}?" if close else self._takes(),
            )
        if parameter in self.arguments:
            self.parser.fail(f"argument {shown} of {self.kind} is given twice", token)
        if token.text != shown:
            case = "lower" if self.kind in CHANGELOGS else "upper"
            self._note(f"argument names must be {case} case", token, token, shown)
        elif parameter == "offset" and token.token_type != TokenType.IDENTIFIER:
            self._note("OFFSET is a reserved word", token, token, "`OFFSET` => ...")
        elif parameter == "data" and self.arguments:
            self._note("DATA must be the first argument", token, token, None)
        return parameter

    def _argument(self, parameter: str) -> exp.Expr | None:
        if parameter in ("data", "input"):
            return self._data(parameter)
        if parameter == "op":
            return parse_op(self.parser)
        if parameter == "op_mapping":
            return parse_mapping(self.parser, self.kind)
        if parameter == "timecol":
            return self._descriptor()
        if parameter == "bounds":
            return self._table("bounds")
        if parameter == "boundcols":
            return self._bound_columns()
        if parameter == "fill":
            return self._fill_items()
        if parameter == "keys":
            return parse_keys(self.parser)
        parser, kind = self.parser, self.kind
        first = parser._curr
        if kind in BOUNDED:
            self._fail(f"{kind} takes {len(self.signature.parameters)} arguments", first)
        if parser.is_at_words("DESCRIPTOR", "("):
            self._fail(f"{kind} takes a single DESCRIPTOR, its second argument", first)
        if parser.is_at_words("TABLE"):
            self._fail(f"{kind} takes a single table, its first argument", first)
        short = parse_short_duration(parser)
        if short is not None:
            right = short.sql(dialect=SparkSql)
            self._note("a duration must be an INTERVAL", first, parser._prev, right)
            return parser.span(short, first)
        value = parser._parse_disjunction()
        if value is None:
            self._fail(f"missing argument of {kind}", first)
        return parser.span(value, first)

    def _fill_items(self) -> exp.Expr:
        """Read the list of FILL, as an `exp.Tuple`."""
        parser = self.parser
        first = parser._curr
        if not parser.is_at(TokenType.L_PAREN):
            parser.fail(
                "FILL needs a list in parentheses", first, hint="for example FILL => (n = 0)"
            )
        return parser.span(exp.Tuple(expressions=parse_fill_items(parser)), first)

    # -- data and keys -------------------------------------------------------------------------

    def _data(self, parameter: str) -> exp.Expr:
        """Read the data argument. The keys of its PARTITION BY become an argument of the call."""
        parser, kind = self.parser, self.kind
        data = self._table(parameter)
        if parser._match(TokenType.PARTITION_BY):
            if kind not in PARTITIONED:
                parser.fail(
                    f"{kind} does not support PARTITION BY, unlike SESSION",
                    parser._prev,
                    hint=f"use GROUP BY with the keys: {self.usage}",
                )
            is_list = parser.is_at(TokenType.L_PAREN)
            first_key = parser._curr
            keys = parser._parse_wrapped_csv(self._key) if is_list else [self._key()]
            if not is_list:
                self._refuse_more_keys(first_key)
            self.arguments["partition"] = keys
        if parser._curr.token_type == TokenType.ORDER_BY:
            parser.fail(f"{kind} does not support ORDER BY", parser._curr)
        return data

    def _table(self, parameter: str) -> exp.Expr:
        """Read the table, view or subquery of a parameter."""
        parser = self.parser
        first = parser._curr
        ordinal = _ORDINALS[self.signature.required.index(parameter)]
        if parser.is_at_words("DESCRIPTOR", "("):
            self._fail(f"{self.kind} requires a table as its {ordinal} argument", first)
        table: exp.Expr
        if is_window_function(parser):
            table = _select_all(_CallReader(parser).read())
        else:
            has_keyword = parser.is_at_words("TABLE")
            if has_keyword:
                parser._advance()
            table = self._relation(first, ordinal)
            if has_keyword and isinstance(table, exp.Subquery):
                self._note("a subquery must not follow TABLE", first, parser._prev, "(SELECT ...)")
            elif not has_keyword and isinstance(table, exp.Table):
                right = f"TABLE {parser.sql[first.start : parser._prev.end + 1]}"
                self._note("a table name must follow TABLE", first, parser._prev, right)
        return parser.span(table, first)

    def _relation(self, first: Token, ordinal: str) -> exp.Expr:
        parser = self.parser
        if parser.is_at(TokenType.L_PAREN):
            data = _parse_subquery(parser)
        else:
            data = _parse_table_name(parser)
        if isinstance(data, exp.Subquery) or (
            isinstance(data, exp.Table) and not isinstance(data.this, exp.Func)
        ):
            return data
        self._fail(
            f"the {ordinal} argument of {self.kind} must be a table, a view or a subquery",
            first,
            parser._prev if parser._prev.start >= first.start else first,
        )

    def _refuse_more_keys(self, first: Token) -> None:
        """Reject `PARTITION BY a, b, DESCRIPTOR(...)`: only `a` would be a key."""
        parser = self.parser
        i = parser._index
        while parser._tokens[i : i + 1] and parser._tokens[i].token_type == TokenType.COMMA:
            if is_word(parser._tokens, i + 1, "DESCRIPTOR", "(") and i > parser._index:
                keys = parser.sql[first.start : parser._tokens[i - 1].end + 1]
                parser.fail(
                    "several keys of PARTITION BY must be in parentheses",
                    first,
                    parser._tokens[i - 1],
                    hint=f"PARTITION BY ({keys})",
                )
            i += 2

    def _read_key_descriptor(self) -> None:
        """Read the keys of Calcite's `SESSION(TABLE t, DESCRIPTOR(ts), DESCRIPTOR(k), gap)`."""
        parser = self.parser
        first = parser._curr
        if "partition" in self.arguments:
            parser.fail("SESSION has two lists of keys: PARTITION BY and DESCRIPTOR", first)
        parser._advance()
        self.arguments["partition"] = parser._parse_wrapped_csv(self._key)
        self._note("keys must be in PARTITION BY", first, parser._prev, "TABLE t PARTITION BY k")

    def _key(self) -> exp.Expr:
        parser = self.parser
        first = parser._curr
        column = parser._parse_column()
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            parser.fail(
                f"PARTITION BY in {self.kind} must contain only columns",
                first,
                parser._prev if column is not None else None,
                hint="compute the key in a subquery: TABLE (SELECT ..., expr AS key FROM t)",
            )
        return parser.span(column, first)

    def _bound_columns(self) -> exp.Expr:
        """Read `DESCRIPTOR(starts, ends)`."""
        parser = self.parser
        first = parser._curr
        names: list[exp.Expr] = []
        if parser.is_at_words("DESCRIPTOR", "("):
            parser._advance()
            names = parser._parse_wrapped_csv(parser._parse_id_var, optional=False)
        if len(names) != 2:
            last = parser._prev if names else None
            self._fail(f"{self.kind} requires DESCRIPTOR(starts, ends): two columns", first, last)
        return parser.span(exp.Tuple(expressions=names), first)

    # -- the time column -----------------------------------------------------------------------

    def _descriptor(self) -> exp.Identifier:
        parser = self.parser
        first = parser._curr
        if not parser.is_at_words("DESCRIPTOR", "("):
            return self._bare_time_column(first)
        parser._advance(2)
        if parser.is_at(TokenType.R_PAREN):
            parser.fail("DESCRIPTOR needs the name of the time column", first, parser._curr)
        name = parser._curr
        is_literal = name.token_type in (*STRINGS, TokenType.NUMBER)
        column = None if is_literal else parser._parse_id_var()
        if not isinstance(column, exp.Identifier):
            parser.fail(
                "DESCRIPTOR requires a column name", name, hint="for example DESCRIPTOR(ts)"
            )
        if parser.is_at(TokenType.DOT):
            self._fail_qualified(name)
        if parser.is_at(TokenType.COMMA):
            while parser._curr and not parser.is_at(TokenType.R_PAREN):
                parser._advance()
            parser.fail("DESCRIPTOR takes a single column, the time column", name, parser._prev)
        parser._match_r_paren()
        return column

    def _bare_time_column(self, first: Token) -> exp.Identifier:
        """Read the time column of `TUMBLE(t, ts, ...)`, RisingWave's and Timeplus's form."""
        parser = self.parser
        following = parser._next.token_type
        if _starts_name(first) and following in (TokenType.COMMA, TokenType.R_PAREN):
            column = parser._parse_id_var()
            if isinstance(column, exp.Identifier):
                right = f"DESCRIPTOR({first.text})"
                self._note("the time column must be in DESCRIPTOR(...)", first, first, right)
                return column
        if _starts_name(first) and following == TokenType.PLUS:
            return self._sum_of_date_and_time(first)
        if _starts_name(first) and following == TokenType.DOT:
            self._fail_qualified(first)
        parser.fail(
            f"{self.kind} requires DESCRIPTOR(...) with the time column",
            first,
            hint=f"{self.usage}, for example DESCRIPTOR(ts)",
        )

    def _sum_of_date_and_time(self, first: Token) -> exp.Identifier:
        """Read the time column of `TUMBLE(t, day + clock, ...)`: a date and a time of day."""
        parser = self.parser
        date = parser._parse_id_var()
        parser._match(TokenType.PLUS)
        time = parser._parse_id_var() if _starts_name(parser._curr) else None
        is_end = parser.is_at(TokenType.COMMA, TokenType.R_PAREN)
        if not (isinstance(date, exp.Identifier) and isinstance(time, exp.Identifier) and is_end):
            parser.fail(
                "only two columns can be added: a date and a time of day",
                first,
                hint="for other expressions, use a subquery: (SELECT *, ... AS ts FROM t)",
            )
        self.sum = (date, time)
        self._note("the time must be a single column in DESCRIPTOR(...)", first, parser._prev, None)
        column = exp.to_identifier(_sum_name(date, time), quoted=True)
        parser.span(column, first)
        return column

    def _fail_qualified(self, name: Token) -> NoReturn:
        parser = self.parser
        while parser._curr and not parser.is_at(TokenType.COMMA, TokenType.R_PAREN):
            parser._advance()
        parser.fail(
            "DESCRIPTOR requires an unqualified column name",
            name,
            parser._prev,
            hint="for a nested field, use a subquery: SELECT a.b AS ts",
        )


def _sum_name(date: exp.Identifier, time: exp.Identifier) -> str:
    return f"{date.name} + {time.name}"


def _with_time(data: exp.Expr, date: exp.Identifier, time: exp.Identifier) -> exp.Subquery:
    """Add a column with the sum of a date and a time of day, possibly strings, to the data."""

    def cast(value: exp.Expr, type_: str) -> exp.Cast:
        return exp.Cast(this=value, to=exp.DataType.build(type_, dialect=SparkSql))

    day = cast(cast(exp.Column(this=date), "DATE"), "STRING")
    clock = cast(exp.Column(this=time), "STRING")
    text = exp.Concat(expressions=[day, exp.Literal.string(" "), clock])
    name = exp.to_identifier(_sum_name(date, time), quoted=True)
    value = exp.Alias(this=cast(text, "TIMESTAMP_NTZ"), alias=name)
    select = exp.Select(expressions=[exp.Star(), value], from_=exp.From(this=data))
    return exp.Subquery(this=select)


def _select_all(source: exp.Expr) -> exp.Subquery:
    """Build `(SELECT * FROM source)`, for functions or VALUES as data."""
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
    return exp.Subquery(this=select)


def _starts_name(token: Token) -> bool:
    literals = (*STRINGS, TokenType.NUMBER, TokenType.INTERVAL)
    return bool(token) and token.token_type not in literals


def _parse_table_name(parser: TokenParser) -> exp.Expr | None:
    """Read the table or file path at the current token, or return None if it is not a name."""
    is_name = _starts_name(parser._curr) or parser.is_at(*STRINGS)
    table: exp.Expr | None = parser._parse_table_parts() if is_name else None
    return table


def _parse_subquery(parser: TokenParser) -> exp.Expr | None:
    """Read `(SELECT ...)`, `(TABLE t)`, `(VALUES ...)` or `(t)`."""
    parser._advance()
    source: exp.Expr | None
    if is_window_function(parser):
        # TABLE(TUMBLE(...)) is read elsewhere. This is TUMBLE(...) in parentheses.
        source = _select_all(_CallReader(parser).read())
    elif parser.is_at(TokenType.VALUES):
        values = parser._parse_derived_table_values()
        source = None if values is None else _select_all(values)
    elif (query := parser._parse_select()) is None:
        source = _parse_table_name(parser)
    else:
        source = parser._parse_query_modifiers(parser._parse_set_operations(query))
        while isinstance(source, exp.Subquery) and source.is_wrapper:
            source = source.this
        source = exp.Subquery(this=source) if isinstance(source, exp.Query) else None
    parser._match_r_paren()
    return source
