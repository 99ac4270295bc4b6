"""Bind a query: window blocks become nodes, everything else stays SQL for Spark.

A window block is a SELECT over one window table function. The binder walks a query from the inside
out. It replaces each block that becomes a node by a placeholder relation, so that Spark can run the
surrounding text unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from planner.aggregates.calls import (
    calls_that_skip_nulls,
    skip_nulls,
)
from planner.binder.all_time.groups import bind_grouping_of_stream
from planner.binder.analysed_apart import analyse_apart
from planner.binder.changes.net_rows import signed_rows
from planner.binder.changes.remaining_rows import in_windows_of_changes
from planner.binder.changes.to_changelog import bind_changelog
from planner.binder.changes.whole_tables import with_rows_of_keys
from planner.binder.fill.clause import DEFAULT_FILL, FillOptions, bind_fill, fill_clause
from planner.binder.fill.function import bind_gap_fill
from planner.binder.group_windows import rewrite_group_windows
from planner.binder.joins.as_of import join_as_of
from planner.binder.joins.as_of_join import rewrite_as_of_joins
from planner.binder.joins.interval_join import bind_interval_join
from planner.binder.joins.semi_join import bind_semi_join
from planner.binder.joins.temporal_join import bind_temporal_joins
from planner.binder.joins.version_join import bind_version_join
from planner.binder.joins.window_join import bind_join
from planner.binder.laterals import join_laterals
from planner.binder.misplaced import check_filters
from planner.binder.qualify import unfold_qualify
from planner.binder.ranges import bind_ranges
from planner.binder.rank import bind_rank
from planner.binder.relations import Scope
from planner.binder.row_length import with_row_length
from planner.binder.strict_flink import check_function, check_query, strict_error
from planner.binder.views import ViewBinding, rewrite
from planner.binder.window_block import (
    bind_aggregation,
    bind_regrouping,
    distinct_as_grouping,
    is_aggregation,
)
from planner.binder.window_function import reading_date, window_node, window_of, with_date
from planner.catalog import Catalog, Schema
from planner.nodes.logical import NetRows, Node, WindowTableFunction
from planner.nodes.window_columns import window_properties
from planner.sql.build import alias, relation, select_all_from
from planner.sql.double_quotes import check_names, check_texts, has_double_quotes
from planner.sql.flink_functions import round_time, time_rounding_calls
from planner.sql.flink_queries import unnest_maps
from planner.sql.flink_types import rewrite_by_type
from planner.sql.names import (
    has_scattered_ctes,
    hint_at_late_name,
    hint_at_window_name,
    without_unused_ctes,
)
from planner.sql.nodes import (
    CHANGELOGS,
    LEFT_OUT_HINTS,
    WINDOW_COLUMNS,
    PlacedError,
    WindowFunctionCall,
    name_of_columns,
    span_of,
)
from planner.sql.parts import (
    only_window_function,
    operands_alone,
    parts_below,
    replace_relation,
    select_from_same,
    sources_of,
)
from planner.sql.wall_clocks import keep_wall_clocks
from planner.streams.current_watermark import watermarked_stream
from planner.streams.refusals import StreamRefusal, current_watermark_in, refuse_subquery
from planner.streams.tables import stream_named, streams_of
from runtime.errors import AnalysisError, ErrorKind
from runtime.refusal import Refusal, Refused

# Window functions that no aggregate computes in slices
_PLAIN_ROWS = ("GAP_FILL", "RANGES", *CHANGELOGS)


@dataclass(frozen=True)
class BoundQuery:
    """A bound query.

    Attributes:
        plan: The logical plan.
        notes: Reasons why window blocks were left to Spark.
        is_rewritten: False if Spark can run the user's text unchanged.
    """

    plan: Node
    notes: tuple[Refusal, ...]
    is_rewritten: bool


def bind(
    query: exp.Query,
    sql: str,
    catalog: Catalog,
    strict: bool = False,
    fill: FillOptions = DEFAULT_FILL,
    *,
    emits_updates: bool = False,
    state_ttl_us: int | None = None,
) -> BoundQuery:
    """Bind a query to a logical plan.

    Args:
        query: Tree in sqlwin's dialect. It is not modified.
        sql: Text from which the tree was parsed, for error positions.
        catalog: Catalog that resolves names.
        strict: Whether to reject SQL that Flink rejects.
        fill: Settings of FILL.
        emits_updates: Whether streams emit windows more than once.
        state_ttl_us: Time-to-live of the state of streams without a window. None: forever.

    Raises:
        AnalysisError: A name, a type or a window is invalid.
    """
    binder = _Binder(sql, catalog, strict, fill)
    binder.emits_updates, binder.state_ttl_us = emits_updates, state_ttl_us
    if strict:
        check_query(query, sql)
    original, query, watermark = query, query.copy(), current_watermark_in(query)
    has_hints = any(LEFT_OUT_HINTS in select.meta for select in query.find_all(exp.Select))
    # sqlwin accepts aliases in double quotes, Spark does not.
    is_rewritten = rewrite(query, sql, strict) or has_hints or '"' in sql
    binder.rewritten = is_rewritten or has_scattered_ctes(query)
    binder.mark_aggregates(query)
    check_filters(query, sql)
    try:
        plan = with_rows_of_keys(binder.bind_query(query, {}), query, binder)
    except AnalysisError as error:
        if isinstance(error, PlacedError):
            error.place_in(sql)
        # Spark rejects subqueries over streams with one general error: check for them first.
        refused = refuse_subquery(original, binder.is_stream)
        if refused is not None and error.kind is ErrorKind.SUBQUERY:
            raise refused.place_in(sql) from error
        error = hint_at_window_name(error, original, sql)
        raise hint_at_late_name(error, original, sql) from error
    if (watermark is not None or binder.views_ask_watermark) and streams_of(plan, catalog):
        try:
            watermarked_stream(plan, catalog, None if watermark is None else span_of(watermark))
        except StreamRefusal as refusal:
            raise refusal.place_in(sql) from refusal
    return BoundQuery(plan, tuple(dict.fromkeys(binder.notes)), binder.rewritten)


class _Binder(ViewBinding):
    def __init__(self, sql: str, catalog: Catalog, strict: bool, fill: FillOptions) -> None:
        super().__init__(sql, catalog, strict=strict)
        self.fill = fill
        self.notes: list[Refusal] = []
        self._checks_quotes = True

    # -- queries -------------------------------------------------------------------------------

    def bind_query(self, query: exp.Query, scope: Scope) -> Node:
        """Bind a query, with the CTEs in scope, to a node."""
        return self.node_of(self.lift(query, scope), scope)

    def lift(self, query: exp.Query, scope: Scope) -> exp.Query:
        """Replace every window block in the query by a placeholder."""
        if isinstance(query, exp.Subquery):
            query.set("this", self.lift(query.this, scope))
            return query
        if self._checks_quotes and has_double_quotes(query):
            self._check_double_quotes(query, scope)
        if isinstance(query, exp.Select):
            if fill_clause(query) is not None:
                return self._lift_filled(query, scope)
            query = self._without_qualify(query, scope)
            rewrite_group_windows(query, self.sql)
        scope = self._lift_ctes(query, scope)
        if isinstance(query, exp.Select):
            self._join_laterals(query, scope)
        if isinstance(query, exp.Select) and bind_temporal_joins(
            query,
            self.catalog,
            "" if self.views else self.sql,
            lambda source: self.bind_query(select_all_from(source.copy()), scope),
        ):
            self.rewritten = True
        for part in parts_below(query):
            if isinstance(part, WindowFunctionCall):
                if part is not only_window_function(query) or part.kind in _PLAIN_ROWS:
                    self._replace_window_function(part, scope)
            elif isinstance(part, exp.Table):
                self.expand_view(part, scope)
            elif isinstance(part, exp.Query):
                part.replace(self.lift(part, scope))
        if not isinstance(query, exp.Select):
            return query
        unnest_maps(query, lambda value: self._type_of(value, query, scope) or "")
        for call in reversed(time_rounding_calls(query)):  # inner calls first
            self.rewritten = True
            type_ = self._type_of(call.expressions[0], query, scope)
            round_time(call, type_ or "timestamp", self.sql)
        if self.strict and rewrite_by_type(
            query, lambda value: self._type_in(value, query, scope), self.sql
        ):
            self.rewritten = True
        if keep_wall_clocks(query, lambda value: self._type_of(value, query, scope)):
            self.rewritten = True
        function = only_window_function(query)
        if function is not None:
            return self._lift_block(query, function, scope)
        lifted = self._lift_joins_and_ranks(query, scope)
        return lifted if self._reads_streams(lifted) else analyse_apart(lifted, self, scope)

    def _lift_filled(self, query: exp.Select, scope: Scope) -> exp.Query:
        """Replace a SELECT with FILL by a SELECT over its filled windows."""
        scope = self._lift_ctes(query, scope)
        ctes = query.args.get("with_")
        query.set("with_", None)
        outer = bind_fill(query, self, scope, self.bind_query, self.fill)
        if ctes is not None:
            outer.set("with_", ctes)
            outer = without_unused_ctes(outer)
        if query.parent is not None:
            query.replace(outer)
        return outer

    def _check_double_quotes(self, query: exp.Query, scope: Scope) -> None:
        """Reject text in double quotes that may be meant as a name."""
        sql = "" if self.views else self.sql
        check_names(query, sql)
        names: frozenset[str] = frozenset()
        if not isinstance(query, exp.Select):
            names = self._names_of([operands_alone(query)], scope)
        elif sources := sources_of(query):
            # A source that reads other sources, such as LATERAL, cannot be bound alone.
            parts = (select_all_from(source.copy()) for source in sources)
            names = self._names_of([select_from_same(query, [exp.Star()])], scope)
            names = names or self._names_of(parts, scope)
        check_texts(query, names, sql)

    def _names_of(self, queries: Iterable[exp.Query], scope: Scope) -> frozenset[str]:
        """Return the column names of the queries, skipping those that cannot be bound alone."""
        self._checks_quotes = False  # the originals are checked when they are lifted
        names = frozenset(c.name for query in queries for c in self.columns(query, scope) or ())
        self._checks_quotes = True
        return names

    def _lift_joins_and_ranks(self, query: exp.Select, scope: Scope) -> exp.Select:
        """Turn joins of windows and rankings inside windows into nodes."""
        before = query
        versions = bind_version_join(query, self, scope, self.fill.zone)
        query = query if versions is None else versions
        with self._record_notes(query):
            within = bind_interval_join(query, self, scope, self.fill.zone)
            query = query if within is None else within
        ranks = partial(bind_rank, time_zone=self.fill.zone)
        for bind_one in (bind_join, bind_semi_join, ranks):
            with self._record_notes(query):
                while (bound := bind_one(query, self, scope)) is not None:
                    query = bound
        if query is not before:
            query = without_unused_ctes(query)
        with self._record_notes(query):
            regrouped = bind_regrouping(query, self, scope)
            if regrouped is None:
                regrouped = bind_grouping_of_stream(query, self, scope)
            if regrouped is not None:
                return without_unused_ctes(self._all_of(regrouped, query))
        self._skip_nulls_in_windows(query, scope)
        return query

    def _skip_nulls_in_windows(self, query: exp.Select, scope: Scope) -> None:
        """Make Spark skip NULLs in windows as sqlwin does; see `skip_nulls`."""
        calls = calls_that_skip_nulls(query)
        if not calls:
            return
        names = self._names_of([select_from_same(query, [exp.Star()])], scope)
        if {name.lower() for name in names}.issuperset(WINDOW_COLUMNS):
            skip_nulls(calls)
            self.rewritten = True

    @contextmanager
    def _record_notes(self, query: exp.Select) -> Iterator[None]:
        """Record a note if the block raises because a part of the query stays with Spark."""
        try:
            yield
        except Refused as left:
            self.notes.append(left.refusal)
        except AnalysisError as error:
            # Binding the outer query then also reports a name that is not a column of it.
            if error.kind is not ErrorKind.UNKNOWN_COLUMN or not query.find_ancestor(exp.Select):
                raise
            reason = f"`{error.subject}` belongs to the outer query"
            self.notes.append(Refusal(reason, "Spark aggregates the rows of the windows"))

    def _all_of(self, node: Node, query: exp.Select) -> exp.Select:
        """Replace a query by `SELECT * FROM placeholder`, keeping its CTEs."""
        return self.select([exp.Star()], node, with_=query.args.get("with_"))

    def _without_qualify(self, query: exp.Select, scope: Scope) -> exp.Select:
        """Return the query with QUALIFY turned into a condition around it."""

        def input_names() -> set[str]:
            schema = self.columns(select_from_same(query, [exp.Star()]), scope)
            return {c.name.lower() for c in schema or ()}

        qualify = query.args.get("qualify")
        if self.strict and qualify is not None and not qualify.find(exp.Window):
            raise strict_error(
                "QUALIFY must contain the function with OVER",
                qualify.this,
                self.sql,
                "write the function instead of its alias",
            )
        return unfold_qualify(query, input_names) or query

    def _join_laterals(self, query: exp.Select, scope: Scope) -> None:
        """Rewrite as-of joins, and LATERAL subqueries that filter streams."""
        if query.find(exp.Lateral) is None and not query.args.get("joins"):
            return
        reads_streams = self._reads_streams(query)
        schema_of = partial(self.columns, scope=scope)
        node_of = partial(self._node_alone, scope=scope)
        sql = "" if self.views else self.sql
        if rewrite_as_of_joins(query, schema_of, sql, reads_streams=reads_streams):
            self.rewritten = True
        if query.find(exp.Lateral) is None:
            return
        if not reads_streams and join_as_of(query, node_of, self._placed):
            return
        if join_laterals(query, schema_of, self.is_stream):
            self.rewritten = True

    def _reads_streams(self, query: exp.Select) -> bool:
        """Return whether a SELECT or one of its parts reads a stream."""
        return any(map(self.is_stream, query.find_all(exp.Table)))

    def is_stream(self, table: exp.Table) -> bool:
        """Return whether a table is a stream."""
        return stream_named(table, self.catalog) is not None

    def columns(self, query: exp.Query, scope: Scope) -> Schema | None:
        """Return the columns of a query, or None if it cannot be bound alone."""
        node = self._node_alone(query, scope)
        return None if node is None else node.schema

    def _node_alone(self, query: exp.Query, scope: Scope) -> Node | None:
        try:
            return self.bind_query(query.copy(), scope)
        except AnalysisError:
            return None  # Spark reports the error

    def _placed(self, node: Node) -> exp.Table:
        return relation(self.placeholder(node))

    def _type_of(self, expr: exp.Expr, select: exp.Select, scope: Scope) -> str | None:
        """Return Spark's type of an expression over the rows of a SELECT, or None if unknown."""
        return self._type_of_item(select_from_same(select, [alias(expr, "$value")]), scope)

    def _type_of_item(self, read: exp.Select, scope: Scope) -> str | None:
        """Return Spark's type of the only item of a SELECT, or None if unknown."""
        for function in list(read.find_all(WindowFunctionCall)):
            self._replace_window_function(function, scope)
        try:
            return self.sql_query(read, scope).schema[0].type
        except AnalysisError:
            return None  # Spark reports the error, or it is a column of an outer query

    def _type_in(self, expr: exp.Expr, select: exp.Select, scope: Scope) -> str | None:
        """Return Spark's type of an expression in any clause of a SELECT, or None if unknown.

        Accounts for keys and aggregates, and for item names in ORDER BY and HAVING.
        """
        items = {item.alias.lower(): item.this for item in select.selects if item.alias}

        def resolve(node: exp.Expr) -> exp.Expr:
            is_name = isinstance(node, exp.Column) and not node.table
            item = items.get(node.name.lower()) if is_name else None
            return exp.Paren(this=item.copy()) if item is not None else node

        grouped = select_from_same(select, [alias(expr, "$value")])
        grouped.set("group", select.args["group"].copy() if select.args.get("group") else None)
        return (
            self._type_of(expr, select, scope)
            or self._type_of_item(grouped, scope)
            or self._type_of(expr.copy().transform(resolve), select, scope)
        )

    def _lift_ctes(self, query: exp.Query, scope: Scope) -> Scope:
        clause = query.args.get("with_")
        if clause is None:
            return scope
        inner = dict(scope)
        for cte in clause.expressions:
            if clause.args.get("recursive"):
                inner[cte.alias.lower()] = cte
            cte.set("this", self.lift(cte.this, inner))
            inner[cte.alias.lower()] = cte
        return inner

    def _lift_block(
        self, query: exp.Select, function: WindowFunctionCall, scope: Scope
    ) -> exp.Query:
        """Bind a window block to `SELECT * FROM placeholder`, or leave it over bound windows."""
        node, date = self._bind_window(function, scope)
        if isinstance(node, NetRows):
            self._put_placeholder(function, with_date(node, date))
            return self._lift_joins_and_ranks(query, scope)
        grouped = distinct_as_grouping(query, window_properties(node))
        if grouped is None and not is_aggregation(query):
            self._put_placeholder(function, with_date(node, date))
            return self._lift_joins_and_ranks(query, scope)
        with self._record_notes(query):
            block = grouped or query
            if date is not None:
                block = reading_date(block, date)
            bound = bind_aggregation(block, function, node, self, scope)
            return self._all_of(bound, query)
        self._put_placeholder(function, with_date(node, date))
        skip_nulls(calls_that_skip_nulls(query))
        return query

    # -- window functions ----------------------------------------------------------------------

    def _replace_window_function(self, function: WindowFunctionCall, scope: Scope) -> None:
        self._put_placeholder(function, self.window_function(function, scope))

    def _put_placeholder(self, function: WindowFunctionCall, node: Node) -> None:
        table = relation(self.placeholder(node))
        alias = function.args.get("alias")
        if alias is not None and function.kind in _PLAIN_ROWS:
            table.set("alias", alias.copy())
        elif alias is not None:
            # The columns have been renamed below.
            table.set("alias", exp.TableAlias(this=alias.this))
        elif isinstance(function.args["data"], exp.Table):
            name = name_of_columns(function.args["data"])
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        replace_relation(function, table)

    def window_function(self, function: WindowFunctionCall, scope: Scope) -> Node:
        """Return the node of a window function, with the columns of its data."""
        if function.kind in CHANGELOGS:
            return bind_changelog(function, self._data(function, scope), self, strict=self.strict)
        if self.strict and function.kind in _PLAIN_ROWS:
            message = f"{function.kind} is not supported"
            raise strict_error(message, function.this, self.sql, "remove it")
        if function.kind == "GAP_FILL":
            data = self._data(function, scope)
            return bind_gap_fill(function, data, self, scope, self.bind_query, self.fill)
        if function.kind == "RANGES":
            data, bounds = (self._data(function, scope, of) for of in ("data", "bounds"))
            return bind_ranges(function, data, bounds, self.catalog, self.sql)
        return with_date(*self._bind_window(function, scope))

    def _data(self, function: WindowFunctionCall, scope: Scope, parameter: str = "data") -> Node:
        """Return a table that a window function reads, by default its data."""
        data = function.args[parameter]
        if isinstance(data, WindowFunctionCall):
            return self.window_function(data, scope)
        if isinstance(data, exp.Table):
            return self.scan(data, scope)
        return self.bind_query(data.unnest(), scope)

    def _bind_window(
        self, function: WindowFunctionCall, scope: Scope
    ) -> tuple[WindowTableFunction | NetRows, str | None]:
        """Return the node of a window function, and the name of its time column if that is a DATE.

        In the node, that column holds the midnights of the dates. Over changes, the node has the
        rows that remain in each window.
        """
        window = window_of(function, self.sql)
        if self.strict:
            check_function(function, window, self.sql)
        source = self._data(function, scope)
        signed = signed_rows(source, windows_change=self.windows_change(source))
        rows = source if signed is None else signed
        length = window.row_length
        if length is not None:
            rows = with_row_length(function, length, rows, self)
        if signed is not None:
            return in_windows_of_changes(function, window, rows, self.sql, strict=self.strict)
        hidden = () if length is None else (length,)
        takes_date = not self.strict
        return window_node(function, window, rows, self.sql, takes_date=takes_date, hidden=hidden)
