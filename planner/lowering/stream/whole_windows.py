"""Nodes over whole windows on streams: regrouping, Top-N, first and last rows, joins.

All results of a window arrive in one micro-batch, so these nodes keep no state. One task receives
the rows of a window and the rows that carry the watermark, and Arrow computes the result there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from planner.aggregates.changes import call_of_changes
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.partial_calls import row_partials
from planner.aggregates.shared_partials import share_partials
from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Catalog
from planner.lowering.join_conditions import push_one_sided_conditions
from planner.lowering.plan import Labels
from planner.lowering.spark_sql import select_from
from planner.lowering.stream.operator_input import (
    OperatorLowering,
    OperatorRows,
    StreamPlace,
    WholeWindows,
)
from planner.lowering.stream.select import EPOCH
from planner.nodes.aggregate_plans import SLICE_END, merge_windows
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    NamedExpr,
    NetRows,
    Node,
    WindowDeduplicate,
    WindowRank,
    plain_items,
)
from planner.nodes.physical import GlobalWindowAggregate, LocalWindowAggregate
from planner.nodes.window_columns import groups_all_time, identifies_window, window_properties
from planner.scalars.types import is_integer
from planner.sql.build import (
    alias,
    bare_column,
    case_when,
    column,
    to_sql,
)
from planner.sql.nodes import TextSpan, span_of
from planner.streams.buffered_rows import NotBuffered
from planner.streams.late_rows import LateSource
from planner.streams.ranked_rows import chooses_first_rows, rank_order, ranking
from planner.streams.refusals import (
    BATCH,
    GROUP_BY,
    NO_UPDATES,
    StreamRefusal,
    check_calls,
    check_flat,
    check_keys,
    refuse_late_windows,
)
from planner.streams.tables import arrives_at_once, stream_tables, streams_of
from planner.streams.time_columns import is_processing_time
from planner.streams.update_identity import ranked_keys, updated_aggregate
from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.plan.local import LocalStep, SqlRows, Streaming
from runtime.plan.nodes import MeasuredStep
from runtime.plan.streams import StreamRegroupStep, WholeWindowsStep
from runtime.refusal import Refusal, Refused, tried
from runtime.spec.expressions import Expression
from runtime.spec.stream import KEEP, LATE_ROW, ROW_KIND, SOURCE, WATERMARK, StreamSource
from runtime.windows.tumble import Tumble

_AT = "$at"
# All rows of a task are in this window.
_ONE_WINDOW = Tumble(3_600_000_000)


class WholeWindowsLowering(OperatorLowering):
    """Lowering of nodes over whole windows; base class of the stream lowering.

    Takes the arguments of `planner.lowering.stream.steps.lower_stream`. `late` is the table
    whose late rows are kept, if any.

    Attributes:
        steps_on_windows: Step of each node over whole windows, by `id(node)`.
    """

    def __init__(
        self,
        catalog: Catalog,
        time_zone: str,
        emits_updates: bool = False,
        refusals: tuple[Refusal, ...] = (),
        notes: tuple[Refusal, ...] = (),
        labels: Labels | None = None,
        late: LateSource | None = None,
    ) -> None:
        super().__init__(catalog, time_zone, labels)
        self._emits_updates = emits_updates
        self._refusals = refusals
        self._notes = notes
        self._late = late
        # Tables whose watermarks the operators below wait for too.
        self._followed: tuple[StreamPlace, ...] = ()
        # keys within which the operator below emits changed windows whole; see `Streaming`
        self._whole_by: tuple[str, ...] | None = None
        # Whether an operator above has windows of time, and reads the changes of rows
        self._needs_time = False
        self._reads_changes = False
        self.steps_on_windows: dict[int, WholeWindowsStep] = {}

    def whole_windows(self, node: Node) -> tuple[exp.Select, StreamSource | None]:
        """Return windows with their control columns. See `OperatorLowering`."""
        if isinstance(node, GlobalWindowAggregate):
            return self.operator(node)
        if self._emits_updates:
            self._refuse_updates(node)
        match node:
            case Aggregate():
                rows, source = self._regroup(node)
            case WindowRank() | WindowDeduplicate():
                rows, source = self._rank(node)
            case WindowJoin():
                rows, source = self._join(node)
            case _:
                raise AssertionError(f"{type(node).__name__} is not over whole windows")
        if id(node) in self.labels:
            rows = self.select_all(MeasuredStep(self.sql_step(rows), self.label(node)))
        return rows, source

    @abstractmethod
    def operator(self, node: GlobalWindowAggregate) -> tuple[exp.Select, StreamSource]:
        """Return the windows of an operator with its control columns, and it as a source."""

    def _refuse_updates(self, node: Node) -> None:
        """Refuse a node that cannot follow changes of its windows.

        A window that has changed is emitted whole by its operator, but other operators do not know
        that it has changed.
        """
        if isinstance(node, Aggregate) and any(node.find_all(NetRows)) and groups_all_time(node):
            raise _not_subtracted(node)
        if isinstance(node, Aggregate | WindowJoin):
            raise StreamRefusal(
                "with allowed lateness or early firing, results of windows cannot be "
                "grouped or joined: steps on windows keep no state, and a window that changes in "
                "one operator is not emitted again by the others",
                NO_UPDATES,
                node.place,
                GROUP_BY if isinstance(node, Aggregate) else None,
            )
        aggregate = updated_aggregate(node.inputs[0])
        if aggregate is None or not aggregate.window.has_slices:
            raise _not_ranked_again(node)
        for item in node.inputs[0].schema:
            check_flat(item.name, node.inputs[0].schema, "ranked rows that change", node.place)

    def _regroup(self, node: Aggregate) -> tuple[exp.Select, StreamSource | None]:
        attached = window_properties(node.input)
        bare = [bare_column(key.expr) for key in node.keys]
        if attached is None or not identifies_window(attached, filter(None, bare)):
            raise StreamRefusal(
                "this aggregation on a stream never ends, because GROUP BY does not "
                "identify a window",
                f"group by window_start and window_end of a window function; {BATCH}",
                node.place,
                GROUP_BY,
            )
        check_keys(node.keys, node.schema)
        check_calls(node.calls)
        shared = share_partials(tuple(map(plan_aggregate, node.calls)))
        rows, source = self._rows(node.input, node.place)
        timed = select_from(rows, exp.Star(), alias(exp.Var(this=EPOCH), _AT))
        keys = tuple((key.name, to_sql(key.expr)) for key in node.keys)
        local = LocalStep(
            SqlRows(keys, row_partials(shared), self.sql_step(timed)),
            Streaming(
                () if source is None else (source,),
                self.zone,
                carries_late_rows=self._late is not None,
            ),
            _ONE_WINDOW,
            _AT,
            "timestamp_ntz",
            SLICE_END,
        )
        names = tuple(key.name for key in node.keys)
        aggregation = merge_windows(shared, _ONE_WINDOW, names)
        step = StreamRegroupStep(local, aggregation, self.label(node))
        self.steps_on_windows[id(node)] = step
        grouped = self.select_all(step)
        finishes = {plan.call.name: plan.finish for plan in shared}
        items = tuple(NamedExpr(c.name, finishes.get(c.name, column(c.name))) for c in node.schema)
        return self._select(items, grouped), source

    def _rank(self, node: WindowRank | WindowDeduplicate) -> tuple[exp.Select, StreamSource | None]:
        if not node.window_columns:
            raise self.rows_not_buffered(
                "ROW_NUMBER over all time ranks rows of one stream by their columns",
                "compute the columns of PARTITION BY and ORDER BY in a subquery",
                node.place,
            )
        function, first, last, order = ranking(node)
        if self._emits_updates:
            self._whole_by = ranked_keys(node)
        rows, source = self._rows(node.input, node.place)
        if self._emits_updates and source is None:
            # a query between the windows and the rank, such as a join with a bounded table
            raise _not_ranked_again(node)
        by = (*node.window_columns, *node.partition_by)
        for name in by:
            check_flat(name, node.input.schema, "PARTITION BY", node.place)
        items: list[exp.Expr] = [exp.Star()]
        orders = []
        for number, ordered in enumerate(order):
            plain = bare_column(ordered.this)
            name = plain or f"$rank_by{number}"
            if plain is None:
                value = case_when(column(KEEP), ordered.this.copy())
                items.append(alias(value, name))
            else:
                check_flat(name, node.input.schema, "ORDER BY", span_of(ordered) or node.place)
            orders.append(rank_order(name, ordered))
        step = RankedRows(
            self.sql_step(select_from(rows, *items)),
            function,
            (first, last),
            by,
            tuple(orders),
            node.rank_column,
            self.label(node),
            is_spread=chooses_first_rows(node),
        )
        self.steps_on_windows[id(node)] = step
        return self._select(plain_items(node.schema), self.select_all(step)), source

    def _join(self, node: WindowJoin) -> tuple[exp.Select, StreamSource | None]:
        original, node = node, push_one_sided_conditions(node)
        condition = self._condition(node)
        types = [{c.name.lower(): c.type for c in side.schema} for side in node.inputs]
        places = node.key_places or (node.place,) * len(node.keys)
        for pair, place in zip(node.keys, places, strict=True):
            for name, side in zip(pair, node.inputs, strict=True):
                check_flat(name, side.schema, "ON", place)
            left, right = (of[name.lower()] for of, name in zip(types, pair, strict=True))
            if left != right and not (is_integer(left) and is_integer(right)):
                raise StreamRefusal(
                    f"ON compares {left} with {right}",
                    "CAST one side to the type of the other before the join",
                    place,
                )
        with self._lockstep(node):
            left_rows, source = self._rows(node.left, node.place)
            right_rows, other = self._rows(node.right, node.place)
        if source is None or other is None:
            raise StreamRefusal(
                "a join of windows on a stream supports only window aggregations, "
                "filters and projections",
                f"join bounded tables after the join of windows; {BATCH}",
                node.place,
            )
        step = JoinedRows(
            self.sql_step(left_rows),
            self.sql_step(right_rows),
            node.join_type,
            (*node.window_keys, *node.keys),
            condition,
            node.window_keys,
            self.label(node),
        )
        self.steps_on_windows[id(original)] = step
        select = self.select_all(step)
        if node.condition is None or condition is not None:
            return self._select(plain_items(node.schema), select), source
        holds = case_when(column(KEEP), node.condition.copy(), exp.false())
        keep = exp.Anonymous(this="COALESCE", expressions=[holds, exp.false()])
        return self._select(plain_items(node.schema), select, keep), source

    def _condition(self, node: WindowJoin) -> Expression | None:
        """Return the conditions of ON other than equalities, for joins that emit unmatched rows.

        Spark filters an inner join afterwards.
        """
        if node.condition is None or node.join_type == "Inner":
            return None
        schema = node.left.schema + node.right.schema
        try:
            return to_arrow_expression(node.condition, schema, self.zone)
        except Refused as refused:
            raise StreamRefusal(
                "this ON condition of a join of windows cannot be evaluated on a "
                f"stream: {refused}",
                f"compute it before the join as a column of each side; {BATCH}",
                span_of(node.condition) or node.place,
            ) from refused

    @contextmanager
    def _lockstep(self, node: Node) -> Iterator[None]:
        """Within the block, make all operators below emit a window in the same micro-batch.

        Raises:
            StreamRefusal: Some operators use processing time and others watermarks.
        """
        awaited = _awaited_sources(node, self.catalog)
        if _PROCESSING_TIME in awaited and len(awaited) > 1:
            others = ", ".join(sorted(awaited - {_PROCESSING_TIME}))
            raise StreamRefusal(
                f"windows on {_PROCESSING_TIME} and windows on the watermark of {others} "
                "are not emitted together",
                f"use PROCTIME() for all of them or for none; {BATCH}",
                node.place,
            )
        before = self._followed
        self._followed = (*before, *stream_tables(node, self.catalog))
        yield
        self._followed = before

    def _rows(self, node: Node, place: TextSpan | None) -> tuple[exp.Query, StreamSource | None]:
        """Return whole windows with the control columns.

        `place` is the source position for errors.
        """
        refuse_late_windows(node, "aggregated, ranked or joined")
        if not arrives_at_once(node, self.catalog):
            raise self.rows_not_buffered(
                "on a stream, grouping, ranking and joining by window supports only "
                "results of windows, with filters and projections",
                "read one window function, or its results, on each side",
                place,
            )
        kind = (ROW_KIND,) if self._emits_updates else ()
        rows = OperatorRows(self, self.catalog, self._late, kind)
        with self._lockstep(node):
            query = rows.windows(node)
        if (label := self.label(node)) and not isinstance(node, WholeWindows):
            step = MeasuredStep(self.sql_step(query), label)
            query = self.select_all(step)
        return query, rows.sources[0] if len(rows.sources) == 1 else None

    def rows_not_buffered(
        self, otherwise: str, way_out: str, place: TextSpan | None
    ) -> StreamRefusal:
        """Return the error for rows of windows that are not buffered until their windows close.

        Uses the message of the rule that refused, or `otherwise` without one.
        """
        for refusal in self._refusals:
            if isinstance(refusal, NotBuffered):
                leave_out = "select the needed columns, or parts of them, before the window"
                return StreamRefusal(refusal.reason, f"{leave_out}; {BATCH}", place)
        return StreamRefusal(otherwise, f"{way_out}; {BATCH}", place)

    def _select(
        self, items: tuple[NamedExpr, ...], rows: exp.Query, condition: exp.Expr | None = None
    ) -> exp.Select:
        """Build a SELECT over rows with the control columns."""
        keep: exp.Expr = column(KEEP)
        if condition is not None:
            keep = exp.And(this=keep, expression=condition)
        control = (SOURCE, WATERMARK, *(() if self._late is None else (LATE_ROW,)))
        kind = [column(ROW_KIND)] if self._emits_updates else []
        named = (alias(item.expr, item.name) for item in items)
        return select_from(rows, *kind, *named, alias(keep, KEEP), *map(column, control))


def _not_subtracted(node: Aggregate) -> StreamRefusal:
    """Return the error for groups of changes with a call that cannot take back a row."""
    tests = ((call, tried(call_of_changes, call, node.input.schema)) for call in node.calls)
    refused = [(call, reason.reason) for call, reason in tests if isinstance(reason, Refusal)]
    call, why = refused[0] if refused else (None, "deleted rows are not subtracted here")
    return StreamRefusal(
        f"without a window, {why}",
        f"use an exact aggregate, such as COUNT(DISTINCT x), or group by a window; {BATCH}",
        node.place if call is None else span_of(call.expr),
    )


def _not_ranked_again(node: Node) -> StreamRefusal:
    return StreamRefusal(
        "with allowed lateness or early firing, only results of one TUMBLE, HOP or "
        "CUMULATE aggregation can be ranked, with filters and projections",
        NO_UPDATES,
        node.place,
    )


_PROCESSING_TIME = "processing time"


def _awaited_sources(node: Node, catalog: Catalog) -> frozenset[str]:
    """Return the streams, or processing time, that the windows of a node wait for."""
    if isinstance(node, LocalWindowAggregate):
        if is_processing_time(node.input, node.time_column, catalog):
            return frozenset({_PROCESSING_TIME})
        below = frozenset[str]().union(*(_awaited_sources(n, catalog) for n in node.inputs))
        return below or frozenset(stream.name for stream in streams_of(node, catalog))
    return frozenset[str]().union(*(_awaited_sources(n, catalog) for n in node.inputs))
