"""The FILL clause: `GROUP BY k, window_start, window_end FILL (n = 0, price = LOCF)`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import FillClause, FillItem, position_of
from runtime.errors import SqlSyntaxError
from sqlwin.parser.base import STRINGS, TokenParser

# Names of the fillers, including QuestDB's and InfluxDB's
FILLERS = {
    "LOCF": "LOCF",
    "PREV": "LOCF",
    "PREVIOUS": "LOCF",
    "LINEAR": "LINEAR",
    "INTERPOLATE": "LINEAR",
}
_EXAMPLE = "for example FILL (n = 0, price = LOCF, temp = LINEAR, other = NULL)"


def is_fill(parser: TokenParser) -> bool:
    """Return whether a FILL clause starts at the current token."""
    return parser._curr.token_type == TokenType.VAR and parser.is_at_words("FILL", "(")


def add_fill(parser: TokenParser, select: exp.Select) -> None:
    """Read a FILL clause that follows another clause than GROUP BY, and attach it to GROUP BY.

    Raises:
        SqlSyntaxError: It does not follow GROUP BY or HAVING, or it is invalid.
    """
    first = parser._curr
    group = select.args.get("group")
    if group is None:
        parser.fail(
            "FILL needs a GROUP BY with the columns of a window",
            first,
            hint="for example GROUP BY k, window_start, window_end FILL (n = 0)",
        )
    if group.args.get("fill") is not None:
        parser.fail("FILL is given twice", first)
    after = next((key for key in ("order", "limit", "offset") if select.args.get(key)), None)
    if after is not None:
        clause = "ORDER BY" if after == "order" else after.upper()
        parser.fail(f"FILL must be before {clause}", first, hint="FILL follows GROUP BY or HAVING")
    group.set("fill", parse_fill(parser))


def parse_fill(parser: TokenParser) -> FillClause:
    """Read a FILL clause with its bounds and keys.

    Raises:
        SqlSyntaxError: The clause is invalid. Has a position.
    """
    first = parser._curr
    parser._advance()
    node = FillClause(expressions=parse_fill_items(parser))
    if parser._match(TokenType.FROM):
        node.set("start", _bound(parser, "FROM"))
    if parser._match_text_seq("TO"):
        node.set("end", _bound(parser, "TO"))
    if parser.is_at_words("KEYS", "("):
        parser._advance()
        node.set("keys", parse_keys(parser))
    parser.span(node, first)
    return node


def parse_keys(parser: TokenParser) -> exp.Expr:
    """Read the parenthesised query of the keys.

    Raises:
        SqlSyntaxError: The query is missing. Has a position.
    """
    start = parser._curr
    keys = parser._parse_wrapped(parser._parse_select) if parser.is_at(TokenType.L_PAREN) else None
    if not isinstance(keys, exp.Query):
        parser.fail(
            "KEYS needs a query for the keys", start, hint="for example (SELECT k FROM devices)"
        )
    return parser.span(exp.Subquery(this=keys.unnest()), start)


def parse_fill_items(parser: TokenParser) -> list[exp.Expr]:
    """Read `(n = 0, price = LOCF)`.

    Raises:
        SqlSyntaxError: An item is invalid or missing. Has a position.
    """
    first = parser._curr
    parser._match_l_paren()
    if parser.is_at(TokenType.R_PAREN):
        parser.fail("FILL needs the values of its columns", first, parser._curr, hint=_EXAMPLE)
    items = parser._parse_csv(lambda: _item(parser))
    if not parser.is_at(TokenType.R_PAREN):
        parser.fail("expected , or ) in FILL", parser._curr, hint=_EXAMPLE)
    parser._match_r_paren()
    unnamed = [item for item in items if item.this is None]
    if len(unnamed) > 1:
        raise SqlSyntaxError(
            "FILL has two values without a column",
            position=position_of(unnamed[1], parser.sql),
            sql=parser.sql,
            hint=_EXAMPLE,
        )
    return items


def _item(parser: TokenParser) -> exp.Expr:
    first = parser._curr
    name = None
    if parser._next.token_type == TokenType.EQ and first.token_type not in STRINGS:
        name = parser._parse_id_var()
        if not isinstance(name, exp.Identifier):
            parser.fail("FILL needs a column before =", first, hint=_EXAMPLE)
        parser._match(TokenType.EQ)
    word = parser._curr.text.upper()
    value: exp.Expr | None
    if parser._curr.token_type != TokenType.STRING and word in FILLERS:
        value = parser.span(exp.Var(this=FILLERS[word]), parser._curr)
        parser._advance()
    else:
        start = parser._curr
        value = parser._parse_disjunction()
        if value is None:
            parser.fail("FILL needs a value after =", first, parser._prev, hint=_EXAMPLE)
        parser.span(value, start)
    return parser.span(FillItem(this=name, expression=value), first)


def _bound(parser: TokenParser, word: str) -> exp.Expr:
    first = parser._prev
    value: exp.Expr | None = parser._parse_disjunction()
    if value is None:
        parser.fail(
            f"{word} of FILL needs a time", first, hint=f"for example {word} TIMESTAMP '2026-01-31'"
        )
    return parser.span(value, first)
