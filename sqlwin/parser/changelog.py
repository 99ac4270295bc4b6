"""Arguments of CHANGELOGS: `op => DESCRIPTOR(op), op_mapping => MAP['c, r', 'INSERT', ...]`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import CHANGELOG, TO_CHANGELOG
from sqlwin.parser.base import STRINGS, TokenParser

_EXAMPLES = {
    CHANGELOG: "for example op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE']",
    TO_CHANGELOG: "for example op_mapping => MAP['INSERT, UPDATE_AFTER', 'u', 'DELETE', 'd']",
}


def parse_op(parser: TokenParser) -> exp.Expr:
    """Read `DESCRIPTOR(name)`, the column with the codes.

    Raises:
        SqlSyntaxError: It is not a single name. Has a position.
    """
    first = parser._curr
    names: list[exp.Expr] = []
    if parser.is_at_words("DESCRIPTOR", "("):
        parser._advance()
        names = parser._parse_wrapped_csv(parser._parse_id_var, optional=False)
    if len(names) != 1:
        last = parser._prev if names else None
        parser.fail("op must be DESCRIPTOR(...) with one column", first, last)
    return names[0]


def parse_mapping(parser: TokenParser, function: str) -> exp.Expr:
    """Read `MAP['text', 'text', ...]`, as an `exp.Tuple` of the texts, for one of CHANGELOGS.

    Raises:
        SqlSyntaxError: It is not a map of texts. Has a position.
    """
    first = parser._curr
    if not (parser.is_at_words("MAP") and parser._next.token_type == TokenType.L_BRACKET):
        parser.fail("op_mapping must be a MAP of texts", first, hint=_EXAMPLES[function])
    parser._advance(2)
    texts: list[exp.Expr] = []
    while parser.is_at(*STRINGS):
        texts.append(parser.span(exp.Literal.string(parser._curr.text), parser._curr))
        parser._advance()
        if not parser._match(TokenType.COMMA):
            break
    if not parser._match(TokenType.R_BRACKET) or len(texts) % 2 or not texts:
        parser.fail("op_mapping must be pairs of texts", first, parser._prev, _EXAMPLES[function])
    return parser.span(exp.Tuple(expressions=texts), first)
