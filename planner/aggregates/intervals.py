"""INTERVAL DAY TO SECOND as BIGINT microseconds, which every key and accumulator supports.

Spark stores such an interval as a 64-bit number of microseconds. sqlwin merges, exchanges and
stores that number and converts it back to an interval in the results.
"""

from __future__ import annotations

from sqlglot import exp

_MICROSECOND = "INTERVAL '0.000001' SECOND"
_WIDEST = "interval day to second"


def is_day_interval(type_: str) -> bool:
    """Return whether a Spark type is a day-time interval, as opposed to a year-month interval."""
    return type_.startswith("interval") and "month" not in type_ and "year" not in type_


def to_microseconds(value: exp.Expr) -> exp.Expr:
    """Convert an interval to BIGINT microseconds."""
    return exp.IntDiv(
        this=exp.Paren(this=value.unnest().copy()), expression=exp.Var(this=_MICROSECOND)
    )


def from_microseconds(value: exp.Expr, type_: str) -> exp.Expr:
    """Convert microseconds to an interval of the given type."""
    interval = exp.Mul(this=exp.Var(this=_MICROSECOND), expression=exp.Paren(this=value.copy()))
    if type_ == _WIDEST:
        return exp.Paren(this=interval)
    return exp.Var(this=f"CAST({interval.sql('spark')} AS {type_.upper()})")
