"""Sketches: APPROX_COUNT_DISTINCT and APPROX_PERCENTILE.

APPROX_COUNT_DISTINCT keeps the registers of Spark's own sketch for each slice. One integer encodes
a register and its rank, and Catalyst collects the set of these integers. APPROX_PERCENTILE collects
the values of a slice; long lists are thinned out before the exchange.
"""

from __future__ import annotations

import math

from sqlglot import exp

from planner.aggregates.recipes import call_of, with_filter
from planner.nodes.aggregate_plans import AggregatePlan, Partial
from planner.nodes.logical import AggregateCall
from planner.sql.build import (
    cast_as,
    column,
    conjunction,
    function_call,
    is_flat_type,
    is_not_null,
    is_number_literal,
    literal,
)
from runtime.refusal import refuse
from runtime.spec.aggregates import ApproxCountDistinct, ApproxPercentile
from runtime.spec.table import Column

# Spark's default relative standard deviation, overridden by the second argument
_DEVIATION = 0.05
_PRECISIONS = range(4, 19)
_RANK_BITS = 6
# Spark's default accuracy, overridden by the third argument. The relative rank error is 1 /
# accuracy.
_ACCURACY = 10_000
_RANKED = frozenset("tinyint smallint int bigint float double date timestamp timestamp_ntz".split())

# Spark's hash of the argument. It distinguishes partials with registers from other sets.
HASH = "XXHASH64"


def approx_count_distinct(call: AggregateCall) -> AggregatePlan:
    """Plan APPROX_COUNT_DISTINCT(x [, deviation]) with Spark's HyperLogLog++ registers."""
    if not call.arg_types or not is_flat_type(call.arg_types[0]):
        refuse(f"{call.text} cannot be merged from partials")
    precision = _precision(call)
    if precision is None:
        refuse(f"{call.text} can only be merged with a deviation from 0.0022 to 0.39")
    value = call.args[0]
    present = is_not_null(exp.Paren(this=value.copy()))
    condition = conjunction([present, call.condition])
    registers = function_call("COLLECT_SET", register_of(value, precision))
    partial = Partial(f"{call.name}$registers", with_filter(registers, condition))
    count = ApproxCountDistinct((partial.name,), Column(f"{call.name}$count", "bigint"), precision)
    return AggregatePlan(call, (partial,), (count,), column(f"{call.name}$count"))


def approx_percentile(call: AggregateCall) -> AggregatePlan:
    """Plan APPROX_PERCENTILE(x, percentage or array [, accuracy]) from the values of slices."""
    # The result is one of the values and therefore has their type.
    type_ = call.type.removeprefix("array<").removesuffix(">")
    if len(call.args) not in (2, 3) or not _has_percentile(type_):
        refuse(f"{call.text} cannot be merged from partials")
    percentages = _percentages(call.args[1])
    accuracy = _ACCURACY if len(call.args) == 2 else number(call.args[2])
    if not percentages or accuracy is None or accuracy < 1 or accuracy != int(accuracy):
        refuse(
            f"{call.text} can only be merged with constant percentages from 0 to 1 and a "
            "positive constant accuracy"
        )
    partial = Partial(f"{call.name}$values", call_of("COLLECT_LIST", call, call.args[0]))
    output = Column(f"{call.name}$percentile", call.type)
    percentile = ApproxPercentile((partial.name,), output, int(accuracy), percentages)
    return AggregatePlan(call, (partial,), (percentile,), column(f"{call.name}$percentile"))


def _has_percentile(type_: str) -> bool:
    return type_.startswith("decimal") or type_ in _RANKED


def _percentages(argument: exp.Expr) -> tuple[float, ...]:
    """Return the percentages of a call, or () unless all are literals from 0 to 1."""
    is_array = isinstance(argument, exp.Array) or (
        isinstance(argument, exp.Anonymous) and argument.name.upper() == "ARRAY"
    )
    numbers = [number(item) for item in (argument.expressions if is_array else [argument])]
    percentages = tuple(number for number in numbers if number is not None and 0 <= number <= 1)
    return percentages if len(percentages) == len(numbers) else ()


def number(argument: exp.Expr) -> float | None:
    """Return the value of a number literal, or None."""
    return float(argument.name) if is_number_literal(argument) else None


def hashed_value(partial: exp.Expr) -> exp.Expr:
    """Return the argument of APPROX_COUNT_DISTINCT from its partial."""
    hashes = (node for node in partial.find_all(exp.Anonymous) if node.name.upper() == HASH)
    argument: exp.Expr = next(hashes).expressions[0]
    return argument


def _precision(call: AggregateCall) -> int | None:
    """Return the number of hash bits that select a register, or None if it cannot be determined."""
    deviation = number(call.args[1]) if len(call.args) > 1 else _DEVIATION
    if deviation is None or deviation <= 0:
        return None
    precision = math.ceil(2.0 * math.log(1.106 / deviation) / math.log(2.0))
    return precision if precision in _PRECISIONS else None


def register_of(value: exp.Expr, precision: int) -> exp.Expr:
    """Return the INT `register << 6 | rank`.

    The rank is the position of the first 1 after the register bits.
    """
    hashed = function_call(HASH, value)
    register = function_call("SHIFTRIGHTUNSIGNED", hashed, literal(64 - precision))
    rest = exp.BitwiseOr(
        this=function_call("SHIFTLEFT", hashed, literal(precision)),
        expression=literal(1 << (precision - 1)),
    )
    rank = exp.Sub(this=literal(65), expression=function_call("LENGTH", function_call("BIN", rest)))
    code = exp.Add(this=function_call("SHIFTLEFT", register, literal(_RANK_BITS)), expression=rank)
    return cast_as(exp.Paren(this=code), "int")
