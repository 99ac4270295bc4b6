"""Partials of the local stage as the Arrow scan computes them, or the reason why it cannot."""

from __future__ import annotations

from planner.aggregates.partial_calls import PartialCall, partial_calls
from planner.aggregates.recipes import AggregatePlan
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.types import decimal_digits
from planner.catalog import Schema
from runtime.spec.expressions import Call, Constant, Expression
from runtime.spec.local import ArrowPartial
from runtime.spec.table import Column

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
    for call in partial_calls(plans):
        built = _arrow_partial(call, schema, time_zone)
        if isinstance(built, str):
            return built
        found.append(built)
    return tuple(found)


def _arrow_partial(call: PartialCall, schema: Schema, time_zone: str) -> ArrowPartial | str:
    kind = call.kind
    if kind not in _TYPES:
        return f"{call.text} is not computed by the scan"
    translated: list[Expression] = []
    for arg in call.args:
        expression = to_arrow_expression(arg, schema, time_zone)
        if isinstance(expression, str):
            return expression
        translated.append(expression)
    where: Expression | None = None
    if call.condition is not None:
        reached = to_arrow_expression(call.condition, schema, time_zone)
        if isinstance(reached, str):
            return reached
        where = reached
    if kind == "registers":
        if not _is_hashed(translated[0].type):
            return f"{call.text} of {translated[0].type} is not computed by the scan"
        precision = Constant(int(call.arguments[0]), "int")
        translated = [Call("register", (translated[0], precision), "int")]
    types = _TYPES[kind](translated)
    if types is None:
        return f"{call.text} of this type is not computed by the scan"
    columns = tuple(Column(name, type_) for name, type_ in zip(call.columns, types, strict=True))
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


def _rows(args: list[Expression]) -> tuple[str, ...]:
    return (f"array<struct<o:{args[0].type},v:string>>",)


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
    "rows": _rows,
    "registers": _set,
}
