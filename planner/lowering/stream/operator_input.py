"""Rows that a window operator reads from streams, with watermarks in band.

A row carries its table's watermark even if a filter drops it. Between a table and a window
operator, conditions therefore do not drop rows: they set KEEP to false, and expressions are
evaluated only where KEEP is true. If a query in between does more than filter and project, it runs
unchanged, and UNION ALL adds the watermarks from a second read of the tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from sqlglot import exp

from planner.catalog import Catalog, StreamTable, column_named
from planner.lowering.plan import Lowering
from planner.lowering.spark_sql import expand_query, ranges_query, repeat_rows, select_from
from planner.lowering.stream.select import (
    EPOCH,
    guarded_items,
    is_complex,
    mark_of_kind,
    null_watermark,
    only_if_kept,
    select_carried,
    with_source_number,
)
from planner.lowering.stream.split_rows import without_split_columns
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    Expand,
    Filter,
    NamedExpr,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    SqlQuery,
    TableScan,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
)
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import (
    alias,
    case_when,
    cast_as,
    column,
    conjunction,
    literal,
    select_all_from,
    select_items,
    to_sql,
    union_all,
)
from planner.sql.nodes import TextSpan, span_of
from planner.sql.parts import bare_table, has_other_parts, operands
from planner.streams.delay import plain_delay_us
from planner.streams.late_rows import DROP, LateSource
from planner.streams.refusals import JOIN, StreamRefusal
from planner.streams.tables import column_names_of, stream_named, stream_tables
from planner.streams.time_columns import check_time, is_processing_time
from runtime.spec.stream import (
    KEEP,
    LATE_ROW,
    ROW_KIND,
    SOURCE,
    SPLIT,
    SPLIT_NUMBER,
    WATERMARK,
    WATERMARK_LIMIT,
    StreamSource,
)
from runtime.spec.table import Watermark

_CONTROL = (KEEP, SOURCE, WATERMARK)
_LIMIT, _SPLIT = (to_sql(column(name)) for name in (WATERMARK_LIMIT, SPLIT_NUMBER))

# Name of a window operator as a source, followed by its number
OPERATOR = "window operator"

# Nodes whose rows are whole windows: all results of a window arrive in one micro-batch
WholeWindows = GlobalWindowAggregate | Aggregate | WindowRank | WindowDeduplicate | WindowJoin

Scope = Mapping[str, exp.Query]
# Occurrence of a stream in a query, and the stream
StreamPlace = tuple[exp.Table, StreamTable]


class OperatorLowering(Lowering, ABC):
    """Lowering of nodes that are not rows of tables."""

    @abstractmethod
    def emitting_changes(self) -> AbstractContextManager[None]:
        """Within the block, operators emit the changes of their results, with ROW_KIND."""

    @abstractmethod
    def split_rows(self, table: exp.Table, stream: StreamTable) -> exp.Select:
        """Return the rows of a table that only tasks read, with their control columns.

        Raises:
            StreamRefusal: Tasks cannot read it.
        """

    @abstractmethod
    def whole_windows(self, node: Node) -> tuple[exp.Select, StreamSource | None]:
        """Return windows with KEEP, SOURCE and WATERMARK, and the source of the watermark.

        Without a watermark in the rows there is no source, and no window can follow. If the late
        rows of a table are kept, LATE_ROW is included.

        Args:
            node: One of `WholeWindows`.

        Raises:
            StreamRefusal: The node's input is not whole windows, or a part of it cannot be computed
                on a stream.
        """


class OperatorRows:
    """Input rows of one window operator.

    Args:
        operators: Lowering of other nodes.
        catalog: Catalog that identifies streams.
        late: Table whose rows carry LATE_ROW, if any.
        more: Further columns that windows carry in band.
        has_time: Whether rows have a time. Otherwise their windows never close, and follow no
            watermark.

    Attributes:
        sources: Sources of watermarks, indexed by SOURCE.
        has_operator: Whether one of the sources is another window operator.
        has_late_rows: Whether rows that may be late pass through unchanged from their table.
        are_carried: Whether watermarks are part of the rows rather than separate rows.
    """

    def __init__(
        self,
        operators: OperatorLowering,
        catalog: Catalog,
        late: LateSource | None = None,
        more: tuple[str, ...] = (),
        *,
        has_time: bool = True,
    ) -> None:
        self._has_time = has_time
        self._operators = operators
        self._catalog = catalog
        self._late = late
        self._more = more if late is None else (*more, LATE_ROW)
        self._is_processing_time = False
        self.sources: list[StreamSource] = []
        self.has_operator = False
        self.has_late_rows = False
        self.are_carried = False
        self._read: set[int] = set()

    def query_with_watermarks(
        self,
        node: Node,
        time_column: str | None,
        followed: Iterable[StreamPlace] = (),
        place: TextSpan | None = None,
    ) -> exp.Query:
        """Return the rows of a node with KEEP, SOURCE and WATERMARK.

        Args:
            node: Input of the operator.
            time_column: Time column of the windows. None for processing time, or without a time.
            followed: Further tables whose watermarks the operator waits for, without reading their
                rows.
            place: Source position of the time column in the query.

        Raises:
            StreamRefusal: A stream has no watermark, or `time_column` is not its time column.
        """
        if time_column is not None and self._has_time:
            self._is_processing_time = is_processing_time(node, time_column, self._catalog, place)
            if not self._is_processing_time:
                check_time(node, time_column, self._catalog, place)
        query = self._carry(node)
        self.are_carried = query is not None
        if query is not None:
            return self._following(query, node, followed)
        self.sources.clear()
        self._refuse_lost_rows("below", node, place)
        if any(node.find_all(GlobalWindowAggregate)):
            raise StreamRefusal(
                "between a window and a window over its results, only filters, "
                "projections and UNION ALL are supported",
                "join or expand the rows before the inner window or after the outer one",
                _place_of(node) or place,
                JOIN,
            )
        return self._following(self._append_watermarks(node), node, followed)

    def windows(self, node: Node) -> exp.Query:
        """Return results of windows with KEEP, SOURCE and WATERMARK.

        If the watermark cannot come with the rows, it is NULL and `sources` is empty.
        """
        query = self._carry(node)
        if query is None:
            self.sources.clear()
            self._refuse_lost_rows("above", node)
            query = self._rows_without_watermark(node)
        return query

    # -- nodes ---------------------------------------------------------------------------------

    def _carry(self, node: Node) -> exp.Query | None:
        """Return the node with watermarks in its rows.

        None if it does more than filter and project.

        Raises:
            StreamRefusal: UNION ALL reads the results of one window operator twice.
        """
        if isinstance(node, WholeWindows):
            if id(node) in self._read:
                raise StreamRefusal(
                    "UNION ALL reads the results of one query twice, and a stream emits them once",
                    "write the query on both sides, or CREATE VIEW and read the view on both sides",
                    _place_of(node),
                )
            self._read.add(id(node))
            select, source = self._operators.whole_windows(node)
            if source is None:
                return None
            self.has_operator = True
            return with_source_number(select, self._number(source))
        match node:
            case TableScan():
                (table,) = node.query.find_all(exp.Table)
                stream = stream_named(table, self._catalog)
                return None if stream is None else self._scan(node.query.copy(), stream)
            case WindowRows():
                inner = self._carry(node.input)
                return None if inner is None else repeat_rows(inner, node, (*_CONTROL, *self._more))
            case Expand():
                inner = self._carry(node.input)
                if inner is None or any(is_complex(key.expr) for key in node.keys):
                    return None
                keys = tuple(NamedExpr(key.name, only_if_kept(key.expr)) for key in node.keys)
                guarded_node = replace(node, keys=keys)
                control = (*_CONTROL, *(name for name in self._more if name != LATE_ROW))
                expanded = expand_query(guarded_node, exp.Subquery(this=inner), control)
                if self._late is not None:
                    # A row is late once, not once per grouping set.
                    is_first = exp.EQ(this=column(node.id_column), expression=literal(node.ids[0]))
                    once = case_when(is_first, column(LATE_ROW))
                    expanded = expanded.select(alias(once, LATE_ROW), copy=False)
                return expanded
            case RangeRows():
                inner = None if self._late is not None else self._carry(node.data)
                if inner is None:
                    return None
                bounds = self._operators.query(node.bounds)
                return ranges_query(node, inner, bounds, (*_CONTROL, *self._more))
            case ResultChanges():
                return self._carry_changes(node)
            case Filter():
                inner = self._carry(node.input)
                condition = conjunction(node.conjuncts)
                assert condition is not None
                if inner is None or is_complex(condition):
                    return None
                items: list[exp.Expr] = [column(c.name) for c in node.schema]
                return select_carried(items, inner, condition, more=self._more)
            case Project():
                inner = self._carry(node.input)
                if inner is None or any(is_complex(item.expr) for item in node.items):
                    return None
                items = [alias(only_if_kept(i.expr), i.name) for i in node.items]
                return select_carried(items, inner, more=self._more)
            case SqlQuery():
                names = tuple(c.name for c in node.schema)
                return self._carry_text(node.query, dict(node.relations), {}, names)
        return None

    def _carry_changes(self, node: ResultChanges) -> exp.Query | None:
        """Return the changes of an operator's results, with their mark instead of ROW_KIND."""
        more = self._more
        self._more = (ROW_KIND, *more)
        with self._operators.emitting_changes():
            inner = self._carry(node.input)
        self._more = more
        if inner is None:
            return None
        mark = alias(only_if_kept(mark_of_kind(node.mark, column(ROW_KIND))), node.mark)
        items = [column(c.name) for c in node.schema[:-1]]
        return select_carried([*items, mark], inner, more=more)

    def _scan(self, query: exp.Query, stream: StreamTable) -> exp.Query:
        """Return the rows of a table with its watermark."""
        star, marks = exp.Star(), self._marks(stream, query)
        if stream.is_read_by_tasks:
            (table,) = query.find_all(exp.Table)
            star, query = without_split_columns(), self._operators.split_rows(table, stream)
        items = [star, alias(exp.true(), KEEP), *marks]
        if self._late is not None:
            items.append(alias(self._late.row(stream), LATE_ROW))
            is_its_table = stream.name == self._late.table
            self.has_late_rows |= is_its_table and not self._is_processing_time
        return select_from(query, *items)

    # -- queries -----------------------------------------------------------------------------

    def _carry_text(
        self,
        query: exp.Expr,
        relations: Mapping[str, Node],
        scope: Scope,
        names: tuple[str, ...] | None = None,
    ) -> exp.Query | None:
        """Return a query with watermarks in its rows. `names` are its column names, if known."""
        if isinstance(query, exp.Subquery):
            return self._carry_text(query.this, relations, scope, names)
        if not isinstance(query, exp.Select | exp.Union):
            return None
        scope = {**scope, **{cte.alias.lower(): cte.this for cte in query.ctes}}
        if any(cte.args["alias"].columns for cte in query.ctes):
            return None
        if isinstance(query, exp.Union):
            return self._carry_union(query, relations, scope)
        allowed = {"expressions", "from_", "where", "kind", "hint", "with_"}
        if any(value for key, value in query.args.items() if key not in allowed):
            return None
        source = query.args.get("from_")
        items = guarded_items(query, names)
        where = query.args.get("where")
        if source is None or items is None or (where is not None and is_complex(where.this)):
            return None
        inner = self._carry_source(source.this, relations, scope)
        if inner is None:
            return None
        condition = None if where is None else where.this
        return select_carried(items, inner, condition, source.this, self._more)

    def _carry_source(
        self, source: exp.Expr, relations: Mapping[str, Node], scope: Scope
    ) -> exp.Query | None:
        if has_other_parts(source) or source.alias_column_names:
            return None
        if isinstance(source, exp.Subquery):
            return self._carry_text(source, relations, scope)
        if not isinstance(source, exp.Table):
            return None
        if not source.db and source.name in relations:
            return self._carry(relations[source.name])
        if not source.db and source.name.lower() in scope:
            outer = {name: text for name, text in scope.items() if name != source.name.lower()}
            return self._carry_text(scope[source.name.lower()], relations, outer)
        stream = stream_named(source, self._catalog)
        if stream is None:
            return None
        return self._scan(select_all_from(bare_table(source)), stream)

    def _carry_union(
        self, query: exp.Union, relations: Mapping[str, Node], scope: Scope
    ) -> exp.Query | None:
        allowed = {"this", "expression", "distinct", "with_"}
        if query.args.get("distinct") or any(
            value for key, value in query.args.items() if key not in allowed
        ):
            return None
        # UNION matches columns by position, so each side needs them by name.
        sides: list[exp.Query] = []
        for side in operands(query):
            names = column_names_of(side, relations, scope, self._catalog)
            carried = self._carry_text(side, relations, scope, names)
            if carried is None or names is None:
                return None
            columns: list[exp.Expr] = [column(name) for name in names]
            sides.append(select_carried(columns, carried, more=self._more))
        return union_all(sides)

    # -- separate watermark rows -------------------------------------------------------------

    def _append_watermarks(self, node: Node) -> exp.Query:
        """Return the node unchanged, with its tables' watermarks as separate rows."""
        result = self._rows_without_watermark(node)
        if self._is_processing_time or not self._has_time:
            # Every row carries its processing time, so no table has to be read again.
            for _, stream in stream_tables(node, self._catalog):
                self._number(self._unmarked(stream))
            return result
        for place in stream_tables(node, self._catalog):
            result = self._add_marks(result, node, place)
        return result

    def _following(
        self, query: exp.Query, node: Node, followed: Iterable[StreamPlace]
    ) -> exp.Query:
        """Add, as separate rows, the watermarks of followed tables that are not sources yet.

        An operator that reads other operators' results follows their tables as well.
        """
        if (
            self._is_processing_time
            or not self._has_time
            or all(_is_operator(source) for source in self.sources)
        ):
            return query
        control = (*_CONTROL, *self._more)
        names = [*(column(c.name) for c in node.schema), *(column(name) for name in control)]
        for place in followed:
            if place[1].name in {source.name for source in self.sources}:
                continue
            rows = select_from(query, *(name.copy() for name in names))
            query = self._add_marks(rows, node, place)
        return query

    def _add_marks(self, rows: exp.Query, node: Node, place: StreamPlace) -> exp.Query:
        """Add a table's watermarks to the rows of a node, as separate rows."""
        table, stream = place
        plain = bare_table(table)
        scan = select_all_from(plain)
        items = [
            *(alias(cast_as(exp.Null(), c.type), c.name) for c in node.schema),
            alias(exp.false(), KEEP),
            *self._marks(stream, scan),
            *self._no_late_row(),
        ]
        if stream.is_read_by_tasks:
            marks = select_from(self._operators.split_rows(table, stream), *items)
        else:
            marks = select_items(items, plain.copy())
        return union_all([rows, marks])

    def _rows_without_watermark(self, node: Node) -> exp.Query:
        """Return the node's rows without a watermark."""
        control: list[exp.Expr] = [
            alias(exp.true(), KEEP),
            alias(cast_as(exp.Null(), "int"), SOURCE),
            alias(null_watermark(), WATERMARK),
            *self._no_late_row(),
        ]
        columns = (column(c.name) for c in node.schema)
        return select_from(self._operators.query(node), *columns, *control)

    def _no_late_row(self) -> list[exp.Expr]:
        return [] if self._late is None else [alias(self._late.none(), LATE_ROW)]

    # -- watermarks ----------------------------------------------------------------------------

    def _number(self, source: StreamSource) -> exp.Expr:
        """Register a source and return its number."""
        self.sources.append(source)
        return literal(len(self.sources) - 1)

    def _unmarked(self, stream: StreamTable) -> StreamSource:
        """Return a table as a source without a watermark."""
        return StreamSource(stream.name, "proctime" if self._has_time else "timestamp_ntz")

    def _marks(self, stream: StreamTable, scan: exp.Query) -> list[exp.Expr]:
        """Return SOURCE and WATERMARK of a table's rows. `scan` reads all columns of the table.

        Registers the table as a source.

        Raises:
            StreamRefusal: The watermark refers to a missing column.
        """
        has_mark = self._has_time and not self._is_processing_time
        watermark = stream.watermark if has_mark else None
        if watermark is None:
            number = self._number(self._unmarked(stream))
            return [alias(number, SOURCE), alias(null_watermark(), WATERMARK)]
        time_type = time_type_of(stream.name, watermark, scan, self._catalog)
        delay_us = plain_delay_us(watermark, self._catalog) or 0
        source = StreamSource(stream.name, time_type, delay_us, stream.idle_advance_us)
        number = self._number(source)
        text = watermark_us(watermark, time_type)
        if stream.split is not None:
            number = exp.Var(this=f"({number.sql()} + {SPLIT} * (1 + {stream.split}))")
        elif stream.is_read_by_tasks:
            text = f"CASE WHEN {_LIMIT} < {text} THEN {_LIMIT} ELSE {text} END"
            if stream.has_splits:
                split = f"COALESCE({SPLIT} * (1 + {_SPLIT}), 0)"
                number = exp.Var(this=f"({number.sql()} + {split})")
        return [alias(number, SOURCE), alias(exp.Var(this=text), WATERMARK)]

    def _refuse_lost_rows(self, where: str, node: Node, place: TextSpan | None = None) -> None:
        """Refuse a query that late rows cannot pass through, if there are late rows."""
        late = self._late
        if late is not None and any(
            stream.name == late.table for _, stream in stream_tables(node, self._catalog)
        ):
            raise StreamRefusal(
                "late rows cannot be stored: only filters and projections are supported "
                f"{where} the window",
                f"use only filters, projections and UNION ALL around the window, or {DROP}",
                _place_of(node) or place,
                JOIN,
            )


