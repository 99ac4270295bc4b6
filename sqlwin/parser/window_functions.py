"""Window table functions in a FROM clause: `TABLE(HOP(TABLE t, DESCRIPTOR(ts), ...))`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import LENIENCIES, Leniency, WindowFunctionCall
from planner.sql.render import SparkSql
from runtime.errors import nearest
from sqlwin.parser.base import STRINGS, TokenParser
from sqlwin.parser.intervals import parse_short_duration
from sqlwin.parser.signatures import SIGNATURES, is_window_call, usage


def is_window_function(parser: TokenParser) -> bool:
    """Whether a window function, bare or in TABLE( ), starts at the current token."""
    return is_window_call(parser._tokens, parser._index)


def parse_window_function(
    parser: TokenParser, *, joins: bool, alias_tokens: Collection[TokenType] | None
) -> WindowFunctionCall:
    """The window function at the current token, with its alias.

    Args:
        parser: stands before the function, see `is_window_function`.
        joins: whether joins that follow belong to the function, as in `(TABLE(...) JOIN t)`.
        alias_tokens: the tokens that may be an alias.

    Raises:
        SqlSyntaxError: a wrong, missing or repeated argument, each with its place.
    """
    node = _parse_call(parser)
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


def _parse_call(parser: TokenParser) -> WindowFunctionCall:
    first = parser._curr
    is_wrapped = parser._curr.text.upper() == "TABLE"
    if is_wrapped:
        parser._advance(2)
    name = parser._curr
    kind = name.text.upper()
    parser._advance(2)
    lenient: list[Leniency] = []
    arguments = _parse_arguments(parser, kind, name, lenient)
    parser._match_r_paren()
    if is_wrapped:
        parser._match_r_paren()
    this = exp.Var(this=kind)
    this.meta.update(line=name.line, col=name.col, start=name.start, end=name.end)
    node = WindowFunctionCall(this=this, **arguments)
    parser.span(node, first)
    if lenient:
        node.meta[LENIENCIES] = lenient
    return node


def _parse_arguments(
    parser: TokenParser, kind: str, name: Token, lenient: list[Leniency]
) -> dict[str, object]:
    """The arguments by parameter; checked to be all there, none unknown or given twice."""
    signature = SIGNATURES[kind]
    arguments: dict[str, object] = {}
    positional: list[tuple[Token, exp.Expr | None]] = []
    is_named: bool | None = None
    while parser._curr and parser._curr.token_type != TokenType.R_PAREN:
        argument = parser._curr
        has_name = parser._next.token_type == TokenType.FARROW
        if is_named is not None and has_name != is_named:
            parser.fail(
                f"{kind} cannot mix named and positional arguments",
                argument,
                hint=f"name all of them or none: {usage(kind)}",
            )
        is_named = has_name
        if has_name:
            parameter = _parameter(parser, kind, argument, arguments)
            _note_parameter(argument, parameter, len(arguments), lenient)
            parser._advance(2)
            arguments[parameter] = _parse_argument(parser, kind, parameter, arguments, lenient)
        elif kind == "SESSION" and len(positional) == 2 and _is_descriptor(parser):
            _parse_key_descriptor(parser, arguments, lenient)
        else:
            # Beyond the last parameter arguments are only counted.
            n = len(positional)
            parameter = signature.parameters[n] if n < len(signature.parameters) else ""
            parsed = _parse_argument(parser, kind, parameter, arguments, lenient)
            positional.append((argument, parsed))
        if not parser._match(TokenType.COMMA):
            break
        if parser.is_at(TokenType.R_PAREN):
            parser.fail(f"{kind} has no argument after this comma", parser._prev, hint=usage(kind))
    if parser._curr and parser._curr.token_type != TokenType.R_PAREN:
        parser.raise_error("Expecting , or )")
    if is_named:
        _check_named(parser, kind, name, arguments)
    else:
        _check_count(parser, kind, name, len(positional))
        arguments.update(_by_position(kind, [node for _, node in positional]))
    return arguments


def _by_position(kind: str, nodes: list[exp.Expr | None]) -> dict[str, exp.Expr | None]:
    parameters = SIGNATURES[kind].parameters
    if kind == "CUMULATE" and len(nodes) == 5 and isinstance(nodes[4], exp.Boolean):
        # CUMULATE(..., step, size, TRUE): the offset, which is no boolean, is left out
        parameters = tuple(p for p in parameters if p != "offset")
    return dict(zip(parameters, nodes, strict=False))


def _check_count(parser: TokenParser, kind: str, name: Token, n: int) -> None:
    signature = SIGNATURES[kind]
    least, most = len(signature.required), len(signature.parameters)
    if least <= n <= most:
        return
    allowed = str(least)
    if most > least:
        allowed = f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
    parser.fail(
        f"{usage(kind).replace('(', ' takes (', 1)}: {allowed} arguments, got {n}",
        name,
        parser._curr or parser._prev,
    )


def _check_named(parser: TokenParser, kind: str, name: Token, arguments: dict[str, object]) -> None:
    missing = [p.upper() for p in SIGNATURES[kind].required if p not in arguments]
    if missing:
        parser.fail(
            f"{kind} lacks the argument{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            name,
            parser._curr or parser._prev,
            hint=f"{kind} takes {', '.join(p.upper() for p in SIGNATURES[kind].parameters)}",
        )


def _parameter(parser: TokenParser, kind: str, token: Token, arguments: dict[str, object]) -> str:
    parameters = SIGNATURES[kind].parameters
    parameter = token.text.lower()
    if parameter not in parameters:
        close = nearest(parameter, parameters)
        names = ", ".join(p.upper() for p in parameters)
        parser.fail(
            f"{kind} has no argument named {token.text}",
            token,
            hint=f"did you mean {close.upper()}?" if close else f"{kind} takes {names}",
        )
    if parameter in arguments:
        parser.fail(f"{kind} got the argument {parameter.upper()} twice", token)
    return parameter


def _note_parameter(token: Token, parameter: str, n_before: int, lenient: list[Leniency]) -> None:
    """What Flink has against a name that stands before `=>`."""
    upper = parameter.upper()
    if token.text != upper:
        lenient.append(_leniency("names of arguments are written in capitals", token, token, upper))
    elif parameter == "offset" and token.token_type != TokenType.IDENTIFIER:
        lenient.append(_leniency("OFFSET is a reserved word", token, token, "`OFFSET` => ..."))
    elif parameter == "data" and n_before:
        lenient.append(_leniency("DATA must be the first argument", token, token, None))


def _leniency(message: str, first: Token, last: Token, right: str | None) -> Leniency:
    return Leniency(message, first.start, last.end, f"write {right}" if right else None)


def _is_descriptor(parser: TokenParser) -> bool:
    return (
        parser._curr.text.upper() == "DESCRIPTOR" and parser._next.token_type == TokenType.L_PAREN
    )


def _parse_key_descriptor(
    parser: TokenParser, arguments: dict[str, object], lenient: list[Leniency]
) -> None:
    """`SESSION(TABLE t, DESCRIPTOR(ts), DESCRIPTOR(k), gap)`, as Calcite writes PARTITION BY."""
    first = parser._curr
    if "partition" in arguments:
        parser.fail("SESSION got its keys twice: PARTITION BY and DESCRIPTOR", first)
    parser._advance(2)
    arguments["partition"] = parser._parse_csv(lambda: _parse_key(parser))
    parser._match_r_paren()
    lenient.append(
        _leniency("keys stand in PARTITION BY", first, parser._prev, "TABLE t PARTITION BY k")
    )


def _parse_argument(
    parser: TokenParser,
    kind: str,
    parameter: str,
    arguments: dict[str, object],
    lenient: list[Leniency],
) -> exp.Expr | None:
    if parameter == "data":
        data, partition = _parse_data(parser, kind, lenient)
        if partition:
            arguments["partition"] = partition
        return data
    if parameter == "timecol":
        return _parse_descriptor(parser, kind, lenient)
    first = parser._curr
    if _is_descriptor(parser):
        parser.fail(f"{kind} takes one DESCRIPTOR, as its second argument", first, hint=usage(kind))
    if is_table_keyword(first):
        parser.fail(f"{kind} takes one table, as its first argument", first, hint=usage(kind))
    short = parse_short_duration(parser)
    if short is not None:
        right = short.sql(dialect=SparkSql)
        lenient.append(_leniency("a duration is an INTERVAL", first, parser._prev, right))
        return parser.span(short, first)
    value = parser._parse_disjunction()
    if value is None:
        parser.fail(f"{kind} lacks an argument here", first or None, hint=usage(kind))
    return parser.span(value, first)


def is_table_keyword(token: Token) -> bool:
    """Whether the token is the word TABLE, not a name spelt so in quotes."""
    return token.token_type == TokenType.TABLE and token.text.upper() == "TABLE"


def _parse_data(
    parser: TokenParser, kind: str, lenient: list[Leniency]
) -> tuple[exp.Expr, list[exp.Expr]]:
    """The rows that windows are put on, and the keys of a PARTITION BY."""
    first = parser._curr
    if _is_descriptor(parser):
        parser.fail(
            f"{kind} lacks its data: the first argument is a table", first, hint=usage(kind)
        )
    data: exp.Expr | None
    if is_window_function(parser):
        data = _as_subquery(_parse_call(parser))
    else:
        has_keyword = is_table_keyword(first)
        if has_keyword:
            parser._advance()
        data = _parse_relation(parser, kind, first)
        if has_keyword and isinstance(data, exp.Subquery):
            lenient.append(
                _leniency("a subquery stands without TABLE", first, parser._prev, "(SELECT ...)")
            )
        elif not has_keyword and isinstance(data, exp.Table):
            right = f"TABLE {parser.sql[first.start : parser._prev.end + 1]}"
            lenient.append(_leniency("a table's name follows TABLE", first, parser._prev, right))
    parser.span(data, first)
    partition: list[exp.Expr] = []
    if parser._match(TokenType.PARTITION_BY):
        if kind != "SESSION":
            parser.fail(
                f"{kind} takes no PARTITION BY: only SESSION does",
                parser._prev,
                hint=f"group by the keys after the function: {usage(kind)}",
            )
        partition = _parse_partition(parser)
    if parser._curr.token_type == TokenType.ORDER_BY:
        parser.fail(f"{kind} takes no ORDER BY: its rows need no order", parser._curr)
    return data, partition


def _as_subquery(function: WindowFunctionCall) -> exp.Subquery:
    """`SELECT * FROM function`, which is what a function as data means."""
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=function))
    return exp.Subquery(this=select)


def _parse_relation(parser: TokenParser, kind: str, first: Token) -> exp.Expr:
    start = parser._curr
    if start.token_type == TokenType.L_PAREN:
        data = _parse_subquery(parser)
    else:
        is_name = _starts_name(start) or start.token_type in STRINGS
        data = parser._parse_table_parts() if is_name else None
    if isinstance(data, exp.Table) and not isinstance(data.this, exp.Func):
        return data
    if isinstance(data, exp.Subquery):
        return data
    parser.fail(
        f"the first argument of {kind} must be a table, a view or a subquery",
        first,
        parser._prev if parser._prev.start >= first.start else first,
        hint=usage(kind),
    )


def _starts_name(token: Token) -> bool:
    literals = (*STRINGS, TokenType.NUMBER, TokenType.INTERVAL)
    return bool(token) and token.token_type not in literals


def _parse_subquery(parser: TokenParser) -> exp.Expr | None:
    """`(SELECT ...)`, `(TABLE t)`, `(VALUES ...)`, `(t)`."""
    parser._advance()
    if is_window_function(parser):
        # TABLE(TUMBLE(...)) is read elsewhere; here it is the parenthesised (TUMBLE(...))
        inner: exp.Expr = _as_subquery(_parse_call(parser))
        parser._match_r_paren()
        return inner
    if parser._curr.token_type == TokenType.VALUES:
        values = parser._parse_derived_table_values()
        parser._match_r_paren()
        if values is None:
            return None
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=values))
        return exp.Subquery(this=select)
    query = parser._parse_select()
    if query is None:
        is_name = _starts_name(parser._curr) or parser.is_at(*STRINGS)
        relation = parser._parse_table_parts() if is_name else None
        parser._match_r_paren()
        return relation
    query = parser._parse_query_modifiers(parser._parse_set_operations(query))
    parser._match_r_paren()
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    return exp.Subquery(this=query) if isinstance(query, exp.Query) else None


def _parse_partition(parser: TokenParser) -> list[exp.Expr]:
    if parser._match(TokenType.L_PAREN):
        columns = parser._parse_csv(lambda: _parse_key(parser))
        parser._match_r_paren()
        return columns
    return [_parse_key(parser)]


def _parse_key(parser: TokenParser) -> exp.Expr:
    first = parser._curr
    column = parser._parse_column()
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        parser.fail(
            "PARTITION BY in SESSION takes columns",
            first or None,
            parser._prev if column is not None else None,
            hint="compute the key in a subquery: TABLE (SELECT ..., expr AS key FROM t)",
        )
    return parser.span(column, first)


def _parse_descriptor(parser: TokenParser, kind: str, lenient: list[Leniency]) -> exp.Identifier:
    first = parser._curr
    if not _is_descriptor(parser):
        if _starts_name(first) and parser._next.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            # `TUMBLE(t, ts, ...)`, as RisingWave and Timeplus write it
            bare = parser._parse_id_var()
            if isinstance(bare, exp.Identifier):
                right = f"DESCRIPTOR({first.text})"
                lenient.append(
                    _leniency("the time column stands in DESCRIPTOR( )", first, first, right)
                )
                return bare
        if _starts_name(first) and parser._next.token_type == TokenType.DOT:
            while parser._curr and not parser.is_at(TokenType.COMMA, TokenType.R_PAREN):
                parser._advance()
            _fail_qualified(parser, first)
        parser.fail(
            f"{kind} lacks the DESCRIPTOR of its time column",
            first or None,
            hint=f"{usage(kind)}, for example DESCRIPTOR(ts)",
        )
    parser._advance(2)
    if parser._curr.token_type == TokenType.R_PAREN:
        parser.fail("DESCRIPTOR needs the name of the time column", first, parser._curr)
    name = parser._curr
    column = parser._parse_id_var() if name.token_type not in (*STRINGS, TokenType.NUMBER) else None
    if not isinstance(column, exp.Identifier):
        parser.fail(
            "DESCRIPTOR takes the name of a column", name or None, hint="for example DESCRIPTOR(ts)"
        )
    if parser._curr.token_type == TokenType.DOT:
        while parser._curr and parser._curr.token_type not in (TokenType.R_PAREN, TokenType.COMMA):
            parser._advance()
        _fail_qualified(parser, name)
    if parser._curr.token_type == TokenType.COMMA:
        while parser._curr and not parser.is_at(TokenType.R_PAREN):
            parser._advance()
        parser.fail("DESCRIPTOR takes one column, the time column", name, parser._prev)
    parser._match_r_paren()
    return column


def _fail_qualified(parser: TokenParser, name: Token) -> NoReturn:
    parser.fail(
        "DESCRIPTOR takes a column's plain name, without a table before it",
        name,
        parser._prev,
        hint="a field inside a column needs a name first: SELECT a.b AS ts",
    )
