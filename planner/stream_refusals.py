"""What a query cannot do on a stream, said before it starts: the reason, and the way out."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.aggregate_calls import aggregates_in
from planner.logical import Node
from planner.physical import OnePhaseWindowAggregate
from planner.sql import to_sql
from planner.streams import NOT_KEPT
from runtime.errors import AnalysisError

# The way out that is left to every query.
BATCH = "or read it as a batch: SET 'execution.runtime-mode' = 'batch'"


def refused_node(node: Node, reasons: tuple[str, ...]) -> AnalysisError | None:
    """The error for a node that has no streaming form; None for one that has.

    Args:
        node: a physical node over a stream.
        reasons: why the optimizer did not turn window aggregates into two phases.
    """
    match node:
        case OnePhaseWindowAggregate():
            why = "; ".join(reasons) or "it cannot be merged from slices"
            return AnalysisError(
                f"this window aggregation cannot run on a stream: {why}",
                hint="use aggregates that merge, such as COUNT, SUM, AVG, MIN, MAX; " + BATCH,
            )
    return None


def rows_not_kept(reasons: tuple[str, ...], otherwise: str, way_out: str) -> AnalysisError:
    """The error for rows of windows that were not kept until their windows close.

    Args:
        reasons: what rules had against what they are for.
        otherwise: what to say if that was not it.
        way_out: the hint that goes with it.
    """
    for reason in reasons:
        if reason.startswith(NOT_KEPT):
            leave_out = "name the columns that are needed, or parts of them, before the window"
            return AnalysisError(reason, hint=f"{leave_out}; {BATCH}")
    return AnalysisError(otherwise, hint=f"{way_out}; {BATCH}")


def refuse_stateful(
    query: exp.Query, is_stream: Callable[[exp.Table], bool], notes: tuple[str, ...] = ()
) -> None:
    """Let a text pass if Spark can compute it micro-batch by micro-batch.

    Args:
        query: Spark SQL.
        is_stream: whether a table in it stands for rows of a stream.
        notes: why what is about windows was left in the text.

    Raises:
        AnalysisError: it needs rows of more than one micro-batch.
    """
    for select in query.find_all(exp.Select, exp.SetOperation):
        # what reads tables at rest alone may do anything
        if not any(is_stream(table) for table in select.find_all(exp.Table)):
            continue
        _refuse_clauses(select)
        if isinstance(select, exp.Select):
            _refuse_select(select, is_stream, notes)
        elif not isinstance(select, exp.Union) or select.args.get("distinct"):
            raise _refusal(
                f"{type(select).__name__.upper()} of streams compares all rows of both sides",
                "UNION ALL takes the rows of both as they come",
            )


def _refuse_clauses(query: exp.Expr) -> None:
    for key in ("order", "sort", "cluster", "distribute"):
        if query.args.get(key) is not None:
            raise _refusal(
                f"`{to_sql(query.args[key]).strip()}` needs all rows before the first comes out, "
                "and a stream has no last row",
                "leave it out: windows come in the order of their ends",
            )
    if query.args.get("limit") is not None or query.args.get("offset") is not None:
        raise _refusal(
            "LIMIT and OFFSET count rows that come in no order on a stream",
            "leave them out",
        )


def _refuse_select(
    select: exp.Select, is_stream: Callable[[exp.Table], bool], notes: tuple[str, ...]
) -> None:
    # what was missing says more than what would do
    missing = "; ".join(note.partition(": Spark")[0] for note in notes)
    if select.args.get("distinct") is not None:
        raise _refusal(
            "SELECT DISTINCT compares every row of a stream with all before it",
            "deduplicate inside a window: GROUP BY the columns, window_start, window_end",
        )
    clauses = [*select.expressions, select.args.get("having")]
    if select.args.get("group") or any(aggregates_in(c) for c in clauses if c is not None):
        raise _refusal(
            "an aggregation over a stream without a window function never ends",
            "aggregate over TABLE(TUMBLE(...)), HOP or CUMULATE, grouped by window_start and "
            "window_end",
        )
    if select.args.get("qualify") or any(select.find_all(exp.Window)):
        raise _refusal(
            "OVER functions on a stream need all rows of their partition",
            missing or "aggregate in windows instead",
        )
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    sides = [source.this if source is not None else None, *(join.this for join in joins)]
    streams = [side for side in sides if side is not None and _reads_stream(side, is_stream)]
    if len(streams) > 1:
        raise _refusal(
            "a join of two streams would keep all rows of both for ever",
            missing
            or "join rows of windows, ON equal window_start and window_end of both sides; "
            "or join a stream with a table at rest",
        )
    for clause in ("where", "having"):
        part = select.args.get(clause)
        nested = [] if part is None else list(part.find_all(exp.Query))
        if any(_reads_stream(each, is_stream) for each in nested):
            raise _refusal(
                "a subquery over a stream in WHERE would never be complete",
                "read a table at rest there",
            )


def _reads_stream(part: exp.Expr, is_stream: Callable[[exp.Table], bool]) -> bool:
    return any(is_stream(table) for table in part.find_all(exp.Table))


def _refusal(message: str, way_out: str) -> AnalysisError:
    return AnalysisError(message, hint=f"{way_out}; {BATCH}")
