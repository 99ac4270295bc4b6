"""FILL on a target: windows without rows from series, and values before them by running counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.lowering.sql.assigners import ARGUMENT, on_target
from planner.lowering.sql.clocks import instant, is_fixed
from planner.lowering.sql.expressions import TargetExpressions
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, Source, over, rows_before, select, union_all
from planner.lowering.sql.target import FLOATING
from planner.lowering.sql.text import binary, call, case, cast, is_flat, not_null, number
from planner.nodes.aggregate_plans import END
from runtime.plan.rows import FilledRows
from runtime.spec.aggregates import MergeOp
from runtime.spec.filling import FillConstant, Filler, FillLocf
from runtime.windows.base import BaseAligned

# Bounds of a key's windows; whether a row is an added one; whether all rows of its window are
_FIRST, _LAST = "$first_end_us", "$last_end_us"
_ADDED, _EMPTY = "$is_added", "$is_empty"
# Number of values up to a row
_COUNT = "$count"


def fill_windows(ctes: Ctes, node: FilledRows, source: Source, types: Mapping[str, str]) -> Source:
    """Add CTEs with the rows of a relation and the windows that FILL adds.

    Args:
        ctes: CTEs of the text.
        node: Windows and fillers.
        source: Rows.
        types: Types of their columns.

    Raises:
        NotPortable: The target might add other windows or values.
    """
    _check(node, types)
    return _FillWriter(ctes, node, source, types).write()


def _check(node: FilledRows, types: Mapping[str, str]) -> None:
    filling = node.filling
    if filling.window.is_calendar or filling.window.constant_stride_us is None:
        refuse_part("FILL of windows of months is not compiled", "FILL")
    for name, filler in filling.fillers:
        if not isinstance(filler, FillConstant | FillLocf):
            refuse_part("LINEAR is not compiled: engines round lines differently", "LINEAR")
        if not is_flat(types[name]):
            refuse_part(f"FILL of {types[name].upper()} is not compiled", name)


class _FillWriter:
    """Writer of one FILL. Arguments are as in `fill_windows`."""

    def __init__(
        self, ctes: Ctes, node: FilledRows, source: Source, types: Mapping[str, str]
    ) -> None:
        filling = node.filling
        self.ctes, self.names, self.target = ctes, ctes.names, ctes.target
        self.filling, self.source, self.types = filling, source, types
        self.zone = node.time_zone if filling.is_of_instants else "UTC"
        self.fillers = dict(filling.fillers)
        self.window: BaseAligned = filling.window
        self.keys = ctes.items(*filling.keys)

    def write(self) -> Source:
        """Return the rows and the added windows."""
        names, end, added = self.names, self.names.column(END), self.names.column(_ADDED)
        rows = self._rows()
        both = self._rows_and_windows(rows)
        carried = [name for name, filler in self.fillers.items() if isinstance(filler, FillLocf)]
        empty = over(call("MIN", added), [*self.keys, end])
        order = [end.copy(), *self._order()]
        counts = [self._count(name, order) for name in carried]
        kept = [*self.keys, end, *self.ctes.items(*self.fillers), added]
        marked = self.ctes.add(
            "windows_and_gaps",
            select([*kept, self.ctes.named(empty, _EMPTY), *counts], both),
            "is_empty is 1 for windows without rows",
        )
        values = [self.ctes.named(self._value(*pair), pair[0]) for pair in self.fillers.items()]
        is_kept = binary(exp.EQ, added, names.column(_EMPTY))
        table = self.ctes.add("filled", select([*self.keys, end, *values], marked, is_kept))
        columns: dict[str, exp.Expr] = {}
        columns |= {name: names.column(name) for name in (*self.filling.keys, *self.fillers)}
        columns[self.filling.end] = self.target.from_us(end)
        if self.filling.start is not None:
            sql = self.window.assigner().window_start_sql(ARGUMENT)
            columns[self.filling.start] = self.target.from_us(on_target(sql, end, self.target))
        return Source(table, columns)

    def _rows(self) -> exp.Table:
        """Add the rows with the ends of their windows, NULL for rows that declare a key."""
        columns = self.source.columns
        keys = [
            self.ctes.named(self.target.grouped(columns[name].copy(), self.types[name]), name)
            for name in self.filling.keys
        ]
        end = self.target.to_us(columns[self.filling.end], "timestamp_ntz")
        values = [self.ctes.named(columns[name], name) for name in self.fillers]
        return self.ctes.add(
            "given_windows", select([*keys, self.ctes.named(end, END), *values], self.source.name)
        )

    def _rows_and_windows(self, rows: exp.Table) -> exp.Table:
        """Add the rows and all windows between the bounds of their keys."""
        end = self.names.column(END)
        first, last = self.ctes.items(_FIRST, _LAST)
        bounds = [
            self.ctes.named(call(function, end if bound is None else bound), name)
            for function, bound, name in (
                ("MIN", self._first_end(), _FIRST),
                ("MAX", self._last_end(), _LAST),
            )
        ]
        series = self.ctes.add(
            "bounds",
            select([*self.keys, *bounds], rows, n_keys=len(self.keys)),
            "ends of the first and the last window of a key",
        )
        stride = self.window.constant_stride_us
        assert stride is not None
        ends = self.target.unnest(self.target.series(first, last, number(stride)))
        nulls = [self.ctes.named(cast(exp.Null(), self.types[name]), name) for name in self.fillers]
        has_windows = binary(exp.LTE, first, last)
        items = [*self.keys, self.ctes.named(ends, END), *nulls]
        windows = self.ctes.add("all_windows", select(items, series, has_windows))
        shown = None if is_fixed(self.zone) else self._has_instants(end)
        columns = [*self.keys, end, *self.ctes.items(*self.fillers)]
        parts = [
            select([*columns, self.ctes.named(number(flag), _ADDED)], table, condition)
            for flag, table, condition in ((0, rows, not_null(end)), (1, windows, shown))
        ]
        return self.ctes.add("rows_and_windows", union_all(parts))

    def _has_instants(self, end: exp.Expr) -> exp.Expr:
        """Return whether the clocks of the zone show a window. They skip some in spring."""

        def shown(time_us: exp.Expr) -> exp.Expr:
            there = instant(self.target, time_us, self.zone, "FILL")
            again = self.target.wall_clock_us(there, self.zone)
            assert again is not None
            return again

        # a skipped start becomes a time after the gap
        start = on_target(self.window.assigner().window_start_sql(ARGUMENT), end, self.target)
        last = exp.Paren(this=binary(exp.Sub, end, 1))
        return exp.Or(
            this=binary(exp.LT, shown(exp.Paren(this=start)), end),
            expression=binary(exp.EQ, shown(last), last),
        )

    def _first_end(self) -> exp.Expr | None:
        """Return the end of the first window that does not start before FROM."""
        from_us, window = self.filling.from_us, self.window
        if from_us is None:
            return None
        if window.length is not None:
            return _bigint(window.assigner().next_window_end(from_us + window.length.us - 1))
        (*_, (start_us, last_us)) = bounds = next(window.windows_of_rows([from_us]))
        stride = window.constant_stride_us
        assert stride is not None
        return _bigint(bounds[0][1] if start_us == from_us else last_us + stride)

    def _last_end(self) -> exp.Expr | None:
        """Return the end of the last window that does not end after TO."""
        to_us = self.filling.to_us
        return None if to_us is None else _bigint(self.window.assigner().previous_window_end(to_us))

    def _order(self) -> list[exp.Expr]:
        """Return the keys that order the rows of a window."""
        name = self.filling.order
        if name is None:
            return []
        keys = self.target.sort_keys(self.names.column(name), self.types[name])
        return [exp.Ordered(this=key, nulls_first=True) for key in keys]

    def _count(self, name: str, order: Sequence[exp.Expr]) -> exp.Expr:
        count = over(call("COUNT", self.names.column(name)), self.keys, order, rows_before(None))
        return self.ctes.named(count, name + _COUNT)

    def _value(self, name: str, filler: Filler) -> exp.Expr:
        """Return a column, in added windows with the value of its filler."""
        column, type_ = self.names.column(name), self.types[name]
        if isinstance(filler, FillConstant):
            if filler.value.value is None:
                return column
            constant = TargetExpressions(self.target, {}).write(filler.value)
            value = cast(constant, type_)
        else:
            # one value and the NULLs after it have the same count
            largest = (
                call("MAX", column)
                if type_ in FLOATING
                else self.target.merge(MergeOp.MAX, column, type_)
            )
            value = over(largest, [*self.keys, self.names.column(name + _COUNT)])
        is_added = binary(exp.EQ, self.names.column(_ADDED), 1)
        return self.target.typed(case([(is_added, value)], column), type_)


def _bigint(time_us: int) -> exp.Expr:
    return cast(number(time_us), "bigint")
