"""Nodes of rows on a target: each is a SELECT over the CTEs of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.lowering.sql.as_of import join_as_of
from planner.lowering.sql.assigners import ARGUMENT, in_months, on_target
from planner.lowering.sql.clocks import local_us
from planner.lowering.sql.expressions import TargetExpressions
from planner.lowering.sql.fills import fill_windows
from planner.lowering.sql.from_slices import WindowWriter
from planner.lowering.sql.names import TextNames, quoted
from planner.lowering.sql.partials import column_types
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, Source, select, union_all
from planner.lowering.sql.sessions import number_sessions, spans_of_sessions
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import all_of, binary, call, cast, not_null, number
from planner.nodes.aggregate_plans import END, TIME
from runtime.plan.arrow_rows import (
    AsOfRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    Neighbour,
    NeighbourRows,
    OrderedRows,
    ProjectedRows,
    RangedRows,
    RankedRows,
    RepeatedRows,
    UnitedRows,
    WindowedRows,
    local_rows,
)
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.spec.expressions import ColumnRef, RankOrder
from runtime.windows.base import BaseAligned
from runtime.windows.times import FIRST_TIME, LAST_TIME, WINDOW_TIME_LAG_US

_JOINS = {
    "Inner": ("", "INNER"),
    "LeftOuter": ("LEFT", ""),
    "RightOuter": ("RIGHT", ""),
    "FullOuter": ("FULL", ""),
    "LeftSemi": ("LEFT", "SEMI"),
    "LeftAnti": ("LEFT", "ANTI"),
}
_COPIES = "each row once per window that contains it"
_REFUSED = {
    RangedRows: ("RANGES is not compiled", "RANGES("),
    RepeatedRows: ("rows that a query repeats are not compiled", ""),
}


def write_query(root: PlanNode, target: Target) -> exp.Query:
    """Return a query as one SELECT with CTEs.

    Args:
        root: Nodes over `GivenRows`.
        target: Engine.

    Raises:
        NotPortable: The target would compute other rows.
    """
    tables = {node.name for node in root.walk() if isinstance(node, GivenRows)}
    writer = _RowsWriter(Ctes(TextNames(_visible_names(root), tables), target))
    query = writer.select(root)
    if writer.ctes.all:
        query.set("with_", exp.With(expressions=writer.ctes.all))
    return query


def _visible_names(root: PlanNode) -> set[str]:
    names: set[str] = set()
    for node in root.walk():
        match node:
            case ProjectedRows():
                names.update(name for name, _ in node.projection.columns)
            case GivenRows() | InlineRows():
                names.update(column.name for column in node.columns)
            case WindowedRows():
                names.update(node.names)
            case RankedRows():
                names.add(node.column)
            case NeighbourRows():
                names.update(neighbour.column for neighbour in node.neighbours)
    return names


class _RowsWriter:
    """Writer of one query."""

    def __init__(self, ctes: Ctes) -> None:
        self.ctes = ctes
        self._sources: dict[PlanNode, Source] = {}

    def source(self, node: PlanNode, name: str = "source_rows") -> Source:
        """Return a node as a relation that other CTEs read. Equal nodes are written once."""
        if node not in self._sources:
            self._sources[node] = self._written(node, name)
        return self._sources[node]

    def _written(self, node: PlanNode, name: str) -> Source:
        match node:
            case GivenRows():
                columns = {c.name: self.ctes.names.column(c.name) for c in node.columns}
                return Source(_table(node.name), columns)
            case MergedWindows():
                rows = local_rows(node).source
                assert len(rows.inputs) == 1
                return WindowWriter(self.ctes, node, self.source(rows.inputs[0])).write()
            case WindowedRows():
                return self._windowed(node)
            case FilledRows():
                below = self.source(node.input, "unfilled")
                return fill_windows(self.ctes, node, below, column_types(node.input))
            case ProjectedRows() if _only_renames(node):
                below, pairs = self.source(node.input), node.projection.columns
                renamed = {
                    name: below.columns[value.name]
                    for name, value in pairs
                    if isinstance(value, ColumnRef)
                }
                return Source(below.name, renamed)
        query = self.select(node)
        table = self.ctes.add(_NAMES.get(type(node), name), query)
        return Source(table, {name: self.ctes.names.column(name) for name in self._names(node)})

    def _names(self, node: PlanNode) -> list[str]:
        """Return the columns of a node, by their names in the plan."""
        match node:
            case ProjectedRows():
                return [name for name, _ in node.projection.columns]
            case RankedRows():
                return [*self._names(node.input), node.column]
            case NeighbourRows():
                more = [neighbour.column for neighbour in node.neighbours]
                return [*self._names(node.input), *more]
            case OrderedRows():
                names = self._names(node.input)
                return names[: len(names) - node.hidden]
            case UnitedRows():
                return self._names(node.parts[0])
            case JoinedRows():
                right = [] if node.join_type in ("LeftSemi", "LeftAnti") else [node.right]
                return [name for side in (node.left, *right) for name in self._names(side)]
            case AsOfRows():
                return [name for side in node.inputs for name in self._names(side)]
            case InlineRows():
                return [column.name for column in node.columns]
        return list(self.source(node).columns)

    def select(self, node: PlanNode) -> exp.Query:
        """Return a node as a query.

        Raises:
            NotPortable: The target would compute other rows.
        """
        match node:
            case ProjectedRows():
                return self._projected(node)
            case OrderedRows():
                return self._ordered(node, self._names(node))
            case RankedRows():
                return self._ranked(node)
            case NeighbourRows():
                source = self.source(node.input)
                more = [self._neighbour(part, node.input, source) for part in node.neighbours]
                return self._all(source, more)
            case UnitedRows():
                return union_all([self.select(part) for part in node.parts])
            case JoinedRows():
                return self._joined(node)
            case AsOfRows():
                left, right = (
                    self._apart(node.left, "left_rows"),
                    self._apart(node.right, "right_rows"),
                )
                return join_as_of(self.ctes, node, (left, right), column_types(node))
            case InlineRows():
                return self._inline(node)
        refused = _REFUSED.get(type(node))
        if refused is not None:
            refuse_part(*refused)
        return self._all(self.source(node))

    def _all(self, source: Source, more: Sequence[exp.Expr] = ()) -> exp.Select:
        """Return all columns of a relation."""
        items = [self.ctes.named(value, name) for name, value in source.columns.items()]
        return select([*items, *more], source.name)

    def _projected(self, node: ProjectedRows) -> exp.Query:
        columns, below = node.projection.columns, node.input
        if _only_renames(node):
            names = [ref.name for _, ref in columns if isinstance(ref, ColumnRef)]
            is_same = names == [name for name, _ in columns]
            if isinstance(below, OrderedRows) and is_same:
                return self._ordered(below, names)
            if isinstance(below, ProjectedRows) and is_same and names == self._names(below):
                return self.select(below)
        source = self.source(below)
        if node.projection.window_time is not None:
            time_us = self.ctes.names.column(END)
            lag = binary(exp.Sub, time_us, WINDOW_TIME_LAG_US)
            time = self.ctes.target.from_us(lag)
            source = replace(source, columns={**source.columns, node.projection.window_time: time})
        rows = TargetExpressions(self.ctes.target, source.columns)
        stored = [self.ctes.target.stored(rows.write(value), value.type) for _, value in columns]
        items = [
            self.ctes.named(value, name) for value, (name, _) in zip(stored, columns, strict=True)
        ]
        return select(items, source.name, rows.where(node.projection.filters))

    def _ordered(self, node: OrderedRows, names: Sequence[str]) -> exp.Select:
        source = self.source(node.input, "result")
        items = [self.ctes.named(source.columns[name], name) for name in names]
        query = select(items, source.name)
        if node.order:
            query.set("order", exp.Order(expressions=self._sorted(node.order, node.input, source)))
        if node.limit is not None:
            query.set("limit", exp.Limit(expression=number(node.limit)))
        if node.offset:
            query.set("offset", exp.Offset(expression=number(node.offset)))
        return query

    def _sorted(self, order: Sequence[RankOrder], node: PlanNode, source: Source) -> list[exp.Expr]:
        """Return the items of ORDER BY over the columns of a node."""
        types, target = column_types(node), self.ctes.target
        return [
            exp.Ordered(this=value, desc=part.is_descending, nulls_first=part.nulls_first)
            for part in order
            for value in target.sort_keys(source.columns[part.column], types.get(part.column, ""))
        ]

    def _ranked(self, node: RankedRows) -> exp.Select:
        source = self.source(node.input)
        order = self._sorted(node.order, node.input, source)
        window = exp.Window(
            this=call(node.function),
            partition_by=self._grouped(node.by, node.input, source),
            order=exp.Order(expressions=order) if order else None,
        )
        rank = self.ctes.named(cast(window, "int"), node.column)
        table = self.ctes.add("numbered", self._all(source, [rank]))
        column = self.ctes.names.column(node.column)
        first, last = node.ranks
        conditions = [binary(exp.LTE, column, last)]
        if first > 1:
            conditions.insert(0, binary(exp.GTE, column, first))
        items = self.ctes.items(*source.columns, node.column)
        return select(items, table, all_of(conditions))

    def _neighbour(self, part: Neighbour, node: PlanNode, source: Source) -> exp.Expr:
        """Return the item of LAG or LEAD over the rows of a node."""
        target = self.ctes.target
        args = [target.nullable(source.columns[part.value].copy()), number(part.distance)]
        if part.default.value is not None:
            args.append(cast(TargetExpressions(target, {}).write(part.default), part.type))
        over = exp.Window(
            this=call(part.function, *args),
            partition_by=self._grouped(part.by, node, source),
            order=exp.Order(expressions=self._sorted(part.order, node, source)),
        )
        return self.ctes.named(target.typed(over, part.type), part.column)

    def _grouped(self, names: Sequence[str], node: PlanNode, source: Source) -> list[exp.Expr]:
        """Return columns of a node as rows are grouped or joined by them."""
        types = column_types(node)
        return [
            self.ctes.target.grouped(source.columns[name].copy(), types.get(name, ""))
            for name in names
        ]

    def _joined(self, node: JoinedRows) -> exp.Select:
        left, right = self._apart(node.left, "left_rows"), self._apart(node.right, "right_rows")
        both = TargetExpressions(self.ctes.target, {**left.columns, **right.columns})
        names = [[pair[side] for pair in node.keys] for side in (0, 1)]
        sides = ((names[0], node.left, left), (names[1], node.right, right))
        pairs = zip(*(self._grouped(*side) for side in sides), strict=True)
        conditions = [binary(exp.EQ, *pair) for pair in pairs]
        if node.condition is not None:
            conditions.append(both.write(node.condition))
        on = all_of(conditions) or exp.true()
        is_filter = node.join_type in ("LeftSemi", "LeftAnti")
        if is_filter and not self.ctes.target.has_semi_joins:
            inner = select([number(1)], right.name, on)
            exists: exp.Expr = exp.Exists(this=inner)
            if node.join_type == "LeftAnti":
                exists = exp.Not(this=exists)
            items = [self.ctes.named(value, name) for name, value in left.columns.items()]
            return select(items, left.name, exists)
        side, kind = _JOINS[node.join_type]
        query = self._all(left if is_filter else Source(left.name, both.columns))
        join = exp.Join(this=right.name.copy(), on=on, side=side or None, kind=kind or None)
        query.set("joins", [join])
        return query

    def _apart(self, node: PlanNode, name: str) -> Source:
        """Return a side of a join, whose columns have the names of the plan.

        TextNames in the plan are different on both sides, columns of tables and windows may not be.
        """
        source = self.source(node, name)
        named = {name: self.ctes.names.column(name) for name in source.columns}
        if dict(source.columns) == named and not isinstance(node, GivenRows):
            return source
        return Source(self.ctes.add(name, self._all(source)), named)

    def _inline(self, node: InlineRows) -> exp.Query:
        rows = TargetExpressions(self.ctes.target, {})
        names = [column.name for column in node.columns]
        types = [column.type for column in node.columns]
        queries = []
        for row in node.rows:
            values = [
                cast(rows.write(value), type_) for value, type_ in zip(row, types, strict=True)
            ]
            pairs = zip(values, names, strict=True)
            queries.append(select([self.ctes.named(*pair) for pair in pairs], None))
        return union_all(queries)

    def _windowed(self, node: WindowedRows) -> Source:
        """Add rows once per window that contains them."""
        target, source = self.ctes.target, self.source(node.input)
        if node.window.emit_only_on_update:
            refuse_part("EMITONLYONUPDATE is not compiled", "EMITONLYONUPDATE")
        time, part = source.columns[node.time_column], f"{node.window.function}("
        time_us = local_us(target, time, node.time_type, node.time_zone, part)
        if isinstance(node.window, BaseAligned):
            table, start = self._rows_of_aligned(node, node.window, source, time_us)
            end: exp.Expr = self.ctes.names.column(END)
        else:
            table, start, end = self._rows_of_sessions(node, source, time_us)
        bounds = (start, end, binary(exp.Sub, end, WINDOW_TIME_LAG_US))
        columns: dict[str, exp.Expr] = {
            name: self.ctes.names.column(name) for name in source.columns
        }
        columns |= {
            name: target.from_us(bound) for name, bound in zip(node.names, bounds, strict=True)
        }
        return Source(table, columns)

    def _rows_of_aligned(
        self, node: WindowedRows, window: BaseAligned, source: Source, time_us: exp.Expr
    ) -> tuple[exp.Table, exp.Expr]:
        """Add rows with the ends of their windows, and return them with the starts."""
        target, assigner, end = self.ctes.target, window.assigner(), self.ctes.names.column(END)
        ends_sql = assigner.window_ends_sql(ARGUMENT)
        start_sql = assigner.window_start_sql(ARGUMENT)
        if not window.is_calendar:
            ends = target.unnest(on_target(ends_sql, time_us, target))
            table = self._timed(node, source, [self.ctes.named(ends, END)])
            return table, on_target(start_sql, end, target)
        kept, time = self.ctes.items(*source.columns), self.ctes.names.column(TIME)
        times = self._timed(node, source, [self.ctes.named(time_us, TIME)], "times")
        months, ends = in_months(self.ctes, "months_of_rows", times, [*kept, time], ends_sql, time)
        copies = select([*kept, self.ctes.named(target.unnest(ends), END)], months)
        table = self.ctes.add("rows_of_windows", copies, _COPIES)
        return in_months(self.ctes, "months_of_windows", table, [*kept, end], start_sql, end)

    def _timed(
        self,
        node: WindowedRows,
        source: Source,
        items: Sequence[exp.Expr],
        name: str = "rows_of_windows",
    ) -> exp.Table:
        """Add the rows that have a time, with more columns."""
        query = self._all(source, items)
        query.set("where", exp.Where(this=not_null(source.columns[node.time_column])))
        has_copies = node.window.cells is node.window and name == "rows_of_windows"
        return self.ctes.add(name, query, _COPIES if has_copies else "")

    def _rows_of_sessions(
        self, node: WindowedRows, source: Source, time_us: exp.Expr
    ) -> tuple[exp.Table, exp.Expr, exp.Expr]:
        """Add rows with their sessions, and return them with the bounds of the sessions."""
        window = node.window
        gap_us, last_us = window.cells.slice_width_us, time_us
        if window.row_length is not None:
            gap_us, last_us = 0, binary(exp.Add, time_us, source.columns[window.row_length])
        times = [self.ctes.named(time_us, FIRST_TIME), self.ctes.named(last_us, LAST_TIME)]
        below = self._timed(node, source, times)
        kept = self.ctes.items(*source.columns)
        columns = {name: self.ctes.names.column(name) for name in source.columns}
        partition = self._grouped(window.partition, node.input, Source(below, columns))
        below = number_sessions(self.ctes, below, kept, partition, gap_us)
        below = spans_of_sessions(self.ctes, below, kept, partition)
        first, last = self.ctes.items(FIRST_TIME, LAST_TIME)
        return below, first, binary(exp.Add, last, gap_us) if gap_us else last


_NAMES: dict[type[PlanNode], str] = {
    OrderedRows: "sorted_rows",
    NeighbourRows: "neighbours",
    RankedRows: "ranked",
    JoinedRows: "joined",
    AsOfRows: "joined_as_of",
    UnitedRows: "united",
    InlineRows: "given",
}


def _table(name: str) -> exp.Table:
    parts = [quoted(part) for part in name.split(".")]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))


def _only_renames(node: ProjectedRows) -> bool:
    projection = node.projection
    if projection.filters or projection.window_time is not None:
        return False
    return all(
        isinstance(value, ColumnRef) and "." not in value.name for _, value in projection.columns
    )
