"""Read the call of a window table function: its window, data columns and window columns."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.nodes.logical import (
    NamedExpr,
    Node,
    Project,
    WindowColumns,
    WindowTableFunction,
    columns_of,
)
from planner.sql.build import alias, column, is_timestamp, to_sql
from planner.sql.intervals import (
    fold_interval,
    is_in_weeks,
    render_duration,
    render_months,
)
from planner.sql.nodes import WINDOW_COLUMNS, WindowFunctionCall, error_at, position_of, span_of
from planner.sql.render import SparkSql
from runtime.errors import AnalysisError, ErrorKind, nearest
from runtime.shown_types import shown_type
from runtime.spec.intervals import IntervalValue
from runtime.spec.table import Column
from runtime.spec.windows import (
    DAY_US,
    LONGEST_MONTH_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    SessionWindow,
    Tumble,
    Window,
)

# More windows per row than this indicate a mistyped size: a year by the second has 31 million.
MAX_WINDOWS_PER_ROW = 10_000_000

# 1 January 1970 was a Thursday.
_MONDAY_US = -3 * DAY_US


def window_of(function: WindowFunctionCall, sql: str) -> Window:
    """Return the window that a function's arguments describe.

    Raises:
        AnalysisError: An argument is not a constant interval, or the sizes are inconsistent.
    """
    return _Parameters(function, sql).window()


class _Parameters:
    """Arguments of one window function."""

    def __init__(self, function: WindowFunctionCall, sql: str) -> None:
        self.function = function
        self.kind = function.kind
        self.sql = sql

    def window(self) -> Window:
        if self.kind == "TUMBLE":
            return self._tumble()
        if self.kind == "HOP":
            return self._hop()
        if self.kind == "CUMULATE":
            return self._cumulate()
        if self.kind == "GAP_FILL":
            return self._tumble("step")
        gap = self._positive("gap")
        if gap.months:
            raise self._error(
                "gap",
                f"the gap of SESSION must have a fixed length, but {_text(gap)} does not",
                "use days: INTERVAL '30' DAYS",
            )
        return SessionWindow(gap.us)

    def _tumble(self, parameter: str = "size") -> Tumble | CalendarTumble:
        size = self._positive(parameter)
        offset = self._offset(size, parameter)
        if size.months:
            return CalendarTumble(size.months, offset.months % size.months, offset.us)
        return Tumble(size.us, offset.us)

    def _hop(self) -> Hop | CalendarHop:
        slide, size = self._positive("slide"), self._positive("size")
        if bool(slide.months) != bool(size.months):
            raise self._error(
                "slide",
                "the slide and the size of HOP must both be calendar months or both "
                f"fixed lengths: slide {_text(slide)}, size {_text(size)}",
                "use months, quarters or years for both, or weeks, days or smaller units for both",
            )
        offset = self._offset(slide, "slide")
        if slide.months:
            hop = CalendarHop(slide.months, size.months, offset.months % slide.months, offset.us)
            windows = -(-hop.size_months // hop.slide_months)
        else:
            windows = -(-size.us // slide.us)
        if windows > MAX_WINDOWS_PER_ROW:
            raise self._error(
                "slide",
                f"HOP would assign every row to {windows:,} windows: size {_text(size)}, "
                f"slide {_text(slide)}",
                f"the maximum is {MAX_WINDOWS_PER_ROW:,} windows per row: use a longer slide",
            )
        return hop if slide.months else Hop(slide.us, size.us, offset.us)

    def _cumulate(self) -> Cumulate | CalendarCumulate:
        step, size = self._positive("step"), self._positive("size")
        self._check_step(step, size)
        offset, on_update = self._offset(size, "size"), self._emit_only_on_update()
        if not size.months:
            window: Cumulate | CalendarCumulate = Cumulate(step.us, size.us, offset.us, on_update)
        else:
            window = CalendarCumulate(
                size.months, step.months, step.us, offset.months % size.months, offset.us, on_update
            )
        if window.slices_per_window > MAX_WINDOWS_PER_ROW:
            raise self._error(
                "step",
                f"CUMULATE would assign a row to {window.slices_per_window:,} windows",
                f"the maximum is {MAX_WINDOWS_PER_ROW:,} windows per row: use a longer step",
            )
        return window

    def _check_step(self, step: IntervalValue, size: IntervalValue) -> None:
        sizes = f"step {_text(step)}, size {_text(size)}"
        hint = "CUMULATE takes the step first, then the maximum size, a multiple of the step"
        if step.months and not size.months:
            raise self._error(
                "step",
                f"the size of CUMULATE must be in months if the step is: {sizes}",
                f"{hint}; they look swapped",
            )
        if size.months and step.us:
            # Any step is valid, because the last one of a window is cut off at its end.
            if step.us < size.months * LONGEST_MONTH_US:
                return
            raise self._error(
                "step", f"the step of CUMULATE must be shorter than the size: {sizes}", hint
            )
        length, step_length = (size.months, step.months) if size.months else (size.us, step.us)
        if length % step_length:
            if step_length > length and step_length % length == 0:
                hint += "; they look swapped"
            raise self._error(
                "step", f"the size of CUMULATE must be a multiple of the step: {sizes}", hint
            )

    def _interval(self, parameter: str) -> IntervalValue:
        expr = self.function.args[parameter]
        try:
            return fold_interval(expr)
        except AnalysisError as error:
            error.position = error.position or position_of(expr, self.sql)
            error.sql = self.sql
            raise

    def _positive(self, parameter: str) -> IntervalValue:
        value = self._interval(parameter)
        if value.months and value.us:
            raise self._error(
                parameter,
                f"the {parameter} of {self.kind} must be in months or a fixed length, "
                f"but {_text(value)} mixes both",
                "use months, quarters or years, or weeks, days or smaller units",
            )
        if value.months < 0 or value.us < 0 or not (value.months or value.us):
            raise self._error(
                parameter,
                f"the {parameter} of {self.kind} must be positive, not {_text(value)}",
                f"for example INTERVAL '10' MINUTE as the {parameter}",
            )
        return value

    def _offset(self, stride: IntervalValue, parameter: str) -> IntervalValue:
        """Return the offset. Weeks start on Monday and therefore have a default offset.

        Args:
            stride: Distance between windows. An offset in months requires a distance in months.
            parameter: Name of the parameter that sets the stride.
        """
        offset = IntervalValue(0, 0)
        if self.function.args.get("offset"):
            offset = self._interval("offset")
        if offset.months and not stride.months:
            raise self._error(
                "offset",
                f"the offset of {self.kind} cannot be in months if the {parameter} is "
                f"{_text(stride)}",
                "use weeks, days, hours, minutes or seconds for the offset",
            )
        if is_in_weeks(self.function.args[parameter]):
            return IntervalValue(0, offset.us + _MONDAY_US)
        return offset

    def _emit_only_on_update(self) -> bool:
        flag = self.function.args.get("emitonlyonupdate")
        if flag is None:
            return False
        if not isinstance(flag, exp.Boolean):
            raise self._error(
                "emitonlyonupdate",
                "EMITONLYONUPDATE must be TRUE or FALSE",
                "use EMITONLYONUPDATE => true",
            )
        return bool(flag.this)

    def _error(self, parameter: str, message: str, hint: str) -> AnalysisError:
        return error_at(self.sql, message, self.function.args[parameter], hint=hint)


def _text(value: IntervalValue) -> str:
    if not value.months:
        return render_duration(value.us)
    return render_months(value.months) + (f" {render_duration(value.us)}" if value.us else "")


# -- columns ---------------------------------------------------------------------------------------


def window_node(
    function: WindowFunctionCall, window: Window, source: Node, sql: str, *, takes_date: bool
) -> tuple[WindowTableFunction, str | None]:
    """Return the node of a window function, and the name of its time column if that is a DATE.

    In the node, that column holds the midnights of the dates.

    Args:
        function: The call.
        window: Window of the call's arguments, see `window_of`.
        source: Data of the call.
        sql: Text of the statement, for error positions.
        takes_date: Whether the time column may be a DATE.

    Raises:
        AnalysisError: A column does not exist, has the wrong type, or has a window column's name.
    """
    time = time_column(function, source.schema, sql, takes_date=takes_date)
    is_date = time.type == "date"
    if is_date:
        source, time = date_as_midnight(source, time)
    partition = partition_by_columns(function, source.schema, sql)
    names = function.args.get("names")
    if names:
        columns = WindowColumns(*(name.name for name in names))
    else:
        refuse_window_columns(function, source.schema, sql)
        columns = WindowColumns(*WINDOW_COLUMNS)
    if function.alias_column_names:
        old = [c.name for c in source.schema]
        source, columns, time = apply_column_names(function, source, time, sql)
        partition = tuple(source.schema[old.index(name)].name for name in partition)
    if isinstance(window, SessionWindow):
        window = replace(window, partition=partition)
    added = (
        Column(columns.start, "timestamp_ntz", False),
        Column(columns.end, "timestamp_ntz", False),
        Column(columns.time, time.type, False),
    )
    node = WindowTableFunction(
        source.schema + added,
        source,
        window,
        time.name,
        time.type,
        columns,
        place=span_of(function.this),
        time_place=span_of(function.args["timecol"]),
    )
    return node, time.name if is_date else None


def time_column(
    function: WindowFunctionCall, schema: Schema, sql: str, *, takes_date: bool = False
) -> Column:
    """Return the TIMESTAMP column that a window function's DESCRIPTOR names.

    Args:
        function: The call.
        schema: Schema of its data.
        sql: Text of the statement.
        takes_date: Whether the column may be a DATE too.

    Raises:
        AnalysisError: The column does not exist or has another type.
    """
    descriptor = function.args["timecol"]
    column = column_named(schema, descriptor.name)
    times = [f"`{c.name}`" for c in schema if is_timestamp(c.type)]
    hint = "time columns: " + ", ".join(times) if times else None
    if column is None:
        close = nearest(descriptor.name, [c.name for c in schema])
        raise error_at(
            sql,
            f"column `{descriptor.name}` does not exist in the data of {function.kind}",
            descriptor,
            hint=f"did you mean `{close}`?" if close else hint,
            kind=ErrorKind.UNKNOWN_INPUT_COLUMN,
            subjects=(descriptor.name,),
        )
    if takes_date and column.type == "date":
        return column
    if not is_timestamp(column.type):
        # A group window over an expression has no column with a user's name.
        is_named = not column.name.startswith("$")
        shown = f"`{column.name}`" if is_named else "the expression"
        raise error_at(
            sql,
            f"the time column of {function.kind} must be TIMESTAMP or TIMESTAMP_LTZ, but "
            f"{shown} is {shown_type(column.type)}",
            descriptor,
            hint=hint or (_time_of(column, schema) if is_named else None),
            subjects=(column.name,) if is_named else (),
        )
    return column


def _time_of(time: Column, schema: Schema) -> str:
    """Return a hint how to turn a column of another type into a time."""
    name = column(time.name).sql(SparkSql)
    date = next((c for c in schema if c.type == "date"), None)
    if time.type == "string" and date is not None:
        day = column(date.name).sql(SparkSql)
        return f"if it is a time of day, add the date: {day} + {name}"
    if time.type in ("int", "bigint"):
        return (
            f"convert it in a subquery: TIMESTAMP_MILLIS({name}), TIMESTAMP_SECONDS or "
            "TIMESTAMP_MICROS"
        )
    return f"convert it in a subquery: CAST({name} AS TIMESTAMP)"


def date_as_midnight(source: Node, date: Column) -> tuple[Node, Column]:
    """Return the data with a DATE column as the TIMESTAMP of its midnight, and that column."""
    time = replace(date, type="timestamp_ntz")
    schema = tuple(time if col == date else col for col in source.schema)
    to = exp.DataType.build("TIMESTAMP_NTZ", dialect=SparkSql)
    items = tuple(
        NamedExpr(c.name, exp.Cast(this=column(c.name), to=to) if c == time else column(c.name))
        for c in schema
    )
    return Project(schema, source, items), time


def with_date(node: WindowTableFunction, date: str | None) -> Node:
    """Return the rows of a window function with the time column as a DATE, as in the data.

    Args:
        node: The window function, whose column `date` is the TIMESTAMP of midnight.
        date: Name of the column. None if it is a TIMESTAMP in the data.
    """
    if date is None:
        return node
    schema = tuple(replace(c, type="date") if c.name == date else c for c in node.schema)
    items = tuple(
        NamedExpr(c.name, cast_to_date(column(c.name)) if c.name == date else column(c.name))
        for c in schema
    )
    return Project(schema, node, items)


def reading_date(select: exp.Select, date: str) -> exp.Select:
    """Return a SELECT over a window function that reads the column `date` as a DATE.

    The input column is the TIMESTAMP of midnight. Output names in ORDER BY are unchanged, because
    they refer to dates already.
    """
    select = select.copy()
    outputs = {item.alias_or_name.lower() for item in select.selects}
    parts: list[exp.Expr] = list(select.iter_expressions())
    for part in parts:
        if part.arg_key in ("from_", "with_"):
            continue
        reads = [
            read
            for read in part.find_all(exp.Column)
            if read.name.lower() == date.lower()
            and (part.arg_key != "order" or read.table or date.lower() not in outputs)
        ]
        if not reads:
            continue
        name = part.name if isinstance(part, exp.Column) else to_sql(part)
        new = part
        for read in reads:
            if read is part:
                new = cast_to_date(read.copy())
            else:
                read.replace(cast_to_date(read.copy()))
        if part.arg_key == "expressions" and not isinstance(part, exp.Alias):
            new = alias(new, name)  # keep the output name
        if new is not part:
            part.replace(new)
    return select


def cast_to_date(time: exp.Expr) -> exp.Expr:
    """Build `CAST(time AS DATE)`."""
    return exp.Cast(this=time, to=exp.DataType.build("date"))


def partition_by_columns(function: WindowFunctionCall, schema: Schema, sql: str) -> tuple[str, ...]:
    """Return the columns of PARTITION BY under their names in the data."""
    names = []
    for key in function.args.get("partition") or []:
        column = column_named(schema, key.name)
        if column is None:
            close = nearest(key.name, [c.name for c in schema])
            hint = f"did you mean `{close}`?" if close else None
            message = (
                f"column `{key.name}` in PARTITION BY does not exist in the data of {function.kind}"
            )
            kind = ErrorKind.UNKNOWN_INPUT_COLUMN
            raise error_at(sql, message, key, hint=hint, kind=kind, subjects=(key.name,))
        names.append(column.name)
    return tuple(dict.fromkeys(names))


def refuse_window_columns(function: WindowFunctionCall, schema: Schema, sql: str) -> None:
    """Raise an AnalysisError if the data already has one of the window columns."""
    reserved = [name for name in WINDOW_COLUMNS if column_named(schema, name)]
    if reserved:
        message = f"the data of {function.kind} already has a column `{reserved[0]}`"
        hint = f"rename it in a subquery: SELECT {reserved[0]} AS inner_{reserved[0]}, ..."
        places = (function.args["data"], function.this)
        raise error_at(sql, message, *places, hint=hint, subjects=(reserved[0],))


def apply_column_names(
    function: WindowFunctionCall, source: Node, time: Column, sql: str
) -> tuple[Node, WindowColumns, Column]:
    """Apply the column names of `AS t(a, b, ..., ws, we, wt)` to the data and window columns."""
    alias = function.args["alias"]
    names = [c.name for c in alias.columns]
    if len(names) != len(source.schema) + 3:
        n_columns = len(source.schema) + 3
        message = f"{function.kind} produces {n_columns} columns, but the alias names {len(names)}"
        hint = "the columns of the data come first, then window_start, window_end, window_time"
        raise error_at(sql, message, alias, hint=hint)
    renamed = tuple(replace(c, name=name) for c, name in zip(source.schema, names, strict=False))
    old_names = [c.name for c in source.schema]
    time = renamed[old_names.index(time.name)]
    return columns_of(source, renamed, old_names), WindowColumns(*names[-3:]), time
