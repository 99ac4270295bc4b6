"""Errors for queries that streams do not support: what, where, and the alternative."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.aggregates.functions import plan_aggregate
from planner.catalog import Schema
from planner.nodes.logical import (
    AggregateCall,
    ChangelogTable,
    GapFill,
    NamedExpr,
    Node,
    VersionJoin,
)
from planner.nodes.physical import OnePhaseWindowAggregate, StreamGapFill
from planner.sql.build import is_flat_type, to_sql
from planner.sql.nodes import CHANGELOG, TextSpan, span_of
from planner.sql.places import Lead, lead, with_lead
from runtime.errors import AnalysisError, ErrorKind, Position
from runtime.refusal import Refusal, Refused

# Alternative that every query has.
BATCH = "or run it as a batch: SET 'execution.runtime-mode' = 'batch'"
# How to turn off the settings that emit windows more than once.
NO_UPDATES = "RESET 'table.exec.emit.allow-lateness' and the 'table.exec.emit.early-fire' settings"
_MERGEABLE = f"use aggregates that can be merged, such as COUNT, SUM, AVG, MIN, MAX; {BATCH}"
_FLAT = f"use parts of it that are numbers, strings or times; {BATCH}"
# Words before the right side of a set operation, and before joined or grouped expressions
SET_OPERATION = lead("UNION EXCEPT INTERSECT MINUS ALL DISTINCT", "SELECT", is_alone=True)
JOIN = lead("LEFT RIGHT FULL INNER OUTER CROSS JOIN", "VALUES SELECT TABLE")
GROUP_BY = lead("GROUP BY")

# Returns whether a part of a query reads a stream
_ReadsStream = Callable[[exp.Expr], bool]


class StreamRefusal(AnalysisError):
    """Streams do not support a part of a query.

    Args:
        message: Unsupported feature and the reason.
        hint: The alternative.
        span: Position of the part in the text. None if unknown.
        after: Words before the span that belong to it, such as ORDER BY.
        subjects: Names in the message, as in every error.
    """

    default_kind = ErrorKind.STREAM

    def __init__(
        self,
        message: str,
        hint: str,
        span: TextSpan | None,
        after: Lead | None = None,
        *,
        subjects: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, subjects=subjects)
        self.span = span
        self._after = after

    def place_in(self, sql: str) -> StreamRefusal:
        """Return the same error with its position in the text that the spans refer to."""
        if self.span is None:
            return self
        span = with_lead(sql, self.span, self._after)
        self.position = Position.at(sql, span.start, span.end - span.start + 1)
        self.sql = sql
        return self


def refuse_one_phase(node: Node) -> None:
    """Refuse a physical node over a stream whose windows are not cut into slices.

    Raises:
        StreamRefusal: The node is such a window aggregate.
    """
    if isinstance(node, GapFill):
        raise StreamRefusal(
            "gap filling is not supported on this stream",
            f"fill columns of simple types, and RESET 'sqlwin.optimizer.disabled-rules'; {BATCH}",
            node.place,
        )
    if isinstance(node, VersionJoin):
        raise StreamRefusal(
            "a temporal join with the versions of a stream is not supported here",
            "RESET 'sqlwin.optimizer.disabled-rules', without early firing and allowed lateness",
            node.place,
        )
    if isinstance(node, OnePhaseWindowAggregate):
        check_keys(node.keys, node.schema)
        check_calls(node.calls)
        raise StreamRefusal(
            "this window aggregation is not supported on streams, because its windows "
            "are not computed from slices",
            f"RESET 'sqlwin.optimizer.disabled-rules'; {BATCH}",
            node.place,
        )


def refuse_late_windows(node: Node, use: str) -> None:
    """Refuse to process whole windows if gap filling adds windows before the first row of a key.

    Args:
        node: Node whose rows are processed.
        use: What the windows cannot be, such as "aggregated".

    Raises:
        StreamRefusal: The node's input has a gap filling with FROM.
    """
    for below in node.walk_up():
        if isinstance(below, StreamGapFill):
            if below.filling.from_us is None:
                continue
            raise StreamRefusal(
                f"with FROM, filled windows of a stream cannot be {use}: the first row of a key "
                "adds windows that the watermark passed before",
                f"remove FROM; {BATCH}",
                below.place,
            )


def refuse_changes(plan: Node) -> None:
    """Refuse a plan in which anything other than windows, groups and ranks reads changes.

    Raises:
        StreamRefusal: There is such a part.
    """
    for node in plan.find_all(ChangelogTable):
        if node.keys:
            keys = ", ".join(f"`{key}`" for key in node.keys)
            raise StreamRefusal(
                "on a stream, a query over a table of changes must select its PRIMARY KEY, "
                f"{keys}, from this table alone",
                "select these columns as they are, or use a window function, GROUP BY or "
                f"ROW_NUMBER(); {BATCH}",
                node.place,
            )
        raise StreamRefusal(
            f"on a stream, {CHANGELOG} must be read by a window function, which emits the "
            "rows that remain when a window closes, by GROUP BY, or by a rank that a condition "
            "limits",
            f"use TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), ...)) with a view v of {CHANGELOG}, "
            "GROUP BY or ROW_NUMBER() over it; or declare the PRIMARY KEY of a table of changes; "
            f"{BATCH}",
            node.place,
        )


def check_calls(calls: tuple[AggregateCall, ...]) -> None:
    """Refuse aggregates that cannot be merged from partials.

    Raises:
        StreamRefusal: A call cannot be merged.
    """
    for call in calls:
        try:
            plan_aggregate(call)
        except Refused as reason:
            raise StreamRefusal(
                f"this aggregation is not supported on streams: {reason}",
                _MERGEABLE,
                span_of(call.expr),
            ) from reason


def check_keys(keys: tuple[NamedExpr, ...], schema: Schema) -> None:
    """Refuse group keys of nested types, which state does not support.

    Raises:
        StreamRefusal: A key has a nested type.
    """
    for key in keys:
        check_flat(key.name, schema, "GROUP BY", span_of(key.expr))


def check_flat(name: str, schema: Schema, clause: str, place: TextSpan | None) -> None:
    """Refuse a column of a nested type in grouping, ordering or comparison.

    Raises:
        StreamRefusal: The column has a nested type.
    """
    type_ = next((c.type for c in schema if c.name.lower() == name.lower()), None)
    if type_ is not None and not is_flat_type(type_):
        raise StreamRefusal(
            f"column `{name}` of type {type_} is not supported in {clause} on streams",
            _FLAT,
            place,
            subjects=(name,),
        )


def refuse_stateful(
    query: exp.Query, is_stream: Callable[[exp.Table], bool], notes: tuple[Refusal, ...] = ()
) -> None:
    """Check that Spark can compute a query one micro-batch at a time.

    Args:
        query: Spark SQL.
        is_stream: Whether a table in it holds rows of a stream.
        notes: Reasons why window blocks were left in the query.

    Raises:
        StreamRefusal: The query needs rows of more than one micro-batch.
    """
    reads_stream = _reading_streams(query, is_stream)
    for select in query.find_all(exp.Select, exp.SetOperation):
        # Parts that only read bounded tables are unrestricted.
        if not reads_stream(select):
            continue
        _refuse_clauses(select)
        if isinstance(select, exp.Select):
            _refuse_select(select, reads_stream, notes)
        elif not isinstance(select, exp.Union) or select.args.get("distinct"):
            raise _refusal(
                f"{type(select).__name__.upper()} of streams would compare all rows of both sides",
                "use UNION ALL, which keeps all rows",
                select.expression,
                SET_OPERATION,
            )


def refuse_subquery(
    query: exp.Query, is_stream: Callable[[exp.Table], bool]
) -> StreamRefusal | None:
    """Return the error for a subquery over a stream in a condition, or None.

    Args:
        query: The query as written.
        is_stream: Whether a table in it is a stream.
    """
    reads_stream = _reading_streams(query, is_stream)
    refusals = (_refuse_subquery(select, reads_stream) for select in query.find_all(exp.Select))
    return next((refusal for refusal in refusals if refusal is not None), None)


def _refuse_subquery(select: exp.Select, reads_stream: _ReadsStream) -> StreamRefusal | None:
    parts = [(key.upper(), select.args.get(key)) for key in ("where", "having")]
    parts += [("the select list", item) for item in select.expressions]
    join_items = (join.this for join in select.args.get("joins") or [])
    parts += [("LATERAL", lateral) for lateral in join_items if isinstance(lateral, exp.Lateral)]
    for where, part in parts:
        for nested in () if part is None else part.find_all(exp.Query):
            if reads_stream(nested):
                return _refusal(
                    f"a subquery over a stream in {where} never completes",
                    "use a bounded table in the subquery",
                    nested,
                    lead("SELECT"),
                )
    return None


def current_watermark_in(query: exp.Query) -> exp.Expr | None:
    """Return the first call of CURRENT_WATERMARK in a query."""
    calls = query.find_all(exp.Anonymous)
    return next((call for call in calls if call.name.upper() == "CURRENT_WATERMARK"), None)


def _refuse_clauses(query: exp.Expr) -> None:
    for key in ("order", "sort", "cluster", "distribute"):
        clause = query.args.get(key)
        if clause is not None:
            words = f"{key.upper()} BY"
            raise _refusal(
                f"{words} requires all rows, but a stream never ends",
                ("order the final result of windows, by window_end first: ORDER BY window_end, ...")
                if key == "order"
                else "remove it: windows are emitted in the order of their ends",
                clause,
                lead(words),
            )
    for key in ("limit", "offset"):
        clause = query.args.get(key)
        if clause is not None:
            raise _refusal(
                f"{key.upper()} is not supported here on a stream, whose rows have no order",
                (
                    "move it to the end of a SELECT that is not a subquery or INSERT: the "
                    "stream then stops after that number of rows; or remove it"
                )
                if key == "limit"
                else "remove it",
                clause,
                lead(f"{key.upper()} FETCH FIRST NEXT"),
            )


def _refuse_select(
    select: exp.Select, reads_stream: _ReadsStream, notes: tuple[Refusal, ...]
) -> None:
    # The reason why a rule did not apply comes before the alternative.
    missing = "".join(f"{note.reason}: " for note in dict.fromkeys(notes))
    if select.args.get("distinct") is not None:
        raise _refusal(
            f"{missing}this SELECT DISTINCT is not supported on streams",
            "select columns by their names, without ORDER BY, from one table or subquery",
            select.expressions[0],
            lead("DISTINCT", is_alone=True),
        )
    clauses = [*select.expressions, select.args.get("having")]
    calls = [call for clause in clauses if clause is not None for call in aggregates_in(clause)]
    group = select.args.get("group")
    if group or calls:
        raise _refusal(
            f"{missing}this aggregation without a window is not supported on streams",
            "group named columns of one table or subquery, or of a join with GROUP BY",
            group or calls[0],
            GROUP_BY if group else None,
        )
    # OVER in a subquery over a stream is found there; a subquery over a bounded table may have it
    nodes = select.walk(prune=lambda node: isinstance(node, exp.Select) and node is not select)
    over = next((node for node in nodes if isinstance(node, exp.Window)), None)
    if select.args.get("qualify") or over is not None:
        raise _refusal(
            "OVER functions require all rows of their partition, but a stream never ends",
            f"{missing}rank with PARTITION BY window_start, window_end and a condition such as <= 3"
            if missing
            else _alternative_to_over(over),
            over or select.args["qualify"],
        )
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    sides = [source.this if source is not None else None, *(join.this for join in joins)]
    streams = [side for side in sides if side is not None and reads_stream(side)]
    if len(streams) > 1:
        conditions = [*(join.args.get("on") for join in joins), select.args.get("where")]
        if not missing and any(
            condition and condition.find(exp.Interval) for condition in conditions
        ):
            raise _refusal(
                "a join of two streams needs bounds for the distance of their times",
                "for example a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts, with the columns "
                "of the watermarks and constants in days or smaller units",
                (streams[1].parent.args.get("on") if streams[1].parent else None) or streams[1],
            )
        raise _refusal(
            "a join of two streams would store all rows of both forever",
            (f"{missing}join rows of the same window, ON window_start and window_end of both sides")
            + ("" if missing else "; or join the stream with a bounded table"),
            # In a join of windows, the join condition is the part to correct.
            (streams[1].parent.args.get("on") if missing and streams[1].parent else None)
            or streams[1],
        )
    refused = _refuse_subquery(select, reads_stream)
    if refused is not None:
        raise refused


def _alternative_to_over(over: exp.Window | None) -> str:
    """Return the windowed alternative to a function with OVER."""
    function = "" if over is None else over.this.name.upper()
    if over is None or function in ("LAG", "LEAD", "NTILE"):
        return (
            "use Session.windows, which passes the rows of a key in time order to a Python function"
        )
    if function in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
        keys = ", ".join(to_sql(key) for key in over.args.get("partition_by") or [])
        rows = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
        by = f"window_start, window_end{', ' if keys else ''}{keys}"
        return (
            f"filter the rank in a query around it, with a condition such as = 1, or rank within "
            f"windows: {rows}, PARTITION BY {by}"
        )
    start = (over.args.get("spec") or exp.WindowSpec()).args.get("start")
    if isinstance(start, exp.Interval):
        hop = f"HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, {to_sql(start)})"
        return f"use windows of that length, emitted each minute: {hop}"
    return "aggregate in windows: CUMULATE for running totals, HOP for the last hour"


def _reading_streams(query: exp.Query, is_stream: Callable[[exp.Table], bool]) -> _ReadsStream:
    """Return a function that tests whether a part of the query mentions a stream."""
    reading: set[int] = set()
    for table in query.find_all(exp.Table):
        part: exp.Expr | None = table if is_stream(table) else None
        while part is not None and id(part) not in reading:
            reading.add(id(part))
            part = part.parent
    return lambda part: id(part) in reading


def _refusal(message: str, way_out: str, at: exp.Expr, after: Lead | None = None) -> StreamRefusal:
    return StreamRefusal(message, f"{way_out}; {BATCH}", span_of(at), after)
