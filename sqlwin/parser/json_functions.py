"""Flink's JSON functions with clauses: `JSON_VALUE(x, '$.a' RETURNING INT NULL ON EMPTY)`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import KeywordCall
from sqlwin.parser.base import TokenParser, UnknownToSparkError

_WITH_PATH = ("JSON_EXISTS", "JSON_QUERY", "JSON_VALUE")
# Words before ON EMPTY and ON ERROR, the longer ones first
_BEHAVIOURS = (
    *(("EMPTY", "ARRAY"), ("EMPTY", "OBJECT"), ("NULL",), ("ERROR",)),
    *(("TRUE",), ("FALSE",), ("UNKNOWN",)),
)
_WRAPPERS = (("WITHOUT",), ("WITH", "CONDITIONAL"), ("WITH", "UNCONDITIONAL"), ("WITH",))


def parse_json_call(parser: TokenParser) -> exp.Expr | None:
    """Read the call at the current token. Return None if the function is another one."""
    name = parser._curr
    function = name.text.upper()
    if (
        function not in (*_WITH_PATH, "JSON_OBJECT")
        or name.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        or parser._next.token_type != TokenType.L_PAREN
        or parser._prev.token_type == TokenType.DOT
    ):
        return None
    parser._advance(2)
    words: list[str] = []
    arguments: list[exp.Expr] = []
    if function == "JSON_OBJECT":
        _parse_members(parser, words, arguments)
    else:
        for word in ("", ","):
            if word and not parser._match(TokenType.COMMA):
                parser.fail(
                    f"{function} requires a text and a path",
                    name,
                    parser._prev,
                    error=UnknownToSparkError,
                )
            words.append(word)
            arguments.append(_parse_argument(parser))
        _parse_clauses(parser, words, arguments)
    if not parser._match(TokenType.R_PAREN):
        parser.fail(
            f"unexpected {parser._curr.text or 'end'} in {function}",
            parser._curr,
            error=UnknownToSparkError,
        )
    return parser.span(KeywordCall(this=name.text, expressions=arguments, words=words), name)


def _parse_argument(parser: TokenParser) -> exp.Expr:
    first = parser._curr
    argument: exp.Expr | None = parser._parse_assignment()
    if argument is None:
        parser.fail("expected an expression", first, error=UnknownToSparkError)
    return argument


def _parse_clauses(parser: TokenParser, words: list[str], arguments: list[exp.Expr]) -> None:
    while not parser.is_at(TokenType.R_PAREN):
        if parser.is_at_words("RETURNING"):
            parser._advance()
            first = parser._curr
            type_ = parser._parse_types()
            if type_ is None:
                parser.fail("expected a type after RETURNING", first, error=UnknownToSparkError)
            words.append("RETURNING")
            arguments.append(type_)
        elif parser.is_at_words("DEFAULT"):
            parser._advance()
            words += ["DEFAULT", ""]
            arguments += [_parse_argument(parser), exp.Var(this=_parse_event(parser))]
        elif (wrapper := _read_words(parser, _WRAPPERS)) is not None:
            _read_words(parser, (("ARRAY",),))
            if _read_words(parser, (("WRAPPER",),)) is None:
                parser.fail("expected WRAPPER", parser._curr, error=UnknownToSparkError)
            words.append("")
            arguments.append(exp.Var(this=f"{wrapper} WRAPPER"))
        elif (behaviour := _read_words(parser, _BEHAVIOURS)) is not None:
            words.append("")
            arguments.append(exp.Var(this=f"{behaviour} {_parse_event(parser)}"))
        else:
            return


def _parse_event(parser: TokenParser) -> str:
    event = _read_words(parser, (("ON", "EMPTY"), ("ON", "ERROR")))
    if event is None:
        parser.fail("expected ON EMPTY or ON ERROR", parser._curr, error=UnknownToSparkError)
    return event


def _parse_members(parser: TokenParser, words: list[str], arguments: list[exp.Expr]) -> None:
    comma = ""
    while not parser.is_at(TokenType.R_PAREN):
        behaviour = _read_words(parser, (("NULL", "ON", "NULL"), ("ABSENT", "ON", "NULL")))
        if behaviour is not None:
            words.append("")
            arguments.append(exp.Var(this=behaviour))
            return
        if comma and not parser._match(TokenType.COMMA):
            parser.fail(
                "expected a comma between the members of JSON_OBJECT",
                parser._curr,
                error=UnknownToSparkError,
            )
        _read_words(parser, (("KEY",),))
        key = _parse_argument(parser)
        if _read_words(parser, (("VALUE",),)) is None:
            parser.fail(
                "expected VALUE after the key",
                parser._curr,
                hint="for example JSON_OBJECT('id' VALUE id, 'price' VALUE price)",
                error=UnknownToSparkError,
            )
        words += [f"{comma} KEY".strip(), "VALUE"]
        arguments += [key, _parse_argument(parser)]
        comma = ","


def _read_words(parser: TokenParser, choices: tuple[tuple[str, ...], ...]) -> str | None:
    """Read the first of the choices that starts at the current token, or nothing."""
    for words in choices:
        if parser.is_at_words(*words):
            parser._advance(len(words))
            return " ".join(words)
    return None
