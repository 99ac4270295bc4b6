"""Arithmetic of slices and windows on a target.

Window kinds give it as Spark SQL over BIGINT microseconds; see `runtime.windows.assigner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import number, operand

# Stands for the argument
ARGUMENT = "t"


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
    tree = _Plain().parse(f"SELECT {sql}")[0]
    assert isinstance(tree, exp.Select)

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
