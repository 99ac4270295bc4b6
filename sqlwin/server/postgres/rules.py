"""Translation rules by kind of node."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.nodes import KeywordCall
from sqlwin.server.postgres import casts, operators, translated_functions
from sqlwin.server.postgres.names import ADDED
from sqlwin.server.postgres.writer import ClientWriter, Rule


def _placeholder(writer: ClientWriter, node: exp.Placeholder) -> str:
    return f"${node.meta['number']}"


def _table(writer: ClientWriter, node: exp.Table) -> str | None:
    """Write `FROM generate_series(1, 3) AS g(n)`."""
    call = node.this
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "generate_series":
        return None
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.name else "generate_series"
    columns = alias.columns if alias is not None else []
    column = columns[0].name if columns else name
    quoted, quoted_column = (
        exp.to_identifier(each, quoted=True).sql("spark") for each in (name, column)
    )
    items = translated_functions.series(writer, call)
    text = f"(SELECT EXPLODE({items}) AS {quoted_column}) AS {quoted}"
    return text + "".join(writer.sql(join) for join in node.args.get("joins") or ())


def _alias(writer: ClientWriter, node: exp.Alias) -> str | None:
    if not node.meta.get(ADDED):
        return None
    name = node.args["alias"].sql("spark")
    return f"{writer.sql(node.this)} AS {name}"


RULES: dict[type[exp.Expr], Rule] = {
    exp.Add: operators.addition,
    exp.Alias: _alias,
    exp.Anonymous: translated_functions.call,
    exp.Array: casts.array,
    exp.AtTimeZone: operators.at_time_zone,
    exp.Bracket: operators.item,
    exp.Cast: casts.cast,
    exp.Div: operators.division,
    exp.Interval: casts.interval,
    exp.Ordered: operators.ordered,
    exp.Placeholder: _placeholder,
    exp.JSONBExtractScalar: operators.json_path,
    exp.JSONExtractScalar: operators.json_path,
    exp.Pow: operators.power,
    exp.RegexpLike: operators.pattern_match,
    exp.Select: operators.select,
    exp.Sub: operators.subtraction,
    exp.Table: _table,
    exp.Except: operators.query,
    exp.Intersect: operators.query,
    exp.Union: operators.query,
    KeywordCall: operators.keyword_call,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), operators.comparison),
}
