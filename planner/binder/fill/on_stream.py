"""Gap filling on streams: the parts that need later rows or have no bound in time."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.sql.nodes import span_of
from planner.streams.refusals import BATCH, StreamRefusal
from runtime.windows import Window


def check_stream_fill(
    name: str,
    fillers: Iterable[exp.Expr],
    keys: exp.Expr | None,
    window: Window,
    place: exp.Expr,
    sql: str,
) -> None:
    """Refuse gap filling of a stream if it has LINEAR or KEYS, or ends at uneven distances.

    Args:
        name: FILL or GAP_FILL.
        fillers: Items of FILL.
        keys: The query of KEYS.
        window: Windows.
        place: Clause or call, for error positions.
        sql: Text of the statement.

    Raises:
        StreamRefusal: It is not supported.
    """

    def refuse(reason: str, way_out: str, at: exp.Expr) -> StreamRefusal:
        return StreamRefusal(reason, f"{way_out}; {BATCH}", span_of(at)).place_in(sql)

    for item in fillers:
        for filler in item.find_all(exp.Var):
            if filler.name == "LINEAR":
                raise refuse(
                    "LINEAR needs the next value, which a stream does not have yet",
                    "use LOCF, NULL or a constant",
                    filler,
                )
    if keys is not None:
        raise refuse(
            f"KEYS of {name} is not supported on a stream, which forgets keys without rows after "
            "'sqlwin.fill.keep'",
            "remove KEYS",
            keys,
        )
    if window.has_slices and window.is_calendar and window.stride.us:
        raise refuse(
            f"{name} on a stream does not support CUMULATE of months by days",
            "use steps of months",
            place,
        )
