"""Partials of the local stage as the Arrow scan computes them, or the reason why it cannot."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregate_plans import AggregatePlan, Partial
from planner.approximate_aggregates import hashed_value
from planner.arrow_expressions import to_arrow_expression
from planner.arrow_types import decimal_digits
from planner.catalog import Schema
from runtime.expressions import Call, Constant, Expression
from runtime.spec import Accumulator, ArrowPartial, Column

_MOST_DECIMAL_DIGITS = 38
_MOST_LONG_DIGITS = 18


def arrow_partials(
    plans: tuple[AggregatePlan, ...], schema: Schema, time_zone: str
) -> tuple[ArrowPartial, ...] | str:
    """The partials of all accumulators over the columns of `schema`, each once.

    Args:
        plans: the aggregates in two phases.
        schema: the columns of the scanned table.
        time_zone: the session's, for timestamps written as text.

    Returns:
        One description for each accumulator, in order, but only one for all that read the same
        set of values; or the reason why Catalyst has to do it.
    """
    found = []
    # What distinct accumulators read may be another plan's.
    by_column = {
        name: partial
        for plan in plans
        for partial in plan.partials
        for name in (partial.struct_fields or (partial.name,))
    }
    sets: set[str] = set()
    for plan in plans:
        for accumulator in plan.accumulators:
            name = accumulator.columns[0]
            if name in sets:
                continue
            built = _arrow_partial(plan, accumulator, by_column[name], schema, time_zone)
            if isinstance(built, str):
                return built
            if built.function in ("set", "registers"):
                sets.add(name)
            found.append(built)
    return tuple(found)


def _arrow_partial(
    plan: AggregatePlan,
    accumulator: Accumulator,
    partial: Partial,
    schema: Schema,
    time_zone: str,
) -> ArrowPartial | str:
    call, condition = partial.expr, None
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    if not isinstance(call, exp.Anonymous):
        return f"{plan.call.text} is not computed by the scan"
    function, args = call.name.upper(), list(call.expressions)
    if function == "COUNT_IF":
        condition = args[0] if condition is None else exp.and_(condition, args[0])
        function, args = "COUNT", []
    if accumulator.kind in ("first", "last"):
        args = [args[0].expressions[1], args[0].expressions[3]]
    if function == "COLLECT_SET" and args[0].name == "NAMED_STRUCT":
        args = args[0].expressions[1::2]
    if function == "COUNT":
        args = [arg for arg in args if not isinstance(arg, exp.Star | exp.Literal)]
    kind = "set" if accumulator.is_distinct else accumulator.kind
    if accumulator.kind == "approx_count_distinct":
        kind, args = "registers", [hashed_value(partial.expr)]
    if kind not in _TYPES:
        return f"{plan.call.text} is not computed by the scan"
    translated: list[Expression] = []
    for arg in args:
        expression = to_arrow_expression(arg, schema, time_zone)
        if isinstance(expression, str):
            return expression
        translated.append(expression)
    where: Expression | None = None
    if condition is not None:
        reached = to_arrow_expression(condition, schema, time_zone)
        if isinstance(reached, str):
            return reached
        where = reached
    if kind == "registers":
        if not _is_hashed(translated[0].type):
            return f"{plan.call.text} of {translated[0].type} is not computed by the scan"
        precision = Constant(int(accumulator.arguments[0]), "int")
        translated = [Call("register", (translated[0], precision), "int")]
    types = _TYPES[kind](translated)
    if types is None:
        return f"{plan.call.text} of this type is not computed by the scan"
    columns = tuple(
        Column(name, type_) for name, type_ in zip(accumulator.columns, types, strict=True)
    )
    return ArrowPartial(kind, tuple(translated), where, columns)


def _count(_: list[Expression]) -> tuple[str, ...]:
    return ("bigint",)


def _sum(args: list[Expression]) -> tuple[str, ...] | None:
    type_ = args[0].type
    if type_ in ("tinyint", "smallint", "int", "bigint"):
        return ("bigint",)
    if type_ in ("float", "double"):
        return ("double",)
    if not type_.startswith("decimal"):
        return None
    precision, scale = type_.removeprefix("decimal(").removesuffix(")").split(",")
    return (f"decimal({min(_MOST_DECIMAL_DIGITS, int(precision) + 10)},{int(scale)})",)


def _same(args: list[Expression]) -> tuple[str, ...]:
    return tuple(arg.type for arg in args)


def _moments(_: list[Expression]) -> tuple[str, ...]:
    return ("bigint", "double", "double")


def _set(args: list[Expression]) -> tuple[str, ...]:
    if len(args) == 1:
        return (f"array<{args[0].type}>",)
    fields = ",".join(f"v{position}:{arg.type}" for position, arg in enumerate(args))
    return (f"array<struct<{fields}>>",)


def _is_hashed(type_: str) -> bool:
    """Whether the scan hashes values as Spark does: decimals only where they fit 64 bits."""
    digits = decimal_digits(type_)
    return digits is None or digits[0] <= _MOST_LONG_DIGITS


_TYPES = {
    "count": _count,
    "sum": _sum,
    "min": _same,
    "max": _same,
    "bit_and": _same,
    "bit_or": _same,
    "bit_xor": _same,
    "moments": _moments,
    "first": _same,
    "last": _same,
    "set": _set,
    "registers": _set,
}