def time_type_of(table: str, watermark: Watermark, scan: exp.Query, catalog: Catalog) -> str:
    """Return the Spark type of a watermark's column. `scan` reads all columns of its table.

    Raises:
        StreamRefusal: The table has no such column.
    """
    time = column_named(catalog.analyze(scan, {}), watermark.column)
    if time is None:
        raise StreamRefusal(
            f"the watermark of `{table}` uses `{watermark.column}`, which is not a column of it",
            "use a TIMESTAMP column in WATERMARK FOR",
            span_of(scan),
            subjects=(table, watermark.column),
        )
    return time.type


def watermark_us(watermark: Watermark, time_type: str) -> str:
    """Return Spark SQL for the watermark of a row in BIGINT microseconds."""
    if time_type == "timestamp":
        return f"UNIX_MICROS(({watermark.expression}))"
    return f"((({watermark.expression}) - {EPOCH}) DIV INTERVAL '0.000001' SECOND)"


def _place_of(node: Node) -> TextSpan | None:
    """Return the position of a query that does more than filter and project."""
    if isinstance(node, SqlQuery):
        return span_of(*(node.query.args.get("joins") or [node.query]))
    return node.place or next(filter(None, map(_place_of, node.inputs)), None)


def _is_operator(source: StreamSource) -> bool:
    return source.name.startswith(OPERATOR)
