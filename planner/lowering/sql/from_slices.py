"""Windows from slices on a target, as CTEs: rows to slices, slices to windows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.assigners import ARGUMENT, in_months, on_target
from planner.lowering.sql.clocks import local_us
from planner.lowering.sql.expressions import TargetExpressions
from planner.lowering.sql.frames import FrameWriter, reason_against_frames
from planner.lowering.sql.partials import (
    MergedColumn,
    averages,
    centers,
    merges_of,
    partials_of,
    partials_of_rows,
    types_of_partial,
)
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, Source, select, union_all
from planner.lowering.sql.sessions import SESSION, number_sessions, spans_of_sessions
from planner.lowering.sql.text import all_of, binary, call, cast, not_null, number
from planner.nodes.aggregate_plans import END, SLICE_END, START, TIME
from runtime.plan.arrow_rows import RowLocalStep, RowScan, grouping_sets, local_rows
from runtime.plan.exchange import MergedWindows
from runtime.plan.local import GroupingSets
from runtime.windows import Window
from runtime.windows.base import BaseAligned
from runtime.windows.times import FIRST_TIME, LAST_TIME, WINDOW_TIME_LAG_US

# Columns of slices
_SLICE = SLICE_END
# A key of a grouping set, next to the column that it may be
_KEY = "$of_set"
_WINDOWS = "windows"


class WindowWriter:
    """Writer of one window aggregation.

    Args:
        ctes: CTEs of the text.
        node: Windows.
        source: Rows of the local stage.
    """

    def __init__(self, ctes: Ctes, node: MergedWindows, source: Source) -> None:
        self.ctes = ctes
        self.node = node
        self.aggregation = node.aggregation
        self.window: Window = node.aggregation.window
        self.keys = node.aggregation.keys
        local = local_rows(node)
        assert isinstance(local.source, RowScan)
        self.local: RowLocalStep = local
        self.rows = TargetExpressions(ctes.target, source.columns)
        self.source = source
        accumulators = node.aggregation.accumulators
        self.partials = partials_of(local.source.partials, accumulators)
        self.types = {
            column: type_
            for part in self.partials
            for column, type_ in types_of_partial(part).items()
        }

    def write(self) -> Source:
        """Add the CTEs of the windows, and return them.

        Raises:
            NotPortable: The target would compute other rows.
        """
        if not self.node.has_windows:
            return self._groups()
        if self.window.emit_only_on_update:
            refuse_part("EMITONLYONUPDATE is not compiled", self.window.function)
        if isinstance(self.window, BaseAligned):
            return self._aligned(self.window)
        return self._sessions()

    # -- rows to slices ------------------------------------------------------------------------

    def _key_items(self) -> list[exp.Expr]:
        return [
            self.ctes.named(self.ctes.target.grouped(self.rows.write(key), key.type), name)
            for name, key in self.local.source.keys
            if name != self.window.row_length
        ]

    def _partial_items(self) -> list[exp.Expr]:
        return [
            self.ctes.named(*pair)
            for part in self.partials
            for pair in zip(partials_of_rows(part, self.rows), part.columns, strict=True)
        ]

    def _time_us(self) -> exp.Expr:
        scan, part = self.local.source, f"{self.window.function}("
        time = self.rows.write(scan.time)
        return local_us(self.ctes.target, time, scan.time.type, scan.time_zone, part)

    def _slices(self, cells: BaseAligned, extras: Sequence[exp.Expr] = ()) -> exp.Table:
        """Add the slices: rows by key and slice."""
        scan = self.local.source
        time_us = self._time_us()
        has_time = not_null(self.rows.write(scan.time))
        condition = all_of([*(self.rows.write(part) for part in scan.filters), has_time])
        rows = self.source.name
        values = [*self._key_items(), *extras, *self._partial_items()]
        if cells.is_calendar:
            # arithmetic of months repeats its argument
            times = select([*_columns(values), self.ctes.named(time_us, TIME)], rows, condition)
            rows, condition = self.ctes.add("times", times, "rows with their times"), None
            time_us = self.ctes.names.column(TIME)
        keys = self._key_items()
        sets = grouping_sets(self.node)
        if sets is not None and self._order_of_slices():
            time = [time_us] if cells.is_calendar else [self.rows.write(scan.time)]
            read = [*extras, *self._partial_items(), *time]
            rows, condition = self._rows_of_sets(sets, read, rows, condition), None
            names = [name for name, _ in scan.keys]
            keys = [self.ctes.named(self.ctes.names.column(name + _KEY), name) for name in names]
            keys += self.ctes.items(sets.id_column)
        end, sql = self._slice_end(cells), cells.assigner().slice_end_sql(ARGUMENT)
        if cells.is_calendar:
            read = _columns([*keys, *extras, *self._partial_items(), time_us])
            rows, end_us = in_months(self.ctes, "months_of_rows", rows, read, sql, time_us)
        elif end is None:
            end_us = on_target(sql, time_us, self.ctes.target)
        else:
            end_us = self.ctes.target.to_us(end, self.local.source.time.type)
        items = [*keys, self.ctes.named(end_us, _SLICE), *extras, *self._partial_items()]
        if end is None:
            query = select(items, rows, condition, len(keys) + 1)
        else:
            query = select(items, rows, condition, len(keys), [end])
        name, piece = ("slices", "slice") if self.window.has_slices else ("pieces", "piece")
        return self._expanded(
            self.ctes.add(name, query, f"rows of a key and {piece}, which ends at slice_us")
        )

    def _slice_end(self, cells: BaseAligned) -> exp.Expr | None:
        """Return the end of a row's slice as a time, if the target groups by it."""
        if cells.is_calendar or not cells.has_even_slices:
            return None
        time = self.local.source.time
        return self.ctes.target.slice_end(self.rows.write(time), time.type, *cells.pieces)

    def _expanded(self, slices: exp.Table) -> exp.Table:
        """Repeat the slices once per grouping set."""
        sets = grouping_sets(self.node)
        if sets is None or self._order_of_slices():
            return slices
        names = [name for name, _ in self.local.source.keys]
        others = self.ctes.items(_SLICE, *self._partial_columns())
        parts = []
        for set_id, keys in sets.sets:
            types = {name: key.type for name, key in self.local.source.keys}
            kept = [
                self.ctes.names.column(name)
                if name in keys
                else self.ctes.named(_null(types[name]), name)
                for name in names
            ]
            set_item = self.ctes.named(number(set_id), sets.id_column)
            parts.append(select([*kept, set_item, *others], slices))
        return self.ctes.add("grouping_sets", union_all(parts), "slices once per grouping set")

    def _rows_of_sets(
        self,
        sets: GroupingSets,
        read: Sequence[exp.Expr],
        rows: exp.Table,
        condition: exp.Expr | None,
    ) -> exp.Table:
        """Repeat the rows once per grouping set: texts of slices do not keep the order of rows."""
        n_orders = len({str(part) for item in read for part in item.find_all(exp.Order)})
        if n_orders > 1 and not self.ctes.target.has_orders_of_unions:
            refuse_part(
                f"{self.ctes.target.title} orders the rows of GROUPING SETS in one way only",
                "LISTAGG(",
                "use one LISTAGG, FIRST_VALUE or the like in a query",
            )
        used = _columns(read)
        types = {name: key.type for name, key in self.local.source.keys}
        values = {item.alias_or_name: item.unalias() for item in self._key_items()}
        parts = []
        for set_id, names in sets.sets:
            keys = []
            for name, type_ in types.items():
                shown = self.ctes.names.identifier(name).name
                value = values[shown] if name in names else _null(type_)
                keys.append(self.ctes.named(value, name + _KEY))
            set_item = self.ctes.named(number(set_id), sets.id_column)
            parts.append(select([*used, *keys, set_item], rows, condition))
        return self.ctes.add("grouping_sets", union_all(parts), "rows once per grouping set")

    def _partial_columns(self) -> list[str]:
        return [column for part in self.partials for column in part.columns]

    def _order_of_slices(self) -> list[exp.Expr]:
        """Return the column that orders the slices of a window, if its result depends on it."""
        has_order = any(part.into.merges_in_order for part in self.partials)
        return self.ctes.items(_SLICE) if has_order else []

    # -- slices to windows ---------------------------------------------------------------------

    def _merges(self) -> list[MergedColumn]:
        return [
            merge
            for part in self.aggregation.accumulators
            for merge in merges_of(part, self.types, self.ctes.names, self.ctes.target)
        ]

    def _aligned(self, window: BaseAligned) -> Source:
        slices = self._slices(window)
        keys = self.ctes.items(*self.keys)
        merges = self._merges()
        end = self.ctes.names.column(END)
        if window.tiles and grouping_sets(self.node) is None:
            ends = self.ctes.named(self.ctes.names.column(_SLICE), END)
            items = [*keys, ends, *(self.ctes.named(m.of_one, m.name) for m in merges)]
            query = select(items, slices)
            comment = "a window is one slice"
        elif not (reason := self._reason_against_frames(window)):
            accumulators = self.aggregation.accumulators
            frames = FrameWriter(self.ctes, window, self.keys, accumulators, self.types)
            query, comment = frames.write(slices)
        else:
            below = self._centered(self._copies(window, slices, reason), [*keys, end])
            items = [*keys, end, *(self.ctes.named(m.of_slices, m.name) for m in merges)]
            query = select(items, below, n_keys=len(keys) + 1)
            comment = "slices merged into the windows that end at end_us"
        table = self.ctes.add(_WINDOWS, query, comment)
        sql = window.assigner().window_start_sql(ARGUMENT)
        if not window.is_calendar:
            return self._source(table, on_target(sql, end, self.ctes.target))
        columns = [end, *self.ctes.items(*(merge.name for merge in merges))]
        table, start = in_months(self.ctes, "months_of_windows", table, [*keys, *columns], sql, end)
        bounds = select([*keys, self.ctes.named(start, START), *columns], table)
        table = self.ctes.add("windows_and_starts", bounds, "windows with start_us")
        return self._source(table, self.ctes.names.column(START))

    def _reason_against_frames(self, window: BaseAligned) -> str:
        if grouping_sets(self.node) is not None:
            return "grouping sets repeat slices"
        accumulators = self.aggregation.accumulators
        return reason_against_frames(window, accumulators, self.types, self.ctes.target)

    def _copies(self, window: BaseAligned, slices: exp.Table, reason: str) -> exp.Table:
        """Add each slice once per window that contains it."""
        last_us = binary(exp.Sub, self.ctes.names.column(_SLICE), 1)
        sql, keys = window.assigner().window_ends_sql(ARGUMENT), self.ctes.items(*self.keys)
        kept = [*self._order_of_slices(), *self.ctes.items(*self._partial_columns())]
        if window.is_calendar:
            read = _columns([*keys, *kept, last_us])
            slices, ends = in_months(self.ctes, "months_of_slices", slices, read, sql, last_us)
        else:
            ends = on_target(sql, last_us, self.ctes.target)
        items = [*keys, self.ctes.named(self.ctes.target.unnest(ends), END), *kept]
        comment = f"each slice once per window that has it, because {reason}"
        return self.ctes.add("slices_of_windows", select(items, slices), comment)

    def _centered(
        self, below: exp.Table, window: Sequence[exp.Expr], others: Sequence[exp.Expr] = ()
    ) -> exp.Table:
        """Add the means of windows to their slices, if variances are merged.

        Args:
            below: Slices of windows.
            window: Columns that the slices of a window have in common.
            others: Other columns to keep.
        """
        found = centers(self.aggregation.accumulators, window, self.ctes.names)
        if not found:
            return below
        partials = self.ctes.items(*self._partial_columns())
        kept = [*window, *others, *self._order_of_slices(), *partials]
        means = [self.ctes.named(mean, name) for name, mean in found.items()]
        return self.ctes.add(
            "slices_and_means", select([*kept, *means], below), "the means of whole windows"
        )

    def _sessions(self) -> Source:
        """Merge pieces of sessions.

        Rows of a partition in one piece are at most the gap apart, so they are in one session.
        """
        window = self.window
        time_us = self._time_us()
        gap_us, last_us = window.cells.slice_width_us, time_us
        if window.row_length is not None:
            # a row reaches to its own end
            length = dict(self.local.source.keys)[window.row_length]
            gap_us, last_us = 0, binary(exp.Add, time_us, self.rows.write(length))
        bounds = [
            self.ctes.named(call("MIN", time_us), FIRST_TIME),
            self.ctes.named(call("MAX", last_us), LAST_TIME),
        ]
        if grouping_sets(self.node) is not None:
            refuse_part("GROUPING SETS over SESSION are not compiled", "SESSION(")
        pieces = self._slices(window.cells, bounds)
        keys, partition = self.ctes.items(*self.keys), self.ctes.items(*window.partition)
        partials = self.ctes.items(*self._partial_columns())
        kept = [*keys, *self._order_of_slices(), *partials]
        below = number_sessions(self.ctes, pieces, kept, partition, gap_us)
        if set(window.partition) != set(self.keys):
            # a session spans rows of several groups
            below = spans_of_sessions(self.ctes, below, kept, partition)
        session, first, last = self.ctes.items(SESSION, FIRST_TIME, LAST_TIME)
        below = self._centered(below, [*keys, session], [first, last])
        start = self.ctes.named(call("MIN", first), START)
        end = self.ctes.named(binary(exp.Add, call("MAX", last), gap_us), END)
        merged = [self.ctes.named(m.of_slices, m.name) for m in self._merges()]
        query = select([*keys, session, start, end, *merged], below, n_keys=len(keys) + 1)
        table = self.ctes.add(_WINDOWS, query, "pieces merged into sessions")
        return self._source(table, self.ctes.names.column(START))

    def _groups(self) -> Source:
        """Write GROUP BY without windows."""
        keys = self._key_items()
        condition = self.rows.where(self.local.source.filters)
        items = [*keys, *self._partial_items()]
        query = select(items or [number(1)], self.source.name, condition, len(keys))
        if not keys and not self.node.is_total:
            query.set("having", exp.Having(this=binary(exp.GT, call("COUNT", exp.Star()), 0)))
        table = self.ctes.add("totals" if not keys else "grouped", query)
        columns: dict[str, exp.Expr] = {name: self.ctes.names.column(name) for name in self.keys}
        columns |= {merge.name: merge.of_one for merge in self._merges()}
        return Source(table, columns | self._averages())

    def _source(self, table: exp.Table, start: exp.Expr) -> Source:
        """Return windows whose bounds are times."""
        names, target = self.ctes.names, self.ctes.target
        end = names.column(END)
        columns: dict[str, exp.Expr] = {name: names.column(name) for name in self.keys}
        columns |= {merge.name: names.column(merge.name) for merge in self._merges()}
        columns |= self._averages()
        columns[START] = target.from_us(start)
        columns[END] = target.from_us(end)
        if self.node.window_time is not None:
            time_us = binary(exp.Sub, end, WINDOW_TIME_LAG_US)
            columns[self.node.window_time] = target.from_us(time_us)
        return Source(table, columns)

    def _averages(self) -> dict[str, exp.Expr]:
        return averages(self.aggregation, self.types, self.ctes.names, self.ctes.target)


def _columns(items: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the columns that expressions read, each once."""
    return list(dict.fromkeys(part for item in items for part in item.find_all(exp.Column)))


def _null(type_: str) -> exp.Expr:
    return cast(exp.Null(), type_)
