"""FILL on a target: windows without rows from series, and their values by running counts.

A running count of values is the same for a value and the NULLs after it, and one less for the NULLs
before it. So both values next to a NULL are found without a join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.lowering.sql.assigners import ARGUMENT, in_months, on_target
from planner.lowering.sql.clocks import instant, is_fixed
from planner.lowering.sql.expressions import TargetExpressions
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, Source, over, rows_before, select, union_all
from planner.lowering.sql.target import FLOATING, Target
from planner.lowering.sql.text import (
    all_of,
    binary,
    call,
    case,
    cast,
    is_flat,
    not_null,
    number,
)
from planner.nodes.aggregate_plans import END, START
from planner.scalars.decimals import decimal_digits
from runtime.plan.arrow_rows import FilledRows
from runtime.shown_types import shown_type
from runtime.spec.aggregates import MergeOp
from runtime.spec.filling import FillConstant, Filler, FillLinear, FillLocf
from runtime.windows.base import BaseAligned

# Bounds of a key's windows; whether a row is an added one; whether all rows of its window are
_FIRST, _LAST = "$first_end_us", "$last_end_us"
_ADDED, _EMPTY = "$is_added", "$is_empty"
# Months of windows, and the first microseconds of months
_FIRST_MONTH, _LAST_MONTH, _MONTH = "$first_month", "$last_month", "$month"
# The last microsecond of a window, the instants of the first and of this one, and the offsets
# of clocks a day before them and after
_LAST_TIME = "$last_us"
_INSTANT, _OFFSET_BEFORE, _OFFSET_AFTER = "_instant", "_offset_before", "_offset_after"
_PREFIXES = {START: "$start", _LAST_TIME: "$last"}
# Number of values up to a row
_COUNT = "$count"
# The values next to a row, the time from the first one to the row, and to the second one
_BEFORE, _AFTER, _PASSED, _LENGTH = "$before", "$after", "$passed_us", "$length_us"
# The largest finite half of a difference of two doubles that is finite, too
_MAX_HALF = 8.988465674311579e307


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
    for name, _ in node.filling.fillers:
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
        both = self._rows_and_windows(self._rows())
        empty = over(call("MIN", added), [*self.keys, end])
        order = [end.copy(), *self._order()]
        counts = [self._count(name, order) for name, _ in self._with(FillLocf, FillLinear)]
        others = [*self.ctes.items(*self.fillers), added]
        bounds: list[exp.Expr] = [end]
        if self.window.is_calendar:
            both, start = self._starts("months_of_all", both, [*self.keys, end, *others])
            bounds.append(self.ctes.named(start, START))
        kept = [*self.keys, *bounds, *others]
        marked = self.ctes.add(
            "windows_and_gaps",
            select([*kept, self.ctes.named(empty, _EMPTY), *counts], both),
            "is_empty is 1 for windows without rows",
        )
        marked = self._neighbours(marked)
        values = [self.ctes.named(self._value(*pair), pair[0]) for pair in self.fillers.items()]
        is_kept = binary(exp.EQ, added, names.column(_EMPTY))
        bounds = self.ctes.items(END, *([START] if self.window.is_calendar else []))
        table = self.ctes.add("filled", select([*self.keys, *bounds, *values], marked, is_kept))
        columns: dict[str, exp.Expr] = {}
        columns |= {name: names.column(name) for name in (*self.filling.keys, *self.fillers)}
        columns[self.filling.end] = self.target.from_us(end)
        if self.filling.start is not None:
            has_start, start = self.window.is_calendar, names.column(START)
            start_us = start if has_start else self._starts("", table, [])[1]
            columns[self.filling.start] = self.target.from_us(start_us)
        return Source(table, columns)

    def _with(self, *kinds: type[Filler]) -> list[tuple[str, str]]:
        """Return the names and types of the columns with fillers of these kinds."""
        return [
            (name, self.types[name])
            for name, filler in self.fillers.items()
            if isinstance(filler, kinds)
        ]

    def _starts(
        self, name: str, windows: exp.Table, kept: Sequence[exp.Expr]
    ) -> tuple[exp.Table, exp.Expr]:
        """Return windows and their starts. Windows of months get a CTE with their months."""
        sql, end = self.window.assigner().window_start_sql(ARGUMENT), self.names.column(END)
        if self.window.is_calendar:
            return in_months(self.ctes, name, windows, kept, sql, end)
        return windows, on_target(sql, end, self.target)

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
        windows = self._windows(series)
        conditions = []
        if self._has_more_windows:
            conditions += [binary(exp.GTE, end, first), binary(exp.LTE, end, last)]
        if not is_fixed(self.zone):
            windows = self._instants(windows)
            conditions.append(exp.Paren(this=self._has_instants(end)))
        columns = [*self.keys, end, *self.ctes.items(*self.fillers)]
        parts = [
            select([*columns, self.ctes.named(number(flag), _ADDED)], table, condition)
            for flag, table, condition in (
                (0, rows, not_null(end)),
                (1, windows, all_of(conditions)),
            )
        ]
        return self.ctes.add("rows_and_windows", union_all(parts))

    @property
    def _has_more_windows(self) -> bool:
        """Whether the windows of a series may be beyond the bounds of their keys."""
        series = self.window.month_series
        return series is not None and series.has_arrays

    def _windows(self, bounds: exp.Table) -> exp.Table:
        """Add all windows between the bounds of their keys."""
        series, limits = self.window.month_series, [_FIRST, _LAST]
        if series is None:
            stride = self.window.constant_stride_us
            assert stride is not None
            ends = self._series(_FIRST, _LAST, stride)
            return self._all_windows(bounds, ends, condition=self._has_windows())
        kept = self.ctes.items(*limits) if series.has_arrays else []
        months = [
            self.ctes.named(on_target(series.month_sql(ARGUMENT), bound, self.target), name)
            for bound, name in zip(
                self.ctes.items(*limits), (_FIRST_MONTH, _LAST_MONTH), strict=True
            )
        ]
        of_bounds = self.ctes.add(
            "months_of_bounds",
            select([*self.keys, *kept, *months], bounds, self._has_windows()),
            "months are counted from January 1970",
        )
        month = self.ctes.named(self._series(_FIRST_MONTH, _LAST_MONTH, series.step), _MONTH)
        of_windows = self.ctes.add("months", select([*self.keys, *kept, month], of_bounds))
        ends = on_target(series.ends_sql(ARGUMENT), self.names.column(_MONTH), self.target)
        ends = self.target.unnest(ends) if series.has_arrays else ends
        return self._all_windows(of_windows, ends, kept)

    def _has_windows(self) -> exp.Expr:
        return binary(exp.LTE, *self.ctes.items(_FIRST, _LAST))

    def _series(self, first: str, last: str, step: int) -> exp.Expr:
        low, high = self.ctes.items(first, last)
        return self.target.unnest(self.target.series(low, high, number(step)))

    def _all_windows(
        self,
        source: exp.Table,
        end: exp.Expr,
        kept: Sequence[exp.Expr] = (),
        condition: exp.Expr | None = None,
    ) -> exp.Table:
        nulls = [self.ctes.named(cast(exp.Null(), self.types[name]), name) for name in self.fillers]
        items = [*self.keys, *kept, self.ctes.named(end, END), *nulls]
        return self.ctes.add("all_windows", select(items, source, condition))

    def _instants(self, windows: exp.Table) -> exp.Table:
        """Add the instants of the first and the last microsecond of windows."""
        end = self.names.column(END)
        limits = self.ctes.items(_FIRST, _LAST) if self._has_more_windows else []
        kept = [*self.keys, *limits, end, *self.ctes.items(*self.fillers)]
        windows, start = self._starts("months_of_all_windows", windows, kept)
        last = self.ctes.named(binary(exp.Sub, end, 1), _LAST_TIME)
        windows = self.ctes.add(
            "bounds_of_all_windows",
            select([*kept, self.ctes.named(start, START), last], windows),
            "their first and last microseconds",
            is_computed_once=True,
        )
        times = self.ctes.items(START, _LAST_TIME)
        offsets = [item for name in _PREFIXES for item in self._offsets(name)]
        if offsets:
            windows = self.ctes.add(
                "offsets_of_all_windows",
                select([*kept, *times, *offsets], windows),
                "how far clocks are ahead of UTC a day before both and after",
                is_computed_once=True,
            )
        instants = [
            self.ctes.named(self._instant(name, has_offsets=bool(offsets)), prefix + _INSTANT)
            for name, prefix in _PREFIXES.items()
        ]
        return self.ctes.add(
            "instants_of_all_windows",
            select([*kept, *instants], windows),
            "when clocks show both",
            is_computed_once=True,
        )

    def _offsets(self, name: str) -> list[exp.Expr]:
        """Return the items with the offsets around a time, if the target needs them."""
        found = self.target.offsets_around(self.names.column(name), self.zone)
        names = (_PREFIXES[name] + part for part in (_OFFSET_BEFORE, _OFFSET_AFTER))
        return [self.ctes.named(*pair) for pair in zip(found or (), names, strict=False)]

    def _instant(self, name: str, *, has_offsets: bool) -> exp.Expr:
        """Return the instant at which clocks show a time."""
        prefix = _PREFIXES[name]
        before, after = self.ctes.items(prefix + _OFFSET_BEFORE, prefix + _OFFSET_AFTER)
        offsets = (before, after) if has_offsets else None
        return instant(self.target, self.names.column(name), self.zone, "FILL", offsets)

    def _has_instants(self, end: exp.Expr) -> exp.Expr:
        """Return whether the clocks of the zone show a window. They skip some in spring."""
        first, last = (
            self.target.wall_clock_us(there, self.zone)
            for there in self.ctes.items(*(prefix + _INSTANT for prefix in _PREFIXES.values()))
        )
        assert first is not None and last is not None
        # a skipped start becomes a time after the gap
        return exp.Or(
            this=binary(exp.LT, first, end),
            expression=binary(exp.EQ, last, binary(exp.Sub, end, 1)),
        )

    def _first_end(self) -> exp.Expr | None:
        """Return the end of the first window that does not start before FROM."""
        from_us = self.filling.from_us
        if from_us is None:
            return None
        return _bigint(self.window.assigner().first_window_end_from(from_us))

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

    def _neighbours(self, marked: exp.Table) -> exp.Table:
        """Add the nearest values of columns with LINEAR, and the times between them and the row."""
        linear = self._with(FillLinear)
        if not linear:
            return marked
        # windows of CUMULATE share their start
        time = self.names.column(
            START if self.window.is_calendar and not self.window.grows else END
        )
        items: list[exp.Expr] = []
        for name, type_ in linear:
            column = self.names.column(name)
            time_of_value = case([(not_null(column), time)])
            before, after = self._run(name), self._run_before(name)
            first, second = (over(call("MAX", time_of_value), run) for run in (before, after))
            times = (binary(exp.Sub, time, first), binary(exp.Sub, second, first))
            passed, length = (cast(t, "double") if type_ in FLOATING else t for t in times)
            for value, part in (
                (over(self._only(name, type_), before), _BEFORE),
                (over(self._only(name, type_), after), _AFTER),
                (passed, _PASSED),
                (length, _LENGTH),
            ):
                items.append(self.ctes.named(value, name + part))
        counts = [name + _COUNT for name, _ in self._with(FillLocf)]
        bounds = self.ctes.items(END, *([START] if self.window.is_calendar else []))
        kept = self.ctes.items(*self.fillers, _ADDED, _EMPTY, *counts)
        return self.ctes.add(
            "gaps_and_neighbours",
            select([*self.keys, *bounds, *kept, *items], marked),
            "the nearest values before and after a gap, and the times from the first to both",
        )

    def _run(self, name: str) -> list[exp.Expr]:
        """Return the PARTITION BY of a value and the NULLs after it."""
        return [*self.keys, self.names.column(name + _COUNT)]

    def _run_before(self, name: str) -> list[exp.Expr]:
        """Return the PARTITION BY of a value and the NULLs before it."""
        column, count = self.names.column(name), self.names.column(name + _COUNT)
        is_null = exp.Is(this=column, expression=exp.Null())
        return [*self.keys, case([(is_null, binary(exp.Add, count, 1))], count)]

    def _only(self, name: str, type_: str) -> exp.Expr:
        """Return the aggregate that picks the only value of a run."""
        column = self.names.column(name)
        if type_ in FLOATING:
            return call("MAX", column)
        return self.target.merge(MergeOp.MAX, column, type_)

    def _value(self, name: str, filler: Filler) -> exp.Expr:
        """Return a column, in added windows with the value of its filler."""
        column, type_ = self.names.column(name), self.types[name]
        if isinstance(filler, FillConstant):
            if filler.value.value is None:
                return column
            constant = TargetExpressions(self.target, {}).write(filler.value)
            value = cast(constant, type_)
        elif isinstance(filler, FillLinear):
            value = self._on_line(name, type_)
        else:
            value = over(self._only(name, type_), self._run(name))
        is_added = binary(exp.EQ, self.names.column(_ADDED), 1)
        return self.target.typed(case([(is_added, value)], column), type_)

    def _on_line(self, name: str, type_: str) -> exp.Expr:
        """Return the value on the line between the nearest values.

        Raises:
            NotPortable: The target cannot round it like Spark.
        """
        parts = (name + part for part in (_BEFORE, _AFTER, _PASSED, _LENGTH))
        before, after, passed, length = self.ctes.items(*parts)
        if type_ in FLOATING:
            return _line_of_doubles(before, after, (passed, length), type_, self.target)
        rest = binary(exp.Sub, length, passed)
        products = [
            self.target.product(_whole(value, type_, self.target), factor, type_)
            for value, factor in ((before, rest), (after, passed))
        ]
        digits = decimal_digits(type_)
        scale, of_line = (digits[1], type_) if digits is not None else (0, "bigint")
        total = binary(exp.Add, *products)
        line = self.target.rounded_quotient(total, scale, length, scale, of_line)
        if line is None:
            refuse_part(
                f"LINEAR of {shown_type(type_)} is rounded differently on {self.target.title}",
                "LINEAR",
                "cast the aggregate to DOUBLE",
            )
        match type_:
            case "date":
                days = cast(line, "int")
                return self.target.month_function("DATE_FROM_UNIX_DATE", [days]) or line
            case "timestamp" | "timestamp_ntz":
                return self.target.from_us(line, type_)
        return line if digits is not None else cast(line, type_)


def _whole(value: exp.Expr, type_: str, target: Target) -> exp.Expr:
    """Return a date in days and a time in microseconds since 1970, other values unchanged."""
    match type_:
        case "date":
            return target.month_function("UNIX_DATE", [value]) or value
        case "timestamp" | "timestamp_ntz":
            return target.to_us(value, type_)
    return value


def _line_of_doubles(
    before: exp.Expr,
    after: exp.Expr,
    times: tuple[exp.Expr, exp.Expr],
    type_: str,
    target: Target,
) -> exp.Expr:
    """Return the value on a line, as the kernel `interpolate` computes it.

    Args:
        before: First value.
        after: Second value.
        times: Times from the first value to the result and to the second value, DOUBLE.
        type_: `float` or `double`.
        target: Engine.
    """
    first, second = (cast(v, "double") if type_ == "float" else v for v in (before, after))
    share = binary(exp.Div, *times)
    line = binary(
        exp.Add, first, binary(exp.Mul, exp.Paren(this=binary(exp.Sub, second, first)), share)
    )
    rest = exp.Paren(this=binary(exp.Sub, target.double(1.0), share))
    apart = binary(exp.Add, binary(exp.Mul, first, rest), binary(exp.Mul, second, share))
    halves = (binary(exp.Mul, value, target.double(0.5)) for value in (second, first))
    is_finite = binary(exp.LTE, call("ABS", binary(exp.Sub, *halves)), target.double(_MAX_HALF))
    # the difference of two huge values is infinite
    result = case([(is_finite, line)], apart)
    return cast(result, type_) if type_ == "float" else result


def _bigint(time_us: int) -> exp.Expr:
    return cast(number(time_us), "bigint")
