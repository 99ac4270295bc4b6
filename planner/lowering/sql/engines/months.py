"""Functions of Spark SQL with which windows of months are computed, in terms of days and dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.lowering.sql.text import FIRST_DAY, binary


def days_and_months(
    name: str,
    args: Sequence[exp.Expr],
    add_months: Callable[[exp.Expr, exp.Expr], exp.Expr],
    part_of_date: Callable[[str, exp.Expr], exp.Expr],
) -> exp.Expr | None:
    """Return a function of Spark SQL on a target that adds days to dates, or None.

    Args:
        name: Name of the function.
        args: Arguments.
        add_months: Function that adds months to a date.
        part_of_date: Function that returns the YEAR or MONTH of a date.
    """
    match name:
        case "DATE_FROM_UNIX_DATE":
            return exp.Paren(this=binary(exp.Add, FIRST_DAY, args[0]))
        case "UNIX_DATE":
            return exp.Paren(this=binary(exp.Sub, args[0], FIRST_DAY))
        case "ADD_MONTHS":
            return add_months(args[0], args[1])
        case "YEAR" | "MONTH":
            return part_of_date(name, args[0])
    return None
