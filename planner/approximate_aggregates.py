"""Aggregates whose results are estimates: APPROX_COUNT_DISTINCT.

The registers of Spark's own sketch are kept by slice. A register and its rank are one number, and
what Catalyst collects of a slice is a set of such numbers.
"""

from __future__ import annotations

import math

from sqlglot import exp

from planner.aggregate_plans import AggregatePlan, NotMergeable, Partial, filtered
from planner.logical import AggregateCall
from planner.sql import column, conjunction, is_flat_type, literal
from runtime.spec import Accumulator, Column

# The relative standard deviation that Spark aims at unless the second argument says another
_DEVIATION = 0.05
_PRECISIONS = range(4, 19)
_RANK_BITS = 6

# Spark's hash of the argument, by which partials of registers are told from other sets
HASH = "XXHASH64"


def approx_count_distinct(call: AggregateCall) -> AggregatePlan | NotMergeable:
    """APPROX_COUNT_DISTINCT(x [, deviation]): Spark's HyperLogLog++ registers, slice by slice."""
    if not call.arg_types or not is_flat_type(call.arg_types[0]):
        return NotMergeable(f"{call.text} has no accumulator")
    precision = _precision(call)
    if precision is None:
        return NotMergeable(
            f"{call.text}: the deviation must be a number from 0.0022 to 0.39 to be merged"
        )
    value = call.args[0]
    present = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))
    condition = conjunction([present, *([call.condition] if call.condition is not None else [])])
    registers = _function("COLLECT_SET", _register_code(value, precision))
    partial = Partial(f"{call.name}$registers", filtered(registers, condition))
    count = Accumulator(
        "approx_count_distinct",
        (partial.name,),
        Column(f"{call.name}$count", "bigint"),
        (float(precision),),
    )
    return AggregatePlan(call, (partial,), (count,), column(f"{call.name}$count"))


def hashed_value(partial: exp.Expr) -> exp.Expr:
    """The argument of APPROX_COUNT_DISTINCT in its partial."""
    hashes = (node for node in partial.find_all(exp.Anonymous) if node.name.upper() == HASH)
    argument: exp.Expr = next(hashes).expressions[0]
    return argument


def _precision(call: AggregateCall) -> int | None:
    """With how many bits of the hash Spark picks a register; None where that cannot be known."""
    deviation = _DEVIATION
    if len(call.args) > 1:
        number = call.args[1]
        if not isinstance(number, exp.Literal) or number.is_string:
            return None
        deviation = float(number.name)
    if deviation <= 0:
        return None
    precision = math.ceil(2.0 * math.log(1.106 / deviation) / math.log(2.0))
    return precision if precision in _PRECISIONS else None


def _register_code(value: exp.Expr, precision: int) -> exp.Expr:
    """`register << 6 | rank`, INT: rank is the place of the first one bit behind the register's."""
    hashed = _function(HASH, value)
    register = _function("SHIFTRIGHTUNSIGNED", hashed, literal(64 - precision))
    rest = exp.BitwiseOr(
        this=_function("SHIFTLEFT", hashed, literal(precision)),
        expression=literal(1 << (precision - 1)),
    )
    rank = exp.Sub(this=literal(65), expression=_function("LENGTH", _function("BIN", rest)))
    code = exp.Add(this=_function("SHIFTLEFT", register, literal(_RANK_BITS)), expression=rank)
    return exp.Cast(this=exp.Paren(this=code), to=exp.DataType.build("int"))


def _function(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])
