"""Relations in FROM: MATCH_CONDITION of joins, and removal of parentheses around tables and joins.

`(a)` becomes `a`, `FROM (a JOIN b ON p) JOIN c` becomes `FROM a JOIN b ON p JOIN c`, and a join
with an alias, `(a JOIN b ON p) AS w`, becomes a subquery. Later phases therefore only find tables,
window functions and queries in FROM.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import WindowFunctionCall, position_of
from runtime.errors import Position, SqlSyntaxError
from sqlwin.parser.base import TokenParser


def unwrap_from_items(tree: exp.Expr, sql: str) -> None:
    """Remove, in place, the parentheses around tables and joins in a query's FROM.

    Raises:
        SqlSyntaxError: A join in parentheses without an alias is the right side of a join, and one
            of the two is an outer join or has USING. This cannot be written without parentheses.
    """
    for select in tree.find_all(exp.Select):
        joins: list[exp.Expr] = []
        source = select.args.get("from_")
        if source is not None and _is_wrapped(source.this):
            first, joins = _open(source.this, sql)
            source.set("this", first)
        joins += _flat(select.args.get("joins") or [], sql)
        if joins:
            select.set("joins", joins)


def _is_wrapped(item: exp.Expr) -> bool:
    """Return whether an item of FROM is a table or a join in parentheses, rather than a query."""
    if not isinstance(item, exp.Subquery) or item.args.get("pivots") or item.args.get("sample"):
        return False
    inner = item.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.args.get("joins") or inner.alias) or _is_wrapped(inner)
    return isinstance(inner, exp.Table | WindowFunctionCall)


def _flat(joins: list[exp.Expr], sql: str) -> list[exp.Expr]:
    """Return the joins, with parenthesised joins on their right side flattened."""
    return [
        flat
        for join in joins
        for flat in (_flatten_right(join, sql) if _is_wrapped(join.this) else [join])
    ]


def _open(item: exp.Expr, sql: str) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return the first relation of an item of FROM, and the joins inside its parentheses."""
    outer_joins = _flat(item.args.get("joins") or [], sql)
    item.set("joins", None)
    if not _is_wrapped(item):
        return item, outer_joins
    alias = item.args.get("alias")
    first, joins = _open(item.this, sql)
    if alias is None:
        return first, [*joins, *outer_joins]
    if joins or first.alias:
        rows = exp.Select(expressions=[exp.Star()], from_=exp.From(this=first), joins=joins)
        return exp.Subquery(this=rows, alias=alias), outer_joins
    first.set("alias", alias)
    return first, outer_joins


def _flatten_right(join: exp.Expr, sql: str) -> list[exp.Expr]:
    """Flatten a join with a parenthesised join on its right: `JOIN (a JOIN b ON p) ON q`.

    For inner joins, this is `CROSS JOIN a JOIN b ON p AND q`.
    """
    place = join.find(exp.Identifier)
    first, joins = _open(join.this, sql)
    if not joins:
        join.set("this", first)
        return [join]
    if not all(_is_inner(part) for part in (join, *joins)):
        position = None if place is None else position_of(place, sql)
        raise SqlSyntaxError(
            "a join in parentheses cannot follow JOIN if either join is an outer join or has USING",
            position=position or Position.at(sql, len(sql.rstrip())),
            sql=sql,
            hint="use a subquery: JOIN (SELECT ... FROM a JOIN b ON ...) AS j ON ...",
        )
    last = joins[-1]
    conditions = [part.args["on"] for part in (last, join) if part.args.get("on") is not None]
    if conditions:
        last.set("kind", None)
        last.set("on", exp.and_(*conditions, copy=False) if conditions[1:] else conditions[0])
    return [exp.Join(this=first, kind="CROSS"), *joins]


def _is_inner(join: exp.Expr) -> bool:
    is_plain = not any(join.args.get(key) for key in ("side", "method", "using"))
    return is_plain and (join.args.get("kind") or "INNER") in ("INNER", "CROSS")


def parse_match_condition(parser: TokenParser, join: exp.Join) -> None:
    """Read MATCH_CONDITION of an ASOF JOIN, and the ON or USING that follows.

    Raises:
        SqlSyntaxError: The join is of another kind, or the condition is missing. Has a position.
    """
    first = parser._curr
    example = "for example a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"
    if join.method != "ASOF":
        parser.fail("MATCH_CONDITION needs an ASOF JOIN", first, hint=example)
    parser._advance()
    condition: exp.Expr | None = None
    if parser._next.token_type != TokenType.R_PAREN:
        condition = parser._parse_wrapped(parser._parse_disjunction)
    if condition is None:
        parser.fail("MATCH_CONDITION needs a comparison", first, hint=example)
    join.set("match_condition", parser.span(condition, first))
    if parser._match(TokenType.ON):
        join.set("on", parser._parse_disjunction())
    elif parser._match(TokenType.USING):
        join.set("using", parser._parse_using_identifiers())
