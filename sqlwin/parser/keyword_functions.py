"""Functions with keywords between their arguments: `EXTRACT(DAY FROM ts)`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import KeywordCall
from sqlwin.parser.base import TokenParser

# Keywords allowed between the arguments, in order
_WORDS: dict[str, tuple[str, ...]] = {
    "CEIL": ("TO",),
    "CEILING": ("TO",),
    "EXTRACT": ("FROM",),
    "FLOOR": ("TO",),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
    "SUBSTR": ("FROM", "FOR"),
    "SUBSTRING": ("FROM", "FOR"),
    "TRIM": ("FROM",),
}
_TRIM_SIDES = ("BOTH", "LEADING", "TRAILING")


def parse_keyword_call(parser: TokenParser) -> exp.Expr | None:
    """Read the call at the current token.

    Return None if the function is another one or its arguments are separated by commas.
    """
    name = parser._curr
    function = name.text.upper()
    if (
        function not in _WORDS
        or name.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        or parser._next.token_type != TokenType.L_PAREN
        or parser._prev.token_type == TokenType.DOT
    ):
        return None
    start = parser._index
    parser._advance(2)
    words, arguments = _parse_arguments(parser, function)
    if arguments is None or parser._curr.token_type != TokenType.R_PAREN:
        parser._retreat(start)
        return None
    parser._advance()
    call = KeywordCall(this=name.text, expressions=arguments, words=words)
    return parser.span(call, name)


def _parse_arguments(parser: TokenParser, function: str) -> tuple[list[str], list[exp.Expr] | None]:
    """Read keywords and arguments in turn. Return None if a keyword is missing."""
    lead = ""
    if function == "TRIM" and _is_side(parser._curr, parser._next):
        lead = parser._curr.text.upper()
        parser._advance()
    words: list[str] = []
    arguments: list[exp.Expr] = []
    is_separated = False
    for word in ("", *_WORDS[function]):
        # TRIM(BOTH FROM a) has nothing before its keyword.
        if parser.is_at(TokenType.FROM) if not word else not parser.is_at_words(word):
            continue
        if word:
            parser._advance()
            is_separated = True
        is_unit = word == "TO" or (function == "EXTRACT" and not word)
        argument = _parse_unit(parser) if is_unit else parser._try_parse(parser._parse_bitwise)
        if argument is None:
            return words, None
        words.append(f"{lead} {word}".strip())
        arguments.append(argument)
        lead = ""
    return words, arguments if is_separated else None


def _is_side(token: Token, following: Token) -> bool:
    """Return whether the token is BOTH, LEADING or TRAILING rather than a column of that name."""
    return token.text.upper() in _TRIM_SIDES and following.token_type not in (
        TokenType.R_PAREN,
        TokenType.COMMA,
        TokenType.DOT,
    )


def _parse_unit(parser: TokenParser) -> exp.Expr | None:
    token = parser._curr
    if not token or token.token_type in (TokenType.L_PAREN, TokenType.R_PAREN):
        return None
    parser._advance()
    unit = (
        parser.string_literal(token)
        if token.token_type == TokenType.STRING
        else exp.Var(this=token.text)
    )
    return parser.span(unit, token)
