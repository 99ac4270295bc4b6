"""INTERVAL DAY TO SECOND as whole microseconds, which every key and accumulator can be.

Spark holds such an interval as a 64-bit number of microseconds. As that number it merges, travels
and is kept in state like any BIGINT; the interval is made again where results are computed.
"""

from __future__ import annotations

from sqlglot import exp

_MICROSECOND = "INTERVAL '0.000001' SECOND"
_WIDEST = "interval day to second"


def is_day_interval(type_: str) -> bool:
    """Whether a Spark type is an interval of days and smaller units, not of months."""
    return type_.startswith("interval") and "month" not in type_ and "year" not in type_


def in_microseconds(value: exp.Expr) -> exp.Expr:
    """BIGINT microseconds of an interval."""
    return exp.IntDiv(
        this=exp.Paren(this=value.unnest().copy()), expression=exp.Var(this=_MICROSECOND)
    )


def from_microseconds(value: exp.Expr, type_: str) -> exp.Expr:
    """The interval of this type from its microseconds."""
    interval = exp.Mul(this=exp.Var(this=_MICROSECOND), expression=exp.Paren(this=value.copy()))
    if type_ == _WIDEST:
        return exp.Paren(this=interval)
    return exp.Var(this=f"CAST({interval.sql('spark')} AS {type_.upper()})")
