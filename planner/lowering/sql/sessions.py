"""Sessions on a target, by window functions over pieces of sessions or over rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.relations import Ctes, over, rows_before, select
from planner.lowering.sql.text import binary, call, case, number
from runtime.windows.times import FIRST_TIME, LAST_TIME

_STARTS, SESSION = "$starts", "$session_number"


def number_sessions(
    ctes: Ctes,
    below: exp.Table,
    kept: Sequence[exp.Expr],
    partition: Sequence[exp.Expr],
    gap_us: int,
) -> exp.Table:
    """Add CTEs that number the sessions of each partition.

    Args:
        ctes: CTEs of the text.
        below: Relation with the columns FIRST_TIME and LAST_TIME.
        kept: Other columns to keep.
        partition: Columns of PARTITION BY.
        gap_us: Longest time without rows within a session.

    Returns:
        Relation with `kept`, FIRST_TIME, LAST_TIME and SESSION.
    """
    first, last = ctes.items(FIRST_TIME, LAST_TIME)
    reached = over(call("MAX", last), partition, [first], rows_before(None, 1))
    is_near = binary(exp.LTE, binary(exp.Sub, first, reached), gap_us)
    starts = ctes.named(case([(is_near, number(0))], number(1)), _STARTS)
    marked = ctes.add(
        "session_starts",
        select([*kept, first, last, starts], below),
        "starts is 1 where more than the gap has passed without a row",
    )
    # rows with equal times are peers, so they get one number
    total = over(call("SUM", ctes.names.column(_STARTS)), partition, [first])
    return ctes.add("sessions", select([*kept, first, last, ctes.named(total, SESSION)], marked))


def spans_of_sessions(
    ctes: Ctes, below: exp.Table, kept: Sequence[exp.Expr], partition: Sequence[exp.Expr]
) -> exp.Table:
    """Add a CTE that replaces FIRST_TIME and LAST_TIME by the times of the whole session."""
    session = ctes.names.column(SESSION)
    spans = [
        ctes.named(over(call(name, ctes.names.column(column)), [*partition, session]), column)
        for name, column in (("MIN", FIRST_TIME), ("MAX", LAST_TIME))
    ]
    return ctes.add("spans", select([*kept, session, *spans], below))
