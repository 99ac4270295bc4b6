"""Translate scalar SQL into Arrow scan expressions, or refuse what Spark has to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.scalars import calls
from planner.scalars.clocks import clock_call
from planner.scalars.functions import FUNCTIONS
from planner.scalars.trees import COMPARISONS, call_of, constant_of, literal_of
from planner.scalars.types import VOID, cast_type, field_type
from planner.sql.build import is_flat_type, is_number_literal, to_sql
from planner.sql.json_functions.rewrite import json_steps
from planner.sql.nodes import FlinkCall, KeywordCall
from planner.sql.render import RAW
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression

_LONGEST_QUOTE = 60
# Limits expressions that are evaluated recursively for every batch. Constants do not count.
_MAX_PARTS = 1_000
_DEEPEST = 100
_TOO_LARGE = "the expression is too large for the scan"


@dataclass(frozen=True)
class _Scope:
    schema: Schema
    time_zone: str
    has_tables: bool


_Translator = Callable[[exp.Expr, _Scope], Expression]


def to_arrow_expression(
    expr: exp.Expr, schema: Schema, session_time_zone: str, *, has_tables: bool = True
) -> Expression:
    """Translate `expr`, with the types and implicit casts of Spark's ANSI mode.

    Args:
        expr: Tree from the parser `SqlWinQueries`, which reads functions as `exp.Anonymous`. Spark
            has analysed its query, so `expr` contains nothing that Spark rejects.
        schema: Columns that `expr` reads.
        session_time_zone: `spark.sql.session.timeZone`, for timestamps in text.
        has_tables: Whether the name before a point may be a table.

    Returns:
        The expression with Spark's type.

    Raises:
        Refused: The scan cannot evaluate it.

    Example:
        >>> from runtime.spec.table import Column
        >>> tree = exp.Not(this=exp.column("seen"))
        >>> to_arrow_expression(tree, (Column("seen", "boolean"),), "UTC")
        Call(function='not', args=(ColumnRef(name='seen', type='boolean'),), type='boolean')
    """
    try:
        result = _translate(expr, _Scope(schema, session_time_zone, has_tables))
    except RecursionError:
        refuse(_TOO_LARGE)
    if result.type == VOID:
        refuse("NULL without a type is not supported by the scan")
    return result if _is_small(result) else refuse(_TOO_LARGE)


def _is_small(expression: Expression) -> bool:
    pending, n_parts = [(expression, 1)], 0
    while pending:
        part, depth = pending.pop()
        n_parts += not isinstance(part, Constant)
        if n_parts > _MAX_PARTS or depth > _DEEPEST:
            return False
        if isinstance(part, Call):
            pending += [(arg, depth + 1) for arg in part.args]
    return True


def _translate(node: exp.Expr, scope: _Scope) -> Expression:
    constant = constant_of(node)
    if constant is not None:
        return constant
    translator = _TRANSLATORS.get(type(node), _call)
    result = translator(node, scope)
    if isinstance(result, Call) and not result.text and not isinstance(node, exp.Paren):
        return replace(result, text=_quote(node))
    return result


def _call(node: exp.Expr, scope: _Scope) -> Expression:
    """Translate a function or an operator of the table."""
    clock = clock_call(node)
    if clock is not None:
        return clock.call([_translate(time, scope) for time in clock.times], scope.time_zone)
    call = call_of(node)
    if call is None:
        _unsupported(node)
    name, parts = call
    if name not in FUNCTIONS or not FUNCTIONS[name].takes(len(parts)):
        refuse(f"{name} is not supported by the scan")
    if type(node) in COMPARISONS:
        _check_grouping(node)
    args = [_translate(part, scope) for part in parts]
    literals = [literal_of(part) for part in parts]
    return FUNCTIONS[name].call(name, args, literals, scope.time_zone, lambda: _quote(node))


def _unsupported(node: exp.Expr) -> NoReturn:
    if isinstance(node, KeywordCall | FlinkCall):
        name = node.name.upper()
    else:
        name = node.sql_name() if isinstance(node, exp.Func) else _quote(node)
    refuse(f"{name} is not supported by the scan")


def _quote(node: exp.Expr) -> str:
    if isinstance(node, FlinkCall):
        # Spark's SQL for it is long
        return f"{node.name}({', '.join(map(_quote, node.expressions))})"
    # Long chains lean to the left. Each operator adds at least two characters, so the text of the
    # lowest ones fills the part of a message that is shown.
    spine = [node]
    while isinstance(spine[-1], exp.Binary | exp.Paren):
        spine.append(spine[-1].this)
    n_shown = _LONGEST_QUOTE // 2 + 1
    above, below = spine[:-n_shown], spine[-n_shown:]
    opened = "(" * sum(isinstance(part, exp.Paren) for part in above)
    text = " ".join((opened + to_sql(below[0])).split())
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


# -- columns -------------------------------------------------------------------------------------


def _column(node: exp.Expr, scope: _Scope) -> Expression:
    assert isinstance(node, exp.Column)
    if len(node.parts) > 1:
        return _field(node, scope)
    lower_name = node.name.lower()
    column = column_named(scope.schema, lower_name)
    if column is None or sum(c.name.lower() == lower_name for c in scope.schema) > 1:
        refuse(f"{_quote(node)} is not a column of the scan")
    if not is_flat_type(column.type):
        refuse(f"{column.name} is {shown_type(column.type)}, which is not supported by the scan")
    if "." in column.name:
        refuse(f"{_quote(node)} has a dot in its name, like a struct field")
    return ColumnRef(column.name, column.type)


def _field(node: exp.Column, scope: _Scope) -> Expression:
    """Translate `column.field` of a struct."""
    names = [part.name for part in node.parts]
    column = column_named(scope.schema, names[0])
    field = None if column is None else field_type(column.type, names[-1])
    # The name before the point is a table, if one of that name exists.
    may_be_table = scope.has_tables and column_named(scope.schema, names[1]) is not None
    if column is None or field is None or len(names) > 2 or may_be_table:
        refuse(f"{_quote(node)} may be a struct field")
    name, type_ = field
    if not is_flat_type(type_):
        refuse(f"{_quote(node)} is {shown_type(type_)}, which is not supported by the scan")
    return ColumnRef(f"{column.name}.{name}", type_)


# -- casts and signs -----------------------------------------------------------------------------


def _cast(node: exp.Expr, scope: _Scope) -> Expression:
    target = cast_type(node.args.get("to"))
    if target is None or any(node.args.get(key) for key in ("format", "safe", "action")):
        refuse(f"{_quote(node)} is not supported by the scan")
    if target == "float" and is_number_literal(node.this) and not str(node.this.this).isdecimal():
        # `0.1F` is rounded once, CAST(0.1D AS FLOAT) twice. sqlglot parses both to the same tree.
        refuse(f"{_quote(node)} is not supported by the scan")
    return calls.cast(_translate(node.this, scope), target, scope.time_zone)


def _negation(node: exp.Expr, scope: _Scope) -> Expression:
    operand = node.this
    if is_number_literal(operand):
        _unsupported(node)
    if isinstance(operand, exp.Cast) and is_number_literal(operand.this):
        if operand.meta.get(RAW) is not None:
            signed = operand.copy()
            signed.set("this", exp.Literal(this=f"-{operand.this.this}", is_string=False))
            return _cast(signed, scope)
        if not isinstance(_cast(operand, scope), Constant):
            # -128::TINYINT casts -128, while -CAST(128 AS TINYINT) casts 128. Both parse to the
            # same tree.
            refuse(f"{_quote(node)} is not supported by the scan")
    return _call(node, scope)


def _check_grouping(node: exp.Expr) -> None:
    """Reject expressions such as `a = b IN (c)`, which Spark and sqlglot group differently.

    In Spark all comparisons have one precedence, associate to the left and bind more tightly than
    IS, IN, BETWEEN and LIKE.
    """
    left, right = node.this, node.expression
    is_chain = type(left) in COMPARISONS
    if isinstance(right, exp.Predicate | exp.Not) or (
        isinstance(left, exp.Predicate | exp.Not) and not is_chain
    ):
        refuse(f"{_quote(node)} without parentheses is not supported by the scan")


def _flink_call(node: exp.Expr, scope: _Scope) -> Expression:
    assert isinstance(node, FlinkCall)
    text, *others = (_translate(arg, scope) for arg in node.expressions)
    if text.type != "string" or not all(isinstance(other, Constant) for other in others):
        refuse(f"{node.name} with arguments that are not literals is not supported by the scan")
    if node.name == "SPLIT_INDEX":
        return Call("split_index", (text, *others), "string")
    steps = json_steps(node.expressions[1].name)
    if node.name == "JSON_QUERY" or node.returns == "float" or not steps:
        refuse(f"{node.name} is not supported by the scan")
    members = tuple(Constant(step, "string" if isinstance(step, str) else "int") for step in steps)
    return Call(node.name.lower(), (text, *members), node.returns)


_TRANSLATORS: dict[type[exp.Expr], _Translator] = {
    exp.Cast: _cast,
    exp.Column: _column,
    FlinkCall: _flink_call,
    exp.Neg: _negation,
    exp.Paren: lambda node, scope: _translate(node.this, scope),
}
