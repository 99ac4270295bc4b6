"""Arithmetic of slices and windows on a target.

Window kinds give it as Spark SQL over BIGINT microseconds; see `runtime.windows.assigner`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, select
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import number, operand

# Stands for the argument
ARGUMENT = "t"
# Month of a time, counted from January 1970
_MONTH = "$month"


class _Plain(Spark):
    """Spark SQL whose functions keep their names."""

    class Parser(SparkParser):
        """Parser without functions."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CAST": SparkParser.FUNCTION_PARSERS["CAST"]
        }


def on_target(sql: str, argument: exp.Expr, target: Target) -> exp.Expr:
    """Return arithmetic on a target.

    Args:
        sql: Spark SQL over the column `ARGUMENT`.
        argument: Replacement of the argument.
        target: Engine.

    Raises:
        NotPortable: The target has no such function.
    """
    return _rewritten(_parsed(sql), argument, target)


def in_months(
    ctes: Ctes,
    name: str,
    source: exp.Table,
    kept: Sequence[exp.Expr],
    sql: str,
    argument: exp.Expr,
) -> tuple[exp.Table, exp.Expr]:
    """Return arithmetic of months on a target, with the month as a column of a CTE of its own.

    The arithmetic repeats the month, whose own text is long.

    Args:
        ctes: CTEs of the text.
        name: Name of the new CTE.
        source: Relation that has the argument.
        kept: Other columns of the new CTE.
        sql: Spark SQL over the column `ARGUMENT`.
        argument: Replacement of the argument.

    Returns:
        The CTE, and the arithmetic over its columns.

    Raises:
        NotPortable: The target has no such function.
    """
    select_list = _parsed(sql)
    months = {cast(exp.Expr, year.find_ancestor(exp.Cast)) for year in _years(select_list)}
    (month,) = months
    column = ctes.names.column(_MONTH)
    value = _rewritten(exp.Select(expressions=[month.copy()]), argument, ctes.target)
    query = select([*kept, ctes.named(value, _MONTH)], source)
    table = ctes.add(name, query, "month is counted from January 1970")
    by_month = select_list.transform(lambda node: column.copy() if node == month else node)
    return table, _rewritten(by_month, argument, ctes.target)


def _years(tree: exp.Expr) -> list[exp.Expr]:
    return [node for node in tree.find_all(exp.Anonymous) if node.name.upper() == "YEAR"]


def _parsed(sql: str) -> exp.Select:
    tree = _Plain().parse(f"SELECT {sql}")[0]
    assert isinstance(tree, exp.Select)
    return tree


def _rewritten(tree: exp.Expr, argument: exp.Expr, target: Target) -> exp.Expr:

    def rewrite(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Column() if node.name == ARGUMENT:
                return argument.copy()
            case exp.Cast(this=exp.Literal() as literal) if not literal.is_string:
                return literal
            case exp.TryCast():
                # the reader takes a CAST for one that never fails
                return exp.Cast(this=node.this, to=node.args["to"])
            case exp.Paren(this=inner) if operand(inner) == inner or isinstance(
                node.parent, exp.Anonymous
            ):
                return cast(exp.Expr, inner)
            case exp.Sub(this=value, expression=exp.Literal(this="0")):
                return cast(exp.Expr, value)
            case exp.Transform(this=values, expression=function):
                return target.transform(values, function) or node
            case exp.Anonymous():
                return _function(node, target)
        return node

    # arguments are rewritten before the functions that take them
    for node in reversed(list(tree.walk())):
        new = rewrite(node)
        if new is not node:
            node.replace(new)
    (item,) = tree.expressions
    assert isinstance(item, exp.Expr)
    return item.copy()


def _function(node: exp.Anonymous, target: Target) -> exp.Expr:
    args = node.expressions
    match node.name.upper():
        case "PMOD" if args[1].name == "1":
            return number(0)
        case "PMOD":
            return target.floor_mod(args[0], int(args[1].name))
        case "SEQUENCE":
            first, last, *step = args
            return target.series(first, last, step[0] if step else number(1))
        case "LEAST":
            return exp.Anonymous(this="LEAST", expressions=args)
        case "IF":
            return exp.Case(ifs=[exp.If(this=args[0], true=args[1])], default=args[2])
        case "ARRAY":
            return exp.Array(expressions=args)
        case name:
            function = target.month_function(name, args)
    if function is None:
        refuse_part(f"windows with {node.name} are not supported on {target.title}")
    return function
